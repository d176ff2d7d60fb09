//! PgBouncer in front of the shared PostgreSQL, as hosting providers run it: a session is only one's own for the length
//! of a transaction. Two connections per user and database, so that tests notice what they left behind in a session.
//!
//! Its console is the database `pgbouncer`, for the user `postgres`.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use nix::sys::signal::Signal;
use postroom_servers::{
    LOCKED_PASSWORD, LOCKED_ROLE, PATIENCE, Process, Server, Site, State, as_postgres, program, run, wait_until,
};

pub(super) struct PgBouncer;

impl Server for PgBouncer {
    fn name(&self) -> &'static str {
        "pgbouncer"
    }

    fn prepare(&self, site: &Site, so_far: &State) -> io::Result<()> {
        let postgres = so_far.servers.get("postgres").map(|running| running.site.port);
        let postgres = postgres.ok_or_else(|| io::Error::other("PgBouncer needs PostgreSQL"))?;
        fs::write(site.folder.join("pgbouncer.ini"), settings(&site.folder, site.port, postgres))?;
        fs::write(site.folder.join("access"), access())?;
        fs::write(site.folder.join("users"), format!("\"postgres\" \"\"\n\"{LOCKED_ROLE}\" \"{LOCKED_PASSWORD}\"\n"))
    }

    fn start(&self, site: &Site) -> io::Result<Process> {
        let config = site.folder.join("pgbouncer.ini");
        run(as_postgres(program("pgbouncer", "pgbouncer")?).arg("--daemon").arg(config))?;
        let mut process = None;
        wait_until(PATIENCE, || {
            process = written_process(&site.folder);
            process.is_some()
        });
        process.ok_or_else(|| io::Error::other("PgBouncer writes no process id"))
    }

    fn answers(&self, site: &Site) -> bool {
        super::postgres::select_one(site.port)
    }

    fn log(&self, site: &Site) -> PathBuf {
        site.folder.join("pgbouncer.log")
    }

    /// Its immediate shutdown; the milder one waits for clients.
    fn stop_signal(&self) -> Signal {
        Signal::SIGTERM
    }
}

fn written_process(folder: &Path) -> Option<Process> {
    Process::of(fs::read_to_string(folder.join("pid")).ok()?.trim().parse().ok()?)
}

/// `extra_float_digits` is what most drivers, also ours, send and PgBouncer does not know.
fn settings(folder: &Path, port: u16, postgres: u16) -> String {
    let folder = folder.display();
    format!(
        "[databases]
* = host=127.0.0.1 port={postgres}

[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
logfile = {folder}/pgbouncer.log
pidfile = {folder}/pid
auth_type = hba
auth_hba_file = {folder}/access
auth_file = {folder}/users
admin_users = postgres
pool_mode = transaction
default_pool_size = 4
max_client_conn = 500
server_idle_timeout = 60
ignore_startup_parameters = extra_float_digits
"
    )
}

fn access() -> String {
    format!("host all {LOCKED_ROLE} 127.0.0.1/32 scram-sha-256\nhost all all 127.0.0.1/32 trust\n")
}
