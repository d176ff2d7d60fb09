//! A program of an example, run as its README says.

use std::fs::File;
use std::path::Path;
use std::process::{Command, Stdio};

use nix::sys::signal::Signal;
use postroom_e2e::Running;

/// A program that runs until it is dropped. `make` tells those it has started.
#[derive(Debug)]
pub struct Program(Option<Running>);

impl Program {
    /// Starts it; what it prints goes into a file.
    pub fn start(mut command: Command, log: &Path) -> Self {
        command.stdin(Stdio::null()).stdout(File::create(log).unwrap());
        Self(Some(Running::start(command)))
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        if let Some(program) = self.0.take() {
            program.signal(Signal::SIGTERM);
            program.end();
        }
    }
}
