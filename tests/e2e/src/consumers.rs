//! Consumers in Python, with clients that are not ours: what they find in a broker is what is there.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use postroom_testbed::{State, free_port};

use crate::running::Running;
use crate::wait::until;
use crate::world::World;

/// The clients, as published.
const PACKAGES: [&str; 4] = ["aiokafka==0.14.0", "pika==1.3.2", "nats-py==2.11.0", "redis==6.4.0"];

/// Reads all there is with the consumer of this name, and adds it to the world's journal.
pub fn consume(world: &World, consumer: &str, arguments: &[&str]) {
    let journal = world.path("journal");
    let mut lines = fs::read(&journal).unwrap_or_default();
    lines.extend(printed(consumer, arguments).bytes());
    fs::write(journal, lines).unwrap();
}

/// What the consumer of this name prints of all there is.
pub fn printed(consumer: &str, arguments: &[&str]) -> String {
    let output = python(consumer).args(arguments).output().unwrap();
    assert!(output.status.success(), "{consumer}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// A receiver of webhooks that checks signatures and keeps the world's journal.
#[derive(Debug)]
pub struct Receiver<'w> {
    world: &'w World,
    /// Where it listens.
    pub port: u16,
    running: Option<Running>,
}

impl<'w> Receiver<'w> {
    /// What requests are signed with.
    pub const SECRET: &'static str = "whsec_C2FuYXJ5LWZvci10aGUtY2FtcGFpZ24tMQ==";

    /// Starts one.
    pub fn start(world: &'w World) -> Self {
        let mut receiver = Self { world, port: free_port().unwrap(), running: None };
        receiver.resume();
        receiver
    }

    /// Kills it: whoever was talking to it does not know what became of that.
    pub fn stop(&mut self) {
        if let Some(running) = self.running.take() {
            running.kill();
        }
    }

    /// Starts it again at the same place.
    pub fn resume(&mut self) {
        let (port, journal) = (self.port.to_string(), self.world.path("journal"));
        let mut command = python("receiver");
        command.args([port.as_str(), Self::SECRET]).arg(journal).arg("webhook");
        self.running = Some(Running::start(command));
        until("the receiver listens", || std::net::TcpStream::connect(("127.0.0.1", self.port)).is_ok());
    }
}

fn python(consumer: &str) -> Command {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("consumers/{consumer}.py"));
    let mut command = Command::new("python3");
    command.arg(script).env("PYTHONPATH", packages()).stdin(Stdio::null());
    command
}

/// Where the clients are, for `PYTHONPATH`; fetched once, beside the state of the servers.
pub fn packages() -> &'static Path {
    static FOUND: OnceLock<PathBuf> = OnceLock::new();
    FOUND.get_or_init(|| {
        let folder = State::path().with_file_name("python");
        // Several test programs may start at once; one of them fetches.
        let lock = File::create(folder.with_extension("lock")).unwrap();
        lock.lock().unwrap();
        if !folder.is_dir() {
            let new = folder.with_extension("new");
            let mut pip = Command::new("python3");
            pip.args(["-m", "pip", "install", "--quiet", "--root-user-action=ignore", "--target"]).arg(&new);
            let output = pip.args(PACKAGES).output().unwrap();
            assert!(output.status.success(), "pip: {}", String::from_utf8_lossy(&output.stderr));
            fs::rename(new, &folder).unwrap();
        }
        folder
    })
}
