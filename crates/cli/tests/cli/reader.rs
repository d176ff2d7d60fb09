//! A reader of the documentation, who types the commands of a page in its order, in a folder of their own.
//!
//! A test that opens a page has to type all of it. Which pages there are, and that a test opens each, is checked in
//! [`crate::docs`].

#![allow(clippy::unwrap_used, clippy::panic, reason = "what cannot be read or run fails the test")]

use std::collections::VecDeque;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read as _, Seek as _, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::docs::{blocks, page};
use crate::world::{World, mask};

/// Commands that no test types: page, how the command begins, and why. One that is on no page is an error.
pub(crate) const UNTYPED: &[(&str, &str, &str)] = &[
    ("README.md", "sudo apt install", "installs packages of the system; `./run test` installs the same ones"),
    ("README.md", "cargo install", "a release build; `cargo xtask deb` makes the same one"),
    ("README.md", "./run dev", "a build; `dev.rs` runs the demo"),
    ("README.md", "./run test", "runs this test"),
    ("README.md", "cargo add", "asks the registry of crates; `crates/postroom/tests/readme.rs` runs the program"),
    (
        "docs/library.md",
        "cargo add",
        "asks the registry of crates; the page's programs are compiled as documentation tests",
    ),
    ("docs/consumers.md", "cargo add", "asks the registry of crates; `examples/inbox-consumer` is built and run"),
    (
        "docs/install.md",
        "cargo xtask deb",
        "a release build; `tests/e2e/tests/package.rs` makes a package of a quicker one",
    ),
    ("docs/install.md", "sudo", "needs root; `tests/e2e/tests/package.rs` installs the package in a root of its own"),
    ("docs/install.md", "systemctl", "needs systemd; `tests/e2e/tests/package.rs` checks the unit"),
];

/// Chooses a destination in a printed file, as a user does.
pub(crate) const EDITOR: &str = r"mkdir -p events
sed -i -e 's/^# \[\[route\]\]/[[route]]/' -e 's/^# name = /name = /' -e 's/^# to = { file/to = { file/' $1
";

/// The blocks of commands of a page, in its order. Fails when it is dropped before all of them were taken.
pub(crate) struct Commands {
    page: &'static str,
    left: VecDeque<String>,
}

impl Commands {
    pub(crate) fn of(name: &'static str) -> Self {
        let typed = |step: &&str| !UNTYPED.iter().any(|(page, start, _)| *page == name && step.starts_with(start));
        let block = |block: String| -> String {
            let block = format!("\n{block}");
            block.split("\n$ ").skip(1).filter(typed).map(|step| format!("$ {}\n", step.trim_end())).collect()
        };
        let left = blocks(&page(name), "console").into_iter().map(block).filter(|block| !block.is_empty()).collect();
        Self { page: name, left }
    }

    /// The next block of the page that has commands to type.
    pub(crate) fn block(&mut self) -> String {
        self.left.pop_front().unwrap_or_else(|| panic!("{} has no more commands", self.page))
    }
}

impl Drop for Commands {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            assert!(self.left.is_empty(), "commands of {} that nobody types: {:?}", self.page, self.left);
        }
    }
}

/// A terminal in an empty folder, in which `postroom` is the real program.
pub(crate) struct Reader {
    pub(crate) world: World,
    shell: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
    stderr: File,
}

/// The line that ends the output of a command.
const END: &str = "-- the command ended: ";

impl Reader {
    pub(crate) fn new() -> Self {
        Self::with(&[])
    }

    /// With variables in the environment.
    pub(crate) fn with(variables: &[(&str, &str)]) -> Self {
        let world = World::bare();
        for file in fs::read_dir(world.folder()).unwrap() {
            fs::remove_file(file.unwrap().path()).unwrap();
        }
        let stderr = tempfile::tempfile().unwrap();
        let program = Path::new(env!("CARGO_BIN_EXE_postroom")).parent().unwrap().display();
        let mut command = Command::new("sh");
        command.current_dir(world.folder()).env_clear();
        command.env("PATH", format!("{program}:{}", std::env::var("PATH").unwrap()));
        command.env("HOME", world.folder()).env("USER", "ada").envs(variables.iter().copied());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(stderr.try_clone().unwrap());
        let mut shell = command.spawn().unwrap();
        let stdin = shell.stdin.take();
        let stdout = BufReader::new(shell.stdout.take().unwrap());
        let mut reader = Self { world, shell, stdin, stdout, stderr };
        // Relays end with their terminal.
        reader.shell("trap 'kill $! 2> /dev/null; wait' EXIT");
        reader
    }

    /// Types a block of commands; what is printed below one must come out. A relay that has a block for itself runs in another
    /// terminal, which does not know the variables of this one.
    pub(crate) fn follow(&mut self, block: &str) {
        let terminal = if block.matches("$ ").count() == 1 { "env -i PATH=\"$PATH\" HOME=\"$HOME\" " } else { "" };
        for step in format!("\n{block}").split("\n$ ").skip(1) {
            let (command, expected) = step.split_once('\n').unwrap_or((step, ""));
            if runs_on(command) {
                self.shell(&format!("{terminal}{command} > relay.log 2>&1 &"));
            } else if expected.is_empty() {
                self.shell(command);
            } else {
                self.expect(command, expected);
            }
        }
    }

    /// Types a command until it prints what it should: a relay in another terminal may need a moment.
    fn expect(&mut self, command: &str, expected: &str) {
        let deadline = Instant::now() + Duration::from_mins(2);
        loop {
            let printed = self.shell(command);
            let (printed, expected) = (mask(printed.trim_end()), mask(expected.trim_end()));
            if printed == expected {
                return;
            }
            let waits = command.starts_with("postroom status") && Instant::now() < deadline;
            assert!(waits, "$ {command}\n{printed}\n-- instead of\n{expected}");
        }
    }

    /// Ends the relay; it must end well.
    pub(crate) fn end_relay(&mut self) {
        self.shell("kill $!; wait $!");
    }

    /// Types a command; it must work. What it printed.
    pub(crate) fn shell(&mut self, command: &str) -> String {
        // In braces, a variable that it sets is there for the next one.
        let stdin = self.stdin.as_mut().unwrap();
        write!(stdin, "{{ {command}\n}} < /dev/null\nended=$?; echo; echo \"{END}$ended\"\n").unwrap();
        stdin.flush().unwrap();
        let mut printed = String::new();
        loop {
            let mut line = String::new();
            assert!(
                self.stdout.read_line(&mut line).unwrap() > 0,
                "$ {command}\nthe shell ended: {}",
                self.complaints()
            );
            if let Some(code) = line.strip_prefix(END) {
                assert_eq!(code.trim(), "0", "$ {command}\n{printed}{}", self.complaints());
                // The empty line that makes the end a line of its own.
                printed.pop();
                return printed;
            }
            printed.push_str(&line);
        }
    }

    fn complaints(&mut self) -> String {
        let mut text = String::new();
        self.stderr.rewind().unwrap();
        self.stderr.read_to_string(&mut text).unwrap();
        text
    }

    /// Looks until the first route has delivered so many events: another process delivers, and only the store can tell when.
    pub(crate) fn until_delivered(&mut self, count: u64) {
        self.until("postroom status -o json", |status| status["routes"][0]["delivered"] == count);
    }

    /// Types a command until the JSON that it prints is so.
    pub(crate) fn until(&mut self, command: &str, so: impl Fn(&Value) -> bool) {
        let deadline = Instant::now() + Duration::from_mins(5);
        loop {
            let printed = self.shell(command);
            if so(&serde_json::from_str(&printed).unwrap()) {
                return;
            }
            assert!(Instant::now() < deadline, "$ {command}\n{printed}");
        }
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        drop(self.stdin.take());
        let _ = self.shell.wait();
    }
}

/// Whether a command runs until somebody stops it.
fn runs_on(command: &str) -> bool {
    command.starts_with("postroom relay run") && !command.contains("--drain") && !command.ends_with('&')
}
