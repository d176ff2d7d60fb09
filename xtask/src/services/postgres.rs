//! PostgreSQL of this Debian, with the template that tests copy for clusters of their own; and other versions of it.

use std::io;
use std::path::PathBuf;
use std::process::Command;

use nix::sys::signal::Signal;
use postroom_servers::{Postmaster, Process, Server, Site, State, owned_folder, postgres_programs, program, run};

const SETTINGS: &[(&str, &str)] = &[
    ("max_connections", "300"),
    ("max_prepared_transactions", "50"),
    ("max_wal_size", "2GB"),
    ("shared_buffers", "256MB"),
];

/// For servers that nobody crashes: a test that does has a cluster of its own. Tests make a database each, which is written to
/// disk as a whole: they take a third of the time.
/// All of the buffers are searched whenever a database is made or dropped.
const HASTY: &[(&str, &str)] = &[("fsync", "off"), ("full_page_writes", "off"), ("shared_buffers", "32MB")];

/// Set for servers that only tests use: benchmarks use the shared ones as well, and what they measure is written to disk.
pub(crate) const FOR_TESTS: &str = "XTASK_FOR_TESTS";

pub(super) struct Postgres;

impl Server for Postgres {
    fn name(&self) -> &'static str {
        "postgres"
    }

    fn prepare(&self, site: &Site, so_far: &State) -> io::Result<()> {
        let template = so_far.template();
        owned_folder(&template)?;
        Postmaster::new(template.clone(), site.port).init()?;
        let postmaster = Postmaster::new(site.folder.clone(), site.port);
        postmaster.copy_of(&template)?;
        postmaster.configure(SETTINGS)?;
        if std::env::var_os(FOR_TESTS).is_some() { postmaster.configure(HASTY) } else { Ok(()) }
    }

    fn start(&self, site: &Site) -> io::Result<Process> {
        Postmaster::new(site.folder.clone(), site.port).start()
    }

    fn answers(&self, site: &Site) -> bool {
        select_one(site.port)
    }

    fn log(&self, site: &Site) -> PathBuf {
        Postmaster::new(site.folder.clone(), site.port).log()
    }

    /// Its fast shutdown.
    fn stop_signal(&self) -> Signal {
        Signal::SIGINT
    }
}

/// PostgreSQL of another version than this Debian's.
pub(super) struct OtherPostgres {
    pub(super) name: &'static str,
    pub(super) version: &'static str,
}

impl OtherPostgres {
    fn postmaster(site: &Site) -> Postmaster {
        // In the servers' own folder: the user that PostgreSQL runs as may not look into anybody's home.
        Postmaster::new(site.folder.join("data"), site.port).programs(Some(site.folder.join("programs/bin")))
    }
}

impl Server for OtherPostgres {
    fn name(&self) -> &'static str {
        self.name
    }

    fn prepare(&self, site: &Site, _so_far: &State) -> io::Result<()> {
        if let Some(programs) = postgres_programs(self.version)?.parent() {
            run(Command::new("cp").arg("-r").arg(programs).arg(site.folder.join("programs")))?;
        }
        let postmaster = Self::postmaster(site);
        owned_folder(postmaster.data())?;
        postmaster.init()?;
        postmaster.configure(SETTINGS)?;
        postmaster.configure(HASTY)
    }

    fn start(&self, site: &Site) -> io::Result<Process> {
        Self::postmaster(site).start()
    }

    fn answers(&self, site: &Site) -> bool {
        select_one(site.port)
    }

    fn log(&self, site: &Site) -> PathBuf {
        Self::postmaster(site).log()
    }

    /// Its fast shutdown.
    fn stop_signal(&self) -> Signal {
        Signal::SIGINT
    }
}

/// Whether whoever listens there brings a statement to a server and its answer back.
pub(super) fn select_one(port: u16) -> bool {
    let Ok(psql) = program("psql", "postgresql-client") else { return false };
    let mut ask = Command::new(psql);
    ask.args(["--no-psqlrc", "--quiet", "--host=127.0.0.1", "--username=postgres", "--dbname=postgres"]);
    ask.arg(format!("--port={port}")).args(["--command", "select 1"]);
    ask.output().is_ok_and(|output| output.status.success())
}
