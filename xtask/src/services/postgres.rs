//! PostgreSQL 15, and the template that tests copy for clusters of their own.

use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use nix::sys::signal::Signal;
use postroom_conformance::servers::{Postmaster, Process, State, owned_folder, program};

use super::Server;

const SETTINGS: &[(&str, &str)] = &[
    ("max_connections", "300"),
    ("max_prepared_transactions", "50"),
    ("max_wal_size", "2GB"),
    ("shared_buffers", "256MB"),
];

pub(super) struct Postgres;

impl Server for Postgres {
    fn name(&self) -> &'static str {
        "postgres"
    }

    fn start(&self, folder: &Path, port: u16, so_far: &State) -> io::Result<Process> {
        let template = so_far.template();
        owned_folder(&template)?;
        Postmaster::new(template.clone(), port).init()?;
        let postmaster = Postmaster::new(folder.to_owned(), port);
        postmaster.copy_of(&template)?;
        postmaster.configure(SETTINGS)?;
        postmaster.start()
    }

    fn answers(&self, port: u16) -> bool {
        select_one(port)
    }

    fn log(&self, folder: &Path) -> PathBuf {
        Postmaster::new(folder.to_owned(), 0).log()
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
