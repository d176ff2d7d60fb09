//! A process that is not our child: is it still there, and how it is ended.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde::{Deserialize, Serialize};

use super::system::wait_until;

/// A process by its id and its start, so that nobody ends another one that was given the same id later.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Process {
    /// Its id.
    pub pid: i32,
    /// When it began, in ticks since the machine did.
    started: u64,
}

impl Process {
    /// The process that has this id now. One that has ended and was not collected by its parent is none.
    pub fn of(pid: i32) -> Option<Self> {
        let stat = Stat::of(pid).filter(|stat| stat.state != 'Z' && stat.state != 'X')?;
        Some(Self { pid, started: stat.started })
    }

    /// The processes whose home is this folder or one in it: a server that has its own, and what it started.
    pub fn at_home_in(folder: &Path) -> Vec<Self> {
        let lives_here = |pid: &i32| {
            let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            let home = environment.split(|byte| *byte == 0).find_map(|entry| entry.strip_prefix(b"HOME="));
            home.is_some_and(|home| Path::new(OsStr::from_bytes(home)).starts_with(folder))
        };
        all().filter(lives_here).filter_map(Self::of).collect()
    }

    /// Whether it is still there.
    pub fn is_running(&self) -> bool {
        Self::of(self.pid) == Some(*self)
    }

    /// Sends it a signal; one that is gone gets none.
    pub fn signal(&self, signal: Signal) -> io::Result<()> {
        if !self.is_running() {
            return Ok(());
        }
        match kill(Pid::from_raw(self.pid), signal) {
            Ok(()) | Err(nix::errno::Errno::ESRCH) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Ends it and its children without giving them a chance to do anything about it.
    pub fn crash(&self) -> io::Result<()> {
        // A stopped parent starts no further child while we look.
        self.signal(Signal::SIGSTOP)?;
        let children = self.children();
        self.signal(Signal::SIGKILL)?;
        for child in &children {
            child.signal(Signal::SIGKILL)?;
        }
        let gone = || !self.is_running() && !children.iter().any(Self::is_running);
        if wait_until(Duration::from_secs(10), gone) {
            return Ok(());
        }
        Err(io::Error::other(format!("process {} or a child of it survives SIGKILL for 10 s", self.pid)))
    }

    /// Asks it to end with `signal`, and crashes it when it has not within the limit.
    pub fn end(&self, signal: Signal, limit: Duration) -> io::Result<()> {
        self.signal(signal)?;
        if wait_until(limit, || !self.is_running()) { Ok(()) } else { self.crash() }
    }

    fn children(&self) -> Vec<Self> {
        all().filter(|pid| Stat::of(*pid).is_some_and(|stat| stat.parent == self.pid)).filter_map(Self::of).collect()
    }
}

/// The ids of all processes.
fn all() -> impl Iterator<Item = i32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// The part of `/proc/PID/stat` we need.
struct Stat {
    state: char,
    parent: i32,
    started: u64,
}

impl Stat {
    fn of(pid: i32) -> Option<Self> {
        let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // The name in parentheses may itself contain spaces and parentheses; the numbers begin after the last one.
        let fields: Vec<&str> = text.rsplit_once(')')?.1.split_whitespace().collect();
        Some(Self {
            state: fields.first()?.chars().next()?,
            parent: fields.get(1)?.parse().ok()?,
            started: fields.get(19)?.parse().ok()?,
        })
    }
}
