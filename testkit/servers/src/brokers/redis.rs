//! Redis 7 with its append-only file, a plain listener for everybody and one with TLS and passwords.
//!
//! Listener `tls`. The user `default` has no password; [`super::USER`] may everything, [`super::LIMITED_USER`] nothing.

use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{LIMITED_USER, PASSWORD, USER};
use crate::server::{Server, Site, says};
use crate::{Process, program};

/// A Redis server.
#[derive(Debug)]
pub struct Redis;

/// The same with further lines of configuration, for a test that needs another limit or durability.
#[derive(Debug)]
pub struct RedisWith(String);

impl RedisWith {
    /// One to start with [`OwnServer::start`](crate::OwnServer::start).
    pub fn lines(lines: impl Into<String>) -> &'static Self {
        Box::leak(Box::new(Self(lines.into())))
    }
}

impl Server for Redis {
    fn name(&self) -> &'static str {
        "redis"
    }

    fn listeners(&self) -> &'static [&'static str] {
        &["tls"]
    }

    fn start(&self, site: &Site) -> io::Result<Process> {
        run(site, "", &self.log(site))
    }

    fn answers(&self, site: &Site) -> bool {
        says(site.port, b"PING\r\n", b"+PONG")
    }

    fn log(&self, site: &Site) -> PathBuf {
        site.folder.join("redis.log")
    }
}

impl Server for RedisWith {
    fn name(&self) -> &'static str {
        "redis-with"
    }

    fn listeners(&self) -> &'static [&'static str] {
        Redis.listeners()
    }

    fn start(&self, site: &Site) -> io::Result<Process> {
        run(site, &self.0, &self.log(site))
    }

    fn answers(&self, site: &Site) -> bool {
        Redis.answers(site)
    }

    fn log(&self, site: &Site) -> PathBuf {
        Redis.log(site)
    }
}

fn run(site: &Site, more: &str, log: &Path) -> io::Result<Process> {
    let (folder, certificates) = (site.folder.display(), site.certificates());
    let server = certificates.server();
    let config = site.write(
        "redis.conf",
        &format!(
            "bind 127.0.0.1
port {}
tls-port {}
tls-cert-file {}
tls-key-file {}
tls-ca-cert-file {}
tls-auth-clients optional
dir {folder}
appendonly yes
save \"\"
user {USER} on >{PASSWORD} ~* &* +@all
user {LIMITED_USER} on >{PASSWORD} ~nothing +ping
{more}
",
            site.port,
            site.port_of("tls"),
            server.cert.display(),
            server.key.display(),
            certificates.ca().display(),
        ),
    )?;
    let mut command = Command::new(program("redis-server", "redis-server")?);
    site.spawn(command.arg(config), log)
}
