//! Where the shared servers are: the file that `cargo xtask services up` writes and tests read.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::certificates::{self, Certificates};
use super::{Process, Site};

/// What `services up` has started.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct State {
    /// Everything the servers write is in here.
    pub folder: PathBuf,
    /// By name.
    pub servers: BTreeMap<String, Running>,
}

/// One server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Running {
    /// Where it lives and listens.
    pub site: Site,
    /// What to ask whether it is there, and to end.
    pub process: Process,
}

impl State {
    /// `services/services.json` in cargo's target folder; another folder than `services` if `XTASK_SERVICES` names one.
    pub fn path() -> PathBuf {
        let folder = std::env::var_os("XTASK_SERVICES").unwrap_or_else(|| "services".into());
        target().join(folder).join("services.json")
    }

    /// What was fetched for servers, whichever are started.
    pub fn downloads() -> PathBuf {
        target().join("services")
    }

    /// What is written at [`State::path`]; nothing when there is no such file.
    pub fn read() -> io::Result<Option<Self>> {
        let path = Self::path();
        match fs::read(&path) {
            Ok(bytes) => serde_json::from_slice(&bytes).map(Some).map_err(|error| {
                io::Error::other(format!("{}: {error}: delete it, and end the servers it names", path.display()))
            }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Writes it to [`State::path`], whole or not at all.
    pub fn write(&self) -> io::Result<()> {
        let path = Self::path();
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        let new = path.with_extension("new");
        fs::write(&new, serde_json::to_vec_pretty(self)?)?;
        fs::rename(new, path)
    }

    /// Removes the file.
    pub fn forget() -> io::Result<()> {
        match fs::remove_file(Self::path()) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    /// A freshly made data folder that is only ever copied: `initdb` takes most of a second, a copy 40 ms.
    pub fn template(&self) -> PathBuf {
        self.folder.join("template")
    }

    /// What the servers show to those who want to talk in private.
    pub fn certificates(&self) -> Certificates {
        Certificates::at(certificates::folder(&self.folder))
    }

    /// The tests' own brokers, here for the same reason as [`State::clusters`].
    pub fn own(&self) -> PathBuf {
        self.folder.join("own")
    }

    /// The tests' own clusters, here so that `services down` finds those whose test was killed.
    pub fn clusters(&self) -> PathBuf {
        self.folder.join("clusters")
    }
}

fn target() -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| "target".into(), PathBuf::from);
    workspace().join(target)
}

/// The nearest folder above the running crate that has a lock file.
fn workspace() -> PathBuf {
    let here = std::env::var_os("CARGO_MANIFEST_DIR").map_or_else(|| env!("CARGO_MANIFEST_DIR").into(), PathBuf::from);
    let found = here.ancestors().find(|folder| folder.join("Cargo.lock").is_file()).map(Path::to_path_buf);
    found.unwrap_or(here)
}
