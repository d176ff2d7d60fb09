//! A folder with a configuration and a database of its own, and the real program run in it.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "what cannot be made or run fails the test")]

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use tempfile::TempDir;

/// A child that says `no such address` for good to every type that ends in `.bad`, and yes to the rest.
const MAILER: &str = r#"
while IFS= read -r line; do
  id=$(printf '%s' "$line" | sed 's/^{"id":"\([^"]*\)".*/\1/')
  case "$line" in
    *'.bad"'*) printf '{"id":"%s","error":"no such address","permanent":true}\n' "$id" ;;
    *) printf '{"id":"%s","ok":true}\n' "$id" ;;
  esac
done
"#;

/// One test's own world.
pub(crate) struct World {
    dir: TempDir,
}

/// Exit code and output of a run of the program.
pub(crate) struct ProgramOutput {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl World {
    /// A configuration without a database.
    pub(crate) fn bare() -> Self {
        let world = Self { dir: tempfile::tempdir().unwrap() };
        let folder = world.dir.path().display().to_string();
        fs::write(world.path("mailer.sh"), MAILER).unwrap();
        let config = format!(
            r#"name = "test"

[store.main]
url = "sqlite://{folder}/shop.db"

[[route]]
name = "mailer"
match = ["order.*"]
to = {{ exec = {{ command = ["sh", "mailer.sh"] }} }}

[[route]]
name = "held"
match = ["held.*"]
on_dead = "hold"
to = {{ exec = {{ command = ["sh", "mailer.sh"] }} }}
"#
        );
        world.write("postroom.toml", &config);
        world
    }

    /// A configuration with a database whose tables are made and whose routes are registered.
    pub(crate) fn new() -> Self {
        let world = Self::bare();
        let said = world.run(&["store", "migrate", "up"]);
        assert_eq!(said.code, 0, "{}", said.stderr);
        world
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).unwrap();
    }

    pub(crate) fn folder(&self) -> &Path {
        self.dir.path()
    }

    pub(crate) fn command(&self, args: &[&str]) -> Command {
        self.program(env!("CARGO_BIN_EXE_postroom"), args)
    }

    /// The command that runs a program in the folder, with nothing of our own environment that could mean something to it.
    pub(crate) fn program(&self, program: &str, args: &[&str]) -> Command {
        let mut command = Command::new(program);
        command.args(args).current_dir(self.dir.path()).env_clear();
        command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command.env("HOME", self.dir.path()).env("TMPDIR", self.dir.path()).env("USER", "ada");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    pub(crate) fn run(&self, args: &[&str]) -> ProgramOutput {
        said(&self.command(args).output().unwrap())
    }

    /// Runs it with something on stdin.
    pub(crate) fn feed(&self, args: &[&str], stdin: &str) -> ProgramOutput {
        let mut child = self.command(args).stdin(Stdio::piped()).spawn().unwrap();
        // A program that refuses early closes its end; what it says counts.
        let _ = child.stdin.take().unwrap().write_all(stdin.as_bytes());
        said(&child.wait_with_output().unwrap())
    }

    /// Runs a line of shell on a terminal of this width, where `postroom` is the program; everything it wrote there.
    pub(crate) fn at_terminal(&self, columns: u16, line: &str) -> String {
        let output = self.terminal(columns, line).output().unwrap();
        String::from_utf8(output.stdout).unwrap().replace("\r\n", "\n")
    }

    /// The command that runs a line of shell on a terminal of this width.
    pub(crate) fn terminal(&self, columns: u16, line: &str) -> Command {
        let folder = Path::new(env!("CARGO_BIN_EXE_postroom")).parent().unwrap().display().to_string();
        let path = std::env::var("PATH").unwrap_or_default();
        let typed = format!("stty rows 24 cols {columns}; {line}");
        // `script` gives it a terminal.
        let mut command = Command::new("script");
        command
            .args(["--quiet", "--flush", "--command", &typed, "/dev/null"])
            .current_dir(self.dir.path())
            .env("PATH", format!("{folder}:{path}"))
            .env("TERM", "xterm-256color")
            .env("SHELL", "/bin/sh")
            .env("NO_COLOR", "1")
            .env("USER", "ada")
            .stdin(Stdio::null())
            .stdout(Stdio::piped());
        command
    }

    /// Runs it; it must work. Gives back what it printed.
    pub(crate) fn ok(&self, args: &[&str]) -> String {
        let said = self.run(args);
        assert_eq!(said.code, 0, "{args:?}: {}", said.stderr);
        said.stdout
    }

    /// The routes of `status` without their rates, which change by themselves while time passes.
    pub(crate) fn routes(&self) -> serde_json::Value {
        let mut routes = self.json(&["status"])["routes"].take();
        for route in routes.as_array_mut().unwrap() {
            route.as_object_mut().unwrap().retain(|name, _| !name.starts_with("rate"));
        }
        routes
    }

    /// The JSON it prints.
    pub(crate) fn json(&self, args: &[&str]) -> serde_json::Value {
        let mut all = args.to_vec();
        all.extend(["-o", "json"]);
        serde_json::from_str(&self.ok(&all)).unwrap()
    }

    /// Appends an event with this id.
    pub(crate) fn append(&self, id: &str, event_type: &str, key: &str) {
        self.ok(&["event", "append", "--id", id, "--type", event_type, "--key", key, "--payload", r#"{"n":1}"#]);
    }

    /// Does something to the database behind the program's back.
    pub(crate) fn sql(&self, statement: &'static str) {
        use sqlx::ConnectOptions;
        let file = sqlx::sqlite::SqliteConnectOptions::new().filename(self.path("shop.db"));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let mut connection = file.connect().await.unwrap();
            let done = sqlx::query(statement).execute(&mut connection).await.unwrap();
            assert!(done.rows_affected() > 0, "{statement} changed nothing");
        });
    }

    /// How many events there are.
    pub(crate) fn events(&self) -> usize {
        self.json(&["event", "ls"]).as_array().unwrap().len()
    }

    /// Everything of one run as text, with what differs from run to run masked.
    pub(crate) fn snapshot(&self, said: &ProgramOutput) -> String {
        let text = format!("exit {}\n-- stdout\n{}-- stderr\n{}", said.code, said.stdout, said.stderr);
        let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        let text = text.replace(&self.dir.path().display().to_string(), "[DIR]");
        mask(&text.replace(&format!("{}@{}", account(), host.trim()), "[USER]@[HOST]"))
    }
}

/// The account that runs the tests, and so every command: what the variables of a command say is not believed.
pub(crate) fn account() -> String {
    let user = nix::unistd::User::from_uid(nix::unistd::getuid()).unwrap();
    user.map_or_else(|| format!("uid-{}", nix::unistd::getuid()), |user| user.name)
}

impl From<Output> for ProgramOutput {
    fn from(output: Output) -> Self {
        said(&output)
    }
}

fn said(output: &Output) -> ProgramOutput {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    let code = output.status.code().expect("ended by itself");
    ProgramOutput { code, stdout: text(&output.stdout), stderr: text(&output.stderr) }
}

/// Replaces ids, times and durations of tries.
pub(crate) fn mask(text: &str) -> String {
    // `9` stands for a digit, `f` for a hexadecimal one; everything else for itself.
    const SHAPES: [(&str, &str); 5] = [
        ("ffffffff-ffff-ffff-ffff-ffffffffffff", "[ID]"),
        ("9999-99-99T99:99:99", "[TIME]"),
        ("9999-99-99 99:99:99.999", "[TIME]"),
        ("99:99:99.999", "[TIME]"),
        ("(9.9s)", "([TOOK])"),
    ];
    let fits = |rest: &[u8], shape: &str| {
        rest.len() >= shape.len()
            && shape.bytes().zip(rest).all(|(s, c)| match s {
                b'9' => c.is_ascii_digit(),
                b'f' => c.is_ascii_hexdigit(),
                s => s == *c,
            })
    };
    let (mut out, mut at) = (Vec::new(), 0);
    let bytes = text.as_bytes();
    while at < bytes.len() {
        let Some((shape, mask)) = SHAPES.iter().find(|(shape, _)| fits(&bytes[at..], shape)) else {
            out.push(bytes[at]);
            at += 1;
            continue;
        };
        out.extend(mask.as_bytes());
        at += shape.len();
        if *mask == "[TIME]" {
            while at < bytes.len() && (bytes[at].is_ascii_digit() || bytes[at] == b'.') {
                at += 1;
            }
            at += usize::from(bytes.get(at) == Some(&b'Z'));
        }
    }
    String::from_utf8(out).unwrap()
}

/// A program that runs until told to stop. Killed when the test ends before it does.
pub(crate) struct Running {
    child: Child,
    lines: BufReader<std::process::ChildStdout>,
}

impl Running {
    pub(crate) fn start(mut command: Command) -> Self {
        let mut child = command.spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap());
        Self { child, lines }
    }

    /// The next line of stdout that contains this; every one before it is given to `seen`.
    pub(crate) fn wait_for(&mut self, text: &str) -> String {
        let mut seen = String::new();
        loop {
            let mut line = String::new();
            assert!(self.lines.read_line(&mut line).unwrap() > 0, "ended without {text:?}; said:\n{seen}");
            if line.contains(text) {
                return line;
            }
            seen.push_str(&line);
        }
    }

    /// Reads stdout up to this text, which need not end a line.
    pub(crate) fn read_until(&mut self, text: &str) {
        let (mut seen, mut byte) = (Vec::new(), [0]);
        while !seen.ends_with(text.as_bytes()) {
            let read = std::io::Read::read(&mut self.lines, &mut byte).unwrap();
            assert_eq!(read, 1, "ended without {text:?}; said:\n{}", String::from_utf8_lossy(&seen));
            seen.extend(byte);
        }
    }

    /// Types something, where stdin is ours.
    pub(crate) fn type_in(&mut self, text: &str) {
        self.child.stdin.as_mut().expect("it has one").write_all(text.as_bytes()).unwrap();
    }

    /// The next line of stderr.
    pub(crate) fn note(&mut self) -> String {
        let stderr = self.child.stderr.as_mut().expect("it has one");
        let (mut line, mut byte) = (Vec::new(), [0]);
        while byte != [b'\n'] && std::io::Read::read(stderr, &mut byte).unwrap() == 1 {
            line.extend(byte);
        }
        String::from_utf8(line).unwrap()
    }

    /// The most memory that it had so far, in bytes.
    pub(crate) fn peak_memory(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
        line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
    }

    pub(crate) fn signal(&self, signal: nix::sys::signal::Signal) {
        let pid = nix::unistd::Pid::from_raw(i32::try_from(self.child.id()).unwrap());
        nix::sys::signal::kill(pid, signal).unwrap();
    }

    /// Sends the signal again and again until it has ended; its code.
    pub(crate) fn signal_until_end(&mut self, signal: nix::sys::signal::Signal) -> Option<i32> {
        loop {
            if let Some(ended) = self.child.try_wait().unwrap() {
                return ended.code();
            }
            self.signal(signal);
            std::thread::yield_now();
        }
    }

    /// Waits for its end: the code, and the rest of stdout.
    pub(crate) fn end(mut self) -> (Option<i32>, String) {
        let mut rest = String::new();
        std::io::Read::read_to_string(&mut self.lines, &mut rest).unwrap();
        (self.child.wait().unwrap().code(), rest)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
