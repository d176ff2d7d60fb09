//! PgBouncer in front of the shared PostgreSQL, as hosting providers run it: a session is only one's own for the length
//! of a transaction. Two connections per user and database, so that tests notice what they left behind in a session.
//!
//! Its console is the database `pgbouncer`, for the user `postgres`.
//!
//! Another one has the settings that Debian's package comes with, but for files and ports: it pools sessions.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use nix::sys::signal::Signal;
use postroom_servers::{
    LOCKED_PASSWORD, LOCKED_ROLE, PATIENCE, Process, Server, Site, State, as_postgres, program, run, wait_until,
};

pub(super) enum PgBouncer {
    /// As hosting providers run it.
    Transactions,
    /// As Debian ships it.
    AsShipped,
}

/// What Debian's package puts there.
const SHIPPED: &str = "/etc/pgbouncer/pgbouncer.ini";

impl Server for PgBouncer {
    fn name(&self) -> &'static str {
        match self {
            Self::Transactions => "pgbouncer",
            Self::AsShipped => "pgbouncer-debian",
        }
    }

    fn prepare(&self, site: &Site, so_far: &State) -> io::Result<()> {
        let postgres = so_far.servers.get("postgres").map(|running| running.site.port);
        let postgres = postgres.ok_or_else(|| io::Error::other("PgBouncer needs PostgreSQL"))?;
        let settings = match self {
            Self::Transactions => settings(&site.folder, site.port, postgres),
            Self::AsShipped => shipped(&site.folder, site.port, postgres)?,
        };
        fs::write(site.folder.join("pgbouncer.ini"), settings)?;
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
"
    )
}

/// Debian's settings with our files, port and database; who connects needs no password.
fn shipped(folder: &Path, port: u16, postgres: u16) -> io::Result<String> {
    let folder = folder.display();
    let ours = [
        ("logfile", format!("{folder}/pgbouncer.log")),
        ("pidfile", format!("{folder}/pid")),
        ("listen_addr", "127.0.0.1".to_owned()),
        ("listen_port", port.to_string()),
        ("unix_socket_dir", String::new()),
        ("auth_type", "trust".to_owned()),
        ("auth_file", format!("{folder}/users")),
    ];
    let text = fs::read_to_string(SHIPPED).map_err(|error| io::Error::other(format!("{SHIPPED}: {error}")))?;
    let line = |line: &str| {
        if line == "[databases]" {
            return format!("{line}\n* = host=127.0.0.1 port={postgres}\n");
        }
        let name = line.split('=').next().unwrap_or_default().trim();
        match ours.iter().find(|(ours, _)| *ours == name) {
            Some((name, value)) => format!("{name} = {value}\n"),
            None => format!("{line}\n"),
        }
    };
    Ok(text.lines().map(line).collect())
}

fn access() -> String {
    format!("host all {LOCKED_ROLE} 127.0.0.1/32 scram-sha-256\nhost all all 127.0.0.1/32 trust\n")
}
