//! `make run` with a database, topics and a port of its own.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::process::Command;

use postroom_conformance::servers::{free_port, unique_name};
use postroom_e2e::{packages, until};
use postroom_presets::{Kafka, Program, System};
use serde_json::Value;

/// The running service and its relay, which end before their database.
pub(crate) struct Service {
    run: Option<Program>,
    pub(crate) system: System,
    prefix: String,
    address: String,
    per_minute: String,
}

impl Service {
    /// `make run`, in an empty database.
    pub(crate) fn start(per_minute: &str) -> Self {
        let (system, address) = (System::bare("payments"), format!("127.0.0.1:{}", free_port().unwrap()));
        let per_minute = per_minute.to_owned();
        let mut service = Self { system, prefix: unique_name("payments"), address, per_minute, run: None };
        service.run = Some(service.program(&["make", "--silent", "run"], "run.log"));
        until("the service listens", || TcpStream::connect(&service.address).is_ok());
        service
    }

    /// A request; its status and what it says.
    pub(crate) fn post(&self, key: Option<&str>, body: &str) -> (u16, Value) {
        let key = key.map(|key| format!("Idempotency-Key: {key}\r\n")).unwrap_or_default();
        let head = format!("POST /payments HTTP/1.1\r\nHost: payments\r\nConnection: close\r\n{key}");
        let mut stream = TcpStream::connect(&self.address).unwrap();
        write!(stream, "{head}Content-Length: {}\r\n\r\n{body}", body.len()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        (head[9..12].parse().unwrap(), serde_json::from_str(body).unwrap())
    }

    /// A command of the README: what it prints.
    pub(crate) fn sh(&self, command: &str) -> String {
        let mut sh = Command::new("sh");
        sh.args(["-c", &command.replace("localhost:8000", &self.address)]);
        let output = self.with_environment(sh).output().unwrap();
        assert!(output.status.success(), "{command}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    /// The first so many lines that the consumer prints when it is run like this, which is then stopped.
    pub(crate) fn consumed(&self, command: &[&str], lines: usize) -> Vec<String> {
        let _consumer = self.program(command, "consumer.log");
        let printed = || std::fs::read_to_string(self.system.path("consumer.log")).unwrap();
        until("the consumer has printed its lines", || printed().lines().count() >= lines);
        printed().lines().map(str::to_owned).collect()
    }

    fn program(&self, command: &[&str], log: &str) -> Program {
        let mut program = Command::new(command[0]);
        program.args(&command[1..]);
        Program::start(self.with_environment(program), &self.system.path(log))
    }

    fn with_environment(&self, mut command: Command) -> Command {
        command.current_dir(env!("CARGO_MANIFEST_DIR")).env("PYTHONPATH", packages());
        command.env("SERVICE", env!("CARGO_BIN_EXE_payments")).env("POSTROOM", self.system.command(&[]).get_program());
        command.env("DATABASE_URL", self.system.url()).env("REDPANDA_BROKERS", Kafka::shared().brokers);
        command.env("KAFKA_TOPIC_PREFIX", &self.prefix).env("GROUP_ID", &self.prefix);
        command.env("OUTBOX_POLL_INTERVAL_SECONDS", "0.05").env("PAYMENTS_PER_MINUTE", &self.per_minute);
        command.env("LISTEN", &self.address);
        command
    }
}
