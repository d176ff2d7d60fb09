//! PostgreSQL 15, and the template that tests copy for clusters of their own.

use std::io;
use std::path::PathBuf;
use std::process::Command;

use nix::sys::signal::Signal;
use postroom_conformance::servers::{Postmaster, Process, Server, Site, State, owned_folder, program};

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

    fn prepare(&self, site: &Site, so_far: &State) -> io::Result<()> {
        let template = so_far.template();
        owned_folder(&template)?;
        Postmaster::new(template.clone(), site.port).init()?;
        let postmaster = Postmaster::new(site.folder.clone(), site.port);
        postmaster.copy_of(&template)?;
        postmaster.configure(SETTINGS)
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

/// Whether whoever listens there brings a statement to a server and its answer back.
pub(super) fn select_one(port: u16) -> bool {
    let Ok(psql) = program("psql", "postgresql-client") else { return false };
    let mut ask = Command::new(psql);
    ask.args(["--no-psqlrc", "--quiet", "--host=127.0.0.1", "--username=postgres", "--dbname=postgres"]);
    ask.arg(format!("--port={port}")).args(["--command", "select 1"]);
    ask.output().is_ok_and(|output| output.status.success())
}
