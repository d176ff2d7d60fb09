//! A disk that is soon full.

#![allow(clippy::expect_used, clippy::unwrap_used, reason = "a test without its disk has nothing to prove")]

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use postroom_servers::{run, unique_folder};

/// A disk in memory; gone when it is dropped.
#[derive(Debug)]
pub struct SmallDisk(PathBuf);

impl SmallDisk {
    /// Mounts an empty one.
    ///
    /// # Panics
    ///
    /// When it cannot be mounted.
    pub fn new(megabytes: u32) -> Self {
        let folder = unique_folder("postroom-disk").unwrap();
        let size = format!("size={megabytes}m");
        let mut mount = Command::new("mount");
        run(mount.args(["-t", "tmpfs", "-o", &size, "tmpfs"]).arg(&folder))
            .expect("a small disk can be mounted: this test runs as root");
        Self(folder)
    }

    /// Where it is mounted.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Takes all the room that is left; removing the file gives it back.
    ///
    /// # Panics
    ///
    /// When the file cannot be made.
    pub fn fill(&self) -> PathBuf {
        let ballast = self.0.join("ballast");
        let mut file = OpenOptions::new().create(true).append(true).open(&ballast).unwrap();
        for size in [1 << 20, 4096] {
            while file.write_all(&vec![1; size]).is_ok() {}
        }
        ballast
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let gone = run(Command::new("umount").arg("--lazy").arg(&self.0)).and_then(|()| fs::remove_dir(&self.0));
        assert!(gone.is_ok() || std::thread::panicking(), "{gone:?}");
    }
}
