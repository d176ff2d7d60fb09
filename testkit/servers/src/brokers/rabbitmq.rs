//! RabbitMQ with a plain listener and one with TLS.
//!
//! Listener `tls`; who shows the certificate of [`CLIENT_NAME`] there may log in with it (`EXTERNAL`). [`super::USER`] may
//! everything, [`super::LIMITED_USER`] nothing, and `guest` is there as ever.

use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{LIMITED_USER, PASSWORD, USER};
use crate::certificates::CLIENT_NAME;
use crate::server::{PATIENCE, Server, Site, says};
use crate::{Process, other_program, run, wait_until};

/// Debian's scripts on the path change the user; these do not. Another version's come first.
const PROGRAMS: &str = "/usr/lib/rabbitmq/bin";

/// A RabbitMQ node.
#[derive(Debug)]
pub struct RabbitMq;

impl RabbitMq {
    /// Runs `rabbitmqctl` on the node.
    pub fn control(site: &Site, arguments: &[&str]) -> io::Result<()> {
        run(Self::command(site, "rabbitmqctl").args(["--quiet", "--node", &node(site)]).args(arguments))
    }

    fn command(site: &Site, program: &str) -> Command {
        let mut command = Command::new(other_program(program).unwrap_or_else(|| Path::new(PROGRAMS).join(program)));
        let folder = &site.folder;
        command
            .env("HOME", folder)
            .env("RABBITMQ_NODENAME", node(site))
            .env("RABBITMQ_NODE_PORT", site.port.to_string())
            .env("RABBITMQ_DIST_PORT", site.port_of("dist").to_string())
            .env("RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS", "-kernel inet_dist_use_interface {127,0,0,1}")
            .env("RABBITMQ_MNESIA_BASE", folder.join("mnesia"))
            .env("RABBITMQ_LOG_BASE", folder.join("log"))
            .env("RABBITMQ_PID_FILE", folder.join("pid"))
            .env("RABBITMQ_ENABLED_PLUGINS_FILE", folder.join("plugins"))
            .env("RABBITMQ_CONFIG_FILE", folder.join("rabbitmq.conf"))
            .env("ERL_EPMD_PORT", site.port_of("epmd").to_string())
            .env("ERL_EPMD_ADDRESS", "127.0.0.1")
            // Every scheduler spins a while before it sleeps; the machine has better uses.
            .env("RABBITMQ_SERVER_ERL_ARGS", "+P 1048576 +t 5000000 +stbt db +zdbbl 128000 +sbwt none")
            .env("LC_ALL", "C.UTF-8");
        command
    }
}

impl Server for RabbitMq {
    fn name(&self) -> &'static str {
        "rabbitmq"
    }

    fn listeners(&self) -> &'static [&'static str] {
        &["tls", "dist", "epmd"]
    }

    fn start(&self, site: &Site) -> io::Result<Process> {
        site.write("rabbitmq.conf", &settings(site))?;
        site.write("definitions.json", &definitions())?;
        site.write("plugins", "[rabbitmq_auth_mechanism_ssl].\n")?;
        let pid = site.folder.join("pid");
        let _ = std::fs::remove_file(&pid);
        let script = site.spawn(&mut Self::command(site, "rabbitmq-server"), &self.log(site))?;
        let mut node = None;
        wait_until(PATIENCE, || {
            node = std::fs::read_to_string(&pid).ok().and_then(|text| Process::of(text.trim().parse().ok()?));
            node.is_some() || !script.is_running()
        });
        node.ok_or_else(|| io::Error::other(format!("RabbitMQ writes no process id; {}", crate::tail(&self.log(site)))))
    }

    fn answers(&self, site: &Site) -> bool {
        says(site.port, b"AMQP\x00\x00\x09\x01", b"\x01\x00\x00")
    }

    fn log(&self, site: &Site) -> PathBuf {
        site.folder.join("rabbitmq.log")
    }
}

/// Nodes of one machine need different names.
fn node(site: &Site) -> String {
    format!("postroom{}@localhost", site.port)
}

fn settings(site: &Site) -> String {
    let certificates = site.certificates();
    let server = certificates.server();
    format!(
        "listeners.tcp.1 = 127.0.0.1:{}
listeners.ssl.1 = 127.0.0.1:{}
ssl_options.cacertfile = {}
ssl_options.certfile = {}
ssl_options.keyfile = {}
ssl_options.verify = verify_peer
ssl_options.fail_if_no_peer_cert = false
auth_mechanisms.1 = PLAIN
auth_mechanisms.2 = AMQPLAIN
auth_mechanisms.3 = EXTERNAL
ssl_cert_login_from = common_name
load_definitions = {}/definitions.json
disk_free_limit.absolute = 50MB
vm_memory_high_watermark.absolute = 1GB
vm_memory_calculation_strategy = erlang
log.file = false
log.console = true
log.console.level = info
",
        site.port,
        site.port_of("tls"),
        certificates.ca().display(),
        server.cert.display(),
        server.key.display(),
        site.folder.display(),
    )
}

fn definitions() -> String {
    let user = |name: &str, password: &str, tags: &str| serde_json::json!({ "name": name, "password": password, "tags": tags });
    let may = |name: &str, what: &str| serde_json::json!({ "user": name, "vhost": "/", "configure": what, "write": what, "read": what });
    serde_json::json!({
        "vhosts": [{ "name": "/" }],
        "users": [
            user("guest", "guest", "administrator"),
            user(USER, PASSWORD, ""),
            user(LIMITED_USER, PASSWORD, ""),
            user(CLIENT_NAME, PASSWORD, ""),
        ],
        "permissions": [may("guest", ".*"), may(USER, ".*"), may(LIMITED_USER, "^$"), may(CLIENT_NAME, ".*")],
    })
    .to_string()
}
