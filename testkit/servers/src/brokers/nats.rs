//! NATS with JetStream: one server for everybody, and one with TLS and passwords, because a server has one listener.

use std::io;
use std::path::PathBuf;
use std::process::Command;

use super::{LIMITED_USER, PASSWORD, USER};
use crate::server::{Server, Site, says};
use crate::{Process, program};

/// A NATS server without any protection.
#[derive(Debug)]
pub struct Nats;

/// A NATS server that wants TLS and a password: [`super::USER`] may everything, [`super::LIMITED_USER`] nothing. It
/// checks the certificates of clients that show one.
#[derive(Debug)]
pub struct NatsTls;

/// A NATS server without JetStream, with these further lines of configuration.
#[derive(Debug)]
pub struct NatsPlain(pub &'static str);

/// A NATS server with these further lines of configuration, for a test that needs another login or limit.
#[derive(Debug)]
pub struct NatsWith(String);

impl NatsWith {
    /// One to start with [`OwnServer::start`](crate::OwnServer::start).
    pub fn lines(lines: impl Into<String>) -> &'static Self {
        Box::leak(Box::new(Self(lines.into())))
    }
}

impl Server for Nats {
    fn name(&self) -> &'static str {
        "nats"
    }

    fn start(&self, site: &Site) -> io::Result<Process> {
        run(site, &jetstream(site), &self.log(site))
    }

    fn answers(&self, site: &Site) -> bool {
        says(site.port, b"", b"INFO ")
    }

    fn log(&self, site: &Site) -> PathBuf {
        site.folder.join("nats.log")
    }
}

impl Server for NatsTls {
    fn name(&self) -> &'static str {
        "nats-tls"
    }

    fn start(&self, site: &Site) -> io::Result<Process> {
        let certificates = site.certificates();
        let server = certificates.server();
        let more = format!(
            "tls {{ cert_file: \"{}\", key_file: \"{}\", ca_file: \"{}\", timeout: 5 }}
authorization {{ users: [
  {{ user: {USER}, password: \"{PASSWORD}\" }}
  {{ user: {LIMITED_USER}, password: \"{PASSWORD}\", permissions: {{ publish: {{ deny: \">\" }} }} }}
] }}
",
            server.cert.display(),
            server.key.display(),
            certificates.ca().display(),
        );
        run(site, &(jetstream(site) + &more), &self.log(site))
    }

    fn answers(&self, site: &Site) -> bool {
        says(site.port, b"", b"INFO ")
    }

    fn log(&self, site: &Site) -> PathBuf {
        site.folder.join("nats.log")
    }
}

impl Server for NatsPlain {
    fn name(&self) -> &'static str {
        "nats-plain"
    }

    fn start(&self, site: &Site) -> io::Result<Process> {
        run(site, self.0, &self.log(site))
    }

    fn answers(&self, site: &Site) -> bool {
        says(site.port, b"", b"INFO ")
    }

    fn log(&self, site: &Site) -> PathBuf {
        site.folder.join("nats.log")
    }
}

impl Server for NatsWith {
    fn name(&self) -> &'static str {
        "nats-with"
    }

    fn start(&self, site: &Site) -> io::Result<Process> {
        run(site, &(jetstream(site) + &self.0), &self.log(site))
    }

    fn answers(&self, site: &Site) -> bool {
        says(site.port, b"", b"INFO ")
    }

    fn log(&self, site: &Site) -> PathBuf {
        site.folder.join("nats.log")
    }
}

fn jetstream(site: &Site) -> String {
    format!("jetstream {{ store_dir: \"{}/store\" }}\n", site.folder.display())
}

fn run(site: &Site, more: &str, log: &std::path::Path) -> io::Result<Process> {
    let text = format!("listen: \"127.0.0.1:{}\"\n{more}", site.port);
    let config = site.write("nats.conf", &text)?;
    let mut command = Command::new(program("nats-server", "nats-server")?);
    site.spawn(command.arg("--config").arg(config), log)
}
