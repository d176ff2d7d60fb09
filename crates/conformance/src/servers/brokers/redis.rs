//! Redis 7 with its append-only file, a plain listener for everybody and one with TLS and passwords.
//!
//! Listener `tls`. The user `default` has no password; [`super::USER`] may everything, [`super::LIMITED_USER`] nothing.

use std::io;
use std::path::PathBuf;
use std::process::Command;

use super::super::server::{Server, Site, says};
use super::super::{Process, program};
use super::{LIMITED_USER, PASSWORD, USER};

/// A Redis server.
#[derive(Debug)]
pub struct Redis;

impl Server for Redis {
    fn name(&self) -> &'static str {
        "redis"
    }

    fn listeners(&self) -> &'static [&'static str] {
        &["tls"]
    }

    fn start(&self, site: &Site) -> io::Result<Process> {
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
",
                site.port,
                site.port_of("tls"),
                server.cert.display(),
                server.key.display(),
                certificates.ca().display(),
            ),
        )?;
        let mut command = Command::new(program("redis-server", "redis-server")?);
        site.spawn(command.arg(config), &self.log(site))
    }

    fn answers(&self, site: &Site) -> bool {
        says(site.port, b"PING\r\n", b"+PONG")
    }

    fn log(&self, site: &Site) -> PathBuf {
        site.folder.join("redis.log")
    }
}
