//! An example as a stranger runs it: in its folder, with `make` and the commands of its README, on the servers of the tests.
//!
//! A README is a script here: [`Example::follow`] types the commands of a section and compares what they print with what is
//! written below them. Only `make servers` is left out, because the tests have theirs.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::missing_panics_doc,
    reason = "what is not as documented fails the test"
)]

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use postroom_e2e::{postroom, target, until};
use postroom_presets::{Program, System};
use postroom_testbed::free_port;

/// Commands that only look are typed again until they print what they should: other processes need a moment.
const LOOKS: [&str; 7] = [
    "psql -At ",
    "postroom status",
    "postroom dead ls",
    "postroom dead groups",
    "postroom delivery ls",
    "curl -s ",
    "make show-",
];
/// How long that may take.
const PATIENCE: Duration = Duration::from_mins(1);

/// One example with a database and addresses of its own. Its programs end before its database.
#[derive(Debug)]
pub struct Example {
    programs: BTreeMap<String, Program>,
    /// The system that it takes over.
    pub system: System,
    name: &'static str,
    variables: Vec<(String, String)>,
}

impl Example {
    /// The example in the folder of this name, which is its preset's, too.
    pub fn new(name: &'static str) -> Self {
        let mut example = Self { programs: BTreeMap::new(), system: System::bare(name), name, variables: Vec::new() };
        let folder = postroom().parent().unwrap().display();
        example.set("PATH", &format!("{folder}:{}", std::env::var("PATH").unwrap()));
        example.set("CARGO_TARGET_DIR", target().to_str().unwrap());
        let (url, run) = (example.system.url(), example.system.path("run"));
        example.set("DATABASE_URL", &url);
        example.set("POSTROOM_PRESET", name);
        example.set("RUN", run.to_str().unwrap());
        for listener in ["LISTEN", "POSTROOM_HTTP__LISTEN"] {
            example.set(listener, &format!("127.0.0.1:{}", free_port().unwrap()));
        }
        example
    }

    /// A variable of every program that is run from now on.
    pub fn set(&mut self, name: &str, value: &str) {
        self.system.set(name, value);
        self.variables.retain(|(known, _)| known != name);
        self.variables.push((name.to_owned(), value.to_owned()));
    }

    /// The value of a variable.
    pub fn variable(&self, name: &str) -> &str {
        &self.variables.iter().find(|(known, _)| known == name).unwrap().1
    }

    /// The example's folder.
    pub fn folder(&self) -> PathBuf {
        PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../examples").join(self.name)
    }

    /// Where what takes long to fetch or build is kept from one run of the tests to the next.
    pub fn kept(&self, what: &str) -> PathBuf {
        let folder = target().join("examples-kept").join(self.name);
        fs::create_dir_all(&folder).unwrap();
        folder.join(what)
    }

    /// Fetches or builds, as `make run` would. Tests start side by side; one of them does it.
    pub fn prepare(&self, goal: &str) {
        let lock = File::create(self.kept("lock")).unwrap();
        lock.lock().unwrap();
        self.sh(&format!("make --silent {goal}"));
    }

    /// Starts what runs until it is stopped, `make GOAL`.
    pub fn start(&mut self, goal: &str) {
        let log = self.system.path(&format!("{goal}.log"));
        let mut make = self.command("make");
        make.args(["--silent", goal]).stderr(File::options().create(true).append(true).open(&log).unwrap());
        let said = self.system.path(&format!("{goal}.said"));
        self.programs.insert(goal.to_owned(), Program::start(make, &said));
    }

    /// Stops it in good order, and waits until it has ended.
    pub fn stop(&mut self, goal: &str) {
        self.sh(&format!("make --silent stop-{goal}"));
        self.programs.remove(goal);
    }

    /// Ends it as a crash does.
    pub fn kill(&mut self, goal: &str) {
        self.sh(&format!("make --silent kill-{goal}"));
        self.programs.remove(goal);
    }

    /// Learns the variables that `make env` prints for a shell, in which `postroom` and `psql` are typed.
    pub fn learn(&mut self) {
        let printed = self.sh("make --silent env");
        for line in printed.lines().filter(|line| !line.starts_with("export PATH=")) {
            let (name, value) = line.strip_prefix("export ").unwrap().split_once('=').unwrap();
            self.set(name, value.trim_matches('\''));
        }
    }

    /// Waits until the service answers.
    pub fn listens(&self) {
        until("the service listens", || TcpStream::connect(self.variable("LISTEN")).is_ok());
    }

    /// What a program printed that [`Example::start`] has started.
    pub fn said(&self, goal: &str) -> String {
        fs::read_to_string(self.system.path(&format!("{goal}.said"))).unwrap_or_default()
    }

    /// Runs a command of a shell, which must work; what it prints.
    pub fn sh(&self, command: &str) -> String {
        self.tried(command).unwrap_or_else(|printed| panic!("$ {command}\n{printed}"))
    }

    /// What it prints; all of it if it does not work.
    fn tried(&self, command: &str) -> Result<String, String> {
        let output = self.command("sh").args(["-c", command]).output().unwrap();
        let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
        let printed = text(&output.stdout);
        if output.status.success() {
            Ok(printed)
        } else {
            Err(format!("{printed}{}{}\n", text(&output.stderr), output.status))
        }
    }

    /// Types the commands of a section of the README.
    pub fn follow(&mut self, heading: &str) {
        let readme = fs::read_to_string(self.folder().join("README.md")).unwrap();
        let section = readme.split("\n## ").find(|section| section.starts_with(heading));
        let section = section.unwrap_or_else(|| panic!("there is no section {heading}"));
        for block in section.split("```console\n").skip(1) {
            let block = format!("\n{}", block.split("```").next().unwrap());
            for step in block.split("\n$ ").skip(1) {
                let (command, shown) = step.split_once('\n').unwrap_or((step, ""));
                self.type_in(command.split("   #").next().unwrap().trim(), shown.trim_end());
            }
        }
    }

    fn type_in(&mut self, command: &str, shown: &str) {
        if command.starts_with("eval ") {
            return self.learn();
        }
        match command.strip_prefix("make ").map(|goal| goal.split_once('-').unwrap_or((goal, ""))) {
            // The tests have servers.
            Some(("servers", "")) => return,
            Some((goal @ ("run" | "business" | "relay" | "old"), "")) => return self.start(goal),
            Some(("stop", "")) => {
                self.sh(command);
                return self.programs.clear();
            }
            Some(("stop", goal)) => return self.stop(goal),
            Some(("kill", goal)) => return self.kill(goal),
            _ => {}
        }
        let typed = command.replace("localhost:8000", self.variable("LISTEN"));
        let typed = typed.replace("localhost:7480", self.variable("POSTROOM_HTTP__LISTEN"));
        let since = Instant::now();
        loop {
            let printed = self.tried(&typed);
            if printed.as_ref().is_ok_and(|printed| shown.is_empty() || fits(printed, shown)) {
                return;
            }
            let looks = LOOKS.iter().any(|start| command.starts_with(start)) && !command.contains("POST");
            let printed = printed.unwrap_or_else(|printed| printed);
            assert!(looks && since.elapsed() < PATIENCE, "$ {command}\n{printed}-- instead of\n{shown}");
            std::thread::park_timeout(Duration::from_millis(50));
        }
    }

    /// Waits until a query of the system's own answers this.
    pub fn until_rows(&self, query: &str, rows: &[&str]) {
        until(&format!("{rows:?}: {query}"), || self.system.query(query) == rows);
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.current_dir(self.folder()).envs(self.variables.iter().map(|(name, value)| (name, value)));
        // What `make` tells its children is not for another one.
        command.env_remove("MAKEFLAGS").env_remove("MAKELEVEL");
        command
    }
}

/// Whether it is what a README shows, where `…` is anything and columns may be wider.
fn fits(printed: &str, shown: &str) -> bool {
    let (printed, shown): (Vec<&str>, Vec<&str>) = (printed.trim_end().lines().collect(), shown.lines().collect());
    printed.len() == shown.len() && printed.iter().zip(shown).all(|(printed, shown)| line_fits(printed, shown))
}

fn line_fits(printed: &str, shown: &str) -> bool {
    let plain = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
    let (printed, shown) = (plain(printed), plain(shown));
    let parts: Vec<&str> = shown.split('…').collect();
    let mut rest = printed.as_str();
    for (at, part) in parts.iter().enumerate() {
        let found = if at == 0 { rest.starts_with(part).then_some(0) } else { rest.find(part) };
        match found {
            Some(_) if at > 0 && at == parts.len() - 1 => return rest.ends_with(part),
            Some(place) => rest = &rest[place + part.len()..],
            None => return false,
        }
    }
    rest.is_empty()
}
