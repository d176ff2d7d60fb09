//! A program that runs until told to stop. Killed when the test ends before it does.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ChildStdout, Command};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::wait::within;

/// A running program.
#[derive(Debug)]
pub struct Running {
    child: Child,
}

impl Running {
    /// Starts it.
    pub fn start(mut command: Command) -> Self {
        Self { child: command.spawn().unwrap() }
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// What it prints, if that goes into a pipe.
    pub fn stdout(&mut self) -> ChildStdout {
        self.child.stdout.take().unwrap()
    }

    /// Sends a signal.
    pub fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(i32::try_from(self.pid()).unwrap()), signal).unwrap();
    }

    /// Whether each of its threads stands still after `SIGSTOP`.
    pub fn is_frozen(&self) -> bool {
        let threads = fs::read_dir(format!("/proc/{}/task", self.pid())).unwrap().flatten();
        let mut states = threads.map(|thread| fs::read_to_string(thread.path().join("stat")).unwrap_or_default());
        // The name in parentheses may itself contain parentheses; the state comes after the last one.
        states.all(|stat| stat.rsplit_once(')').is_some_and(|(_, rest)| rest.starts_with(" T")))
    }

    /// Whether it still runs.
    pub fn is_alive(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    /// Waits for its end: the exit code, or minus the signal that ended it.
    pub fn end(mut self) -> i32 {
        let ended = || self.child.try_wait().unwrap();
        let (status, _) = within(Duration::from_mins(5), "the program has ended", ended);
        status.code().unwrap_or_else(|| -status.signal().unwrap())
    }

    /// Kills it with SIGKILL and waits until it is gone.
    pub fn kill(self) {
        self.signal(Signal::SIGKILL);
        assert_eq!(self.end(), -9);
    }

    /// Stops it in good order; it must end with 0.
    pub fn stop(self) {
        self.signal(Signal::SIGTERM);
        assert_eq!(self.end(), 0, "a graceful stop ends with 0");
    }

    /// Resident memory in bytes.
    pub fn memory(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
    }

    /// How many files and connections it has open.
    pub fn files(&self) -> usize {
        fs::read_dir(format!("/proc/{}/fd", self.pid())).unwrap().count()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
