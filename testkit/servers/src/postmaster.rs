//! One PostgreSQL cluster as a data folder and a port: made, configured, started, stopped, crashed.
//!
//! It decides nothing about where the folder is or when it goes: that is for `services up` and for a test's cluster.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use nix::sys::signal::Signal;

use super::Process;
use super::system::{as_postgres, program, run, tail};

/// The one role that needs a password; every other one is trusted on loopback.
pub const LOCKED_ROLE: &str = "locked";
/// Its password.
pub const LOCKED_PASSWORD: &str = "correct-horse";

/// A cluster. Its methods block until what they ask for is so.
#[derive(Debug, Clone)]
pub struct Postmaster {
    data: PathBuf,
    port: u16,
    environment: Vec<(String, String)>,
    programs: Option<PathBuf>,
}

impl Postmaster {
    /// A cluster whose data is, or will be, in this folder.
    pub fn new(data: PathBuf, port: u16) -> Self {
        Self { data, port, environment: Vec::new(), programs: None }
    }

    /// Starts it with these variables too.
    pub fn environment(mut self, environment: Vec<(String, String)>) -> Self {
        self.environment = environment;
        self
    }

    /// Runs it with the programs of this folder.
    pub fn programs(mut self, folder: Option<PathBuf>) -> Self {
        self.programs = folder;
        self
    }

    /// Its data folder.
    pub fn data(&self) -> &Path {
        &self.data
    }

    /// Where it listens on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Makes the data anew, with a system identifier of its own.
    pub fn init(&self) -> io::Result<()> {
        let mut initdb = as_postgres(self.program("initdb")?);
        initdb.args(["--username=postgres", "--auth=trust", "--encoding=UTF8", "--locale=C.UTF-8", "--no-sync"]);
        run(initdb.arg("--pgdata").arg(&self.data))?;
        fs::write(self.data.join("pg_hba.conf"), access())?;
        self.single_user(&format!("create role {LOCKED_ROLE} login password '{LOCKED_PASSWORD}'"))
    }

    /// Takes the data of another cluster that is not running, and its system identifier.
    pub fn copy_of(&self, template: &Path) -> io::Result<()> {
        // Into the folder, which may be a link to one on another disk.
        run(as_postgres("/bin/cp").arg("-r").arg(template.join(".")).arg(self.data.join(".")))
    }

    /// Takes the data of a running cluster and follows it from then on.
    pub fn follow(&self, primary: &Self) -> io::Result<()> {
        let mut backup = as_postgres(program("pg_basebackup", "postgresql")?);
        backup.args([
            "--host=127.0.0.1",
            "--username=postgres",
            "--checkpoint=fast",
            "--no-sync",
            "--write-recovery-conf",
        ]);
        run(backup.arg(format!("--port={}", primary.port)).arg("--pgdata").arg(&self.data))
    }

    /// Settings for its next start. They go where the last word is spoken, so a later call wins.
    pub fn configure(&self, settings: &[(&str, &str)]) -> io::Result<()> {
        let mut file = OpenOptions::new().append(true).open(self.data.join("postgresql.auto.conf"))?;
        for (name, value) in settings {
            writeln!(file, "{name} = '{}'", value.replace('\'', "''"))?;
        }
        Ok(())
    }

    /// Starts it and waits until it takes connections.
    pub fn start(&self) -> io::Result<Process> {
        let (log, port) = (self.log(), self.port.to_string());
        self.configure(&[
            ("listen_addresses", "127.0.0.1"),
            ("port", &port),
            ("unix_socket_directories", ""),
            // In the data folder: a cluster that was killed leaves nothing elsewhere.
            ("dynamic_shared_memory_type", "mmap"),
        ])?;
        let mut start = self.control("start")?;
        start.args(["--wait", "--timeout=60", "--log"]).arg(&log);
        run(&mut start).map_err(|error| io::Error::other(format!("{error}\n{}", tail(&log))))?;
        self.process().ok_or_else(|| io::Error::other(format!("PostgreSQL ended at once\n{}", tail(&log))))
    }

    /// Ends open transactions and stops in good order.
    pub fn stop_fast(&self) -> io::Result<()> {
        run(self.control("stop")?.args(["--wait", "--timeout=60", "--mode=fast"]))
    }

    /// Ends all its processes at once, like a crash. What was committed is in the log on disk.
    pub fn crash(&self) -> io::Result<()> {
        let Some(process) = self.process() else { return Ok(()) };
        process.crash()?;
        // Where nobody collects the dead, the next start would take its predecessor for alive.
        fs::remove_file(self.data.join("postmaster.pid"))
    }

    /// Stops it as fast as it goes without leaving shared memory behind, for data that nobody needs any more.
    pub fn stop_now(&self) -> io::Result<()> {
        self.process().map_or(Ok(()), |process| process.end(Signal::SIGQUIT, Duration::from_secs(10)))
    }

    /// Makes a standby take writes.
    pub fn promote(&self) -> io::Result<()> {
        run(self.control("promote")?.args(["--wait", "--timeout=60"]))
    }

    /// The first of its processes, if it runs.
    pub fn process(&self) -> Option<Process> {
        let text = fs::read_to_string(self.data.join("postmaster.pid")).ok()?;
        let process = Process::of(text.lines().next()?.trim().parse().ok()?)?;
        // After a crash the file stays, and its number may belong to somebody else by now. PostgreSQL works in its folder.
        let works_in = fs::read_link(format!("/proc/{}/cwd", process.pid)).ok()?;
        (works_in == fs::canonicalize(&self.data).ok()?).then_some(process)
    }

    /// What it has written about itself.
    pub fn log(&self) -> PathBuf {
        self.data.join("server.log")
    }

    fn program(&self, name: &str) -> io::Result<PathBuf> {
        self.programs.as_ref().map_or_else(|| program(name, "postgresql"), |folder| Ok(folder.join(name)))
    }

    fn control(&self, action: &str) -> io::Result<Command> {
        // Set by `env`, behind the change of user: a preloaded library must not begin its work as root.
        let mut command = as_postgres("/usr/bin/env");
        command.args(self.environment.iter().map(|(name, value)| format!("{name}={value}")));
        command.arg(self.program("pg_ctl")?).args([action, "--silent", "--pgdata"]).arg(&self.data);
        Ok(command)
    }

    /// Runs one statement in a cluster that nobody serves.
    fn single_user(&self, sql: &str) -> io::Result<()> {
        let mut postgres = as_postgres(self.program("postgres")?);
        postgres.args(["--single", "-D"]).arg(&self.data).arg("postgres");
        let mut child = postgres.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn()?;
        if let Some(mut input) = child.stdin.take() {
            writeln!(input, "{sql}")?;
        }
        let output = child.wait_with_output()?;
        let said = String::from_utf8_lossy(&output.stderr);
        if output.status.success() && !said.contains("ERROR") {
            return Ok(());
        }
        Err(io::Error::other(format!("PostgreSQL in single-user mode: {}: {}", output.status, said.trim())))
    }
}

/// Who may connect: the first line that fits decides.
fn access() -> String {
    format!(
        "host all {LOCKED_ROLE} 127.0.0.1/32 scram-sha-256\n\
         host all all 127.0.0.1/32 trust\n\
         host replication all 127.0.0.1/32 trust\n"
    )
}
