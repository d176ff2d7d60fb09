//! A folder with a configuration and databases of its own, and the real program run in it.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

use crate::binary::postroom;
use crate::journal::Journal;
use crate::running::Running;
use crate::wait::{until, within};

/// How long a command may be refused by a busy database.
const PATIENCE: Duration = Duration::from_mins(2);
/// How many logs, and how many lines of each, a failed test shows.
const RELAYS_SHOWN: usize = 4;
const LINES_SHOWN: usize = 12;

/// One test's own world. Its folder stays when the test fails.
#[derive(Debug)]
pub struct World {
    dir: TempDir,
    child: String,
    env: Vec<(String, String)>,
}

/// Exit code and output of a run of the program.
#[derive(Debug)]
pub struct ProgramOutput {
    /// The exit code.
    pub code: i32,
    /// Data.
    pub stdout: String,
    /// Everything else.
    pub stderr: String,
}

impl World {
    /// An empty folder. `child` is the path of `e2e-child`, which only the test's own build knows.
    pub fn new(child: &str) -> Self {
        Self { dir: tempfile::tempdir().unwrap(), child: child.to_owned(), env: Vec::new() }
    }

    /// A folder with this configuration and a migrated database; `{child}` becomes the command of an exec route.
    pub fn with(child: &str, config: &str) -> Self {
        let world = Self::new(child);
        world.configure(config);
        world.ok(&["store", "migrate", "up"]);
        world
    }

    /// Writes the configuration; `{child}` becomes the command of an exec route.
    pub fn configure(&self, config: &str) {
        let command = format!("[{:?}, \"journal\", \"mode\"]", self.child);
        self.write("postroom.toml", &config.replace("{child}", &command));
    }

    /// A variable of every program that is run from now on.
    pub fn set(&mut self, name: &str, value: &str) {
        self.env.push((name.to_owned(), value.to_owned()));
    }

    /// A path in the folder.
    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Writes a file, whole or not at all: a child reads its mode at any moment.
    pub fn write(&self, name: &str, text: &str) {
        let new = self.path(&format!("{name}.new"));
        fs::write(&new, text).unwrap();
        fs::rename(new, self.path(name)).unwrap();
    }

    /// From now on children answer like this.
    pub fn mode(&self, mode: &str) {
        self.write("mode", mode);
    }

    /// What the children received.
    pub fn journal(&self) -> Journal {
        Journal::at(self.path("journal"))
    }

    /// The program with these arguments, in this folder.
    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(postroom());
        command.args(args).current_dir(self.dir.path()).env_clear();
        command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command.env("HOME", self.dir.path()).env("TMPDIR", self.dir.path()).env("USER", "ada");
        command.envs(self.env.iter().map(|(name, value)| (name, value)));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Runs it to its end.
    pub fn run(&self, args: &[&str]) -> ProgramOutput {
        said(&self.command(args).output().unwrap())
    }

    /// Runs it with something on stdin.
    pub fn feed(&self, args: &[&str], stdin: &str) -> ProgramOutput {
        let mut child = self.command(args).stdin(Stdio::piped()).spawn().unwrap();
        let mut input = child.stdin.take().unwrap();
        thread::scope(|scope| {
            // A program that refuses early closes its end; what it says counts.
            scope.spawn(move || drop(input.write_all(stdin.as_bytes())));
            said(&child.wait_with_output().unwrap())
        })
    }

    /// Runs it; it must work. Gives back what it printed.
    ///
    /// Commands give a database two seconds. On a busy machine that can be too little, so one that says so is run again.
    pub fn ok(&self, args: &[&str]) -> String {
        const NOT_REACHABLE: i32 = 3;
        let since = Instant::now();
        loop {
            let said = self.run(args);
            if said.code != NOT_REACHABLE || since.elapsed() > PATIENCE {
                assert_eq!(said.code, 0, "{args:?}: {}", said.stderr);
                return said.stdout;
            }
        }
    }

    /// The JSON it prints.
    pub fn json(&self, args: &[&str]) -> Value {
        serde_json::from_str(&self.ok(&[args, &["-o", "json"]].concat())).unwrap()
    }

    /// What `status` says, once the store has answered in time: what it does not know is null.
    pub fn status(&self) -> Value {
        let known = || {
            let status = self.json(&["status"]);
            let known = status["routes"].as_array().unwrap().iter().all(|route| !route["delivered"].is_null());
            known.then_some(status)
        };
        within(PATIENCE, "the store answers status in time", known).0
    }

    /// What `status` says of one route.
    pub fn route(&self, route: &str) -> Value {
        let status = self.json(&["status"]);
        status["routes"].as_array().unwrap().iter().find(|r| r["route"] == route).unwrap().clone()
    }

    /// Appends this many events through `event append -`, over 100 keys.
    pub fn append(&self, events: usize) {
        let line = |n: usize| format!("{{\"type\":\"t\",\"key\":\"k-{}\",\"payload\":{{\"number\":{n}}}}}\n", n % 100);
        let said = self.feed(&["event", "append", "-"], &(0..events).map(line).collect::<String>());
        assert_eq!(said.code, 0, "{}", said.stderr);
    }

    /// Starts a relay of this name; its log goes into a file of that name.
    pub fn relay(&self, name: &str) -> Running {
        let log = File::options().create(true).append(true).open(self.path(&format!("{name}.log"))).unwrap();
        let mut command = self.command(&["relay", "run"]);
        // Which lanes were lost says how many deliveries may be repeated.
        let lanes = ("RUST_LOG", "info,sqlx=warn,async_nats=off,postroom_relay::lanes=debug");
        if !command.get_envs().any(|(name, _)| name == lanes.0) {
            command.env(lanes.0, lanes.1);
        }
        command.env("POSTROOM_NAME", name).stdout(Stdio::null()).stderr(log);
        Running::start(command)
    }

    /// What relays of this name have logged so far.
    pub fn log(&self, name: &str) -> String {
        fs::read_to_string(self.path(&format!("{name}.log"))).unwrap_or_default()
    }

    /// What the relays logged last, one line each for a log that is silent.
    fn last_words(&self) -> String {
        let logs = fs::read_dir(self.dir.path()).into_iter().flatten().flatten().map(|entry| entry.path());
        let mut logs: Vec<PathBuf> = logs.filter(|path| path.extension().is_some_and(|end| end == "log")).collect();
        // The newest last, where a reader looks first.
        logs.sort_by_key(|path| fs::metadata(path).and_then(|data| data.modified()).ok());
        let mut words = String::new();
        for log in logs.iter().skip(logs.len().saturating_sub(RELAYS_SHOWN)) {
            let text = fs::read_to_string(log).unwrap_or_default();
            let lines: Vec<&str> = text.lines().collect();
            let last = &lines[lines.len().saturating_sub(LINES_SHOWN)..];
            let _ = writeln!(words, "{}:\n{}", log.display(), last.join("\n"));
        }
        words
    }

    /// Waits until the children have received at least this many.
    pub fn received(&self, count: usize) {
        let journal = self.journal();
        until(&format!("{count} receptions"), || journal.len() >= count);
    }
}

impl Drop for World {
    fn drop(&mut self) {
        if thread::panicking() {
            self.dir.disable_cleanup(true);
            #[allow(clippy::print_stderr, reason = "where to look after a failed test")]
            {
                eprintln!("the failed test's folder stays: {}", self.dir.path().display());
                eprintln!("{}", self.last_words());
            }
        }
    }
}

fn said(output: &Output) -> ProgramOutput {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    let code = output.status.code().expect("ended by itself");
    ProgramOutput { code, stdout: text(&output.stdout), stderr: text(&output.stderr) }
}
