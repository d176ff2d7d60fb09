//! One child process and its group: how it is started, and how nothing of it is left behind.

use std::io::ErrorKind;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use postroom_core::Failure;
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};
use tokio::time::timeout;

use crate::options::Environment;

/// A running child. When dropped, its whole group is killed.
#[derive(Debug)]
pub(crate) struct Process {
    child: Child,
    // The group the child leads; `None` once it has been killed.
    group: Option<Pid>,
}

/// The child's ends of the pipes.
#[derive(Debug)]
pub(crate) struct Pipes {
    pub(crate) stdin: ChildStdin,
    pub(crate) stdout: ChildStdout,
    pub(crate) stderr: ChildStderr,
}

impl Process {
    /// Starts the command in our working folder, with the variables that every program expects and those of the options: ours hold
    /// the passwords of databases and brokers.
    pub(crate) fn start(command: &[String], environment: &Environment) -> Result<(Self, Pipes), Failure> {
        let Some((program, arguments)) = command.split_first() else {
            return Err(Failure::unavailable("exec.not_found", "the command is empty; name a program"));
        };
        let mut builder = Command::new(program);
        builder
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true)
            .env_clear()
            .envs(std::env::vars_os().filter(|(name, _)| environment.passes(name)))
            .envs(environment.set.iter().map(|(name, value)| (name, value.expose())));
        let mut child = builder.spawn().map_err(|e| not_started(program, &e))?;
        let group = child.id().and_then(|id| i32::try_from(id).ok()).map(Pid::from_raw);
        let pipes = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let process = Self { child, group };
        let (Some(stdin), Some(stdout), Some(stderr)) = pipes else {
            return Err(Failure::unavailable("exec.not_started", format!("command {program:?} has no pipes")));
        };
        Ok((process, Pipes { stdin, stdout, stderr }))
    }

    /// Resolves when the child has exited. May be cancelled and called again.
    pub(crate) async fn exited(&mut self) -> Option<ExitStatus> {
        self.child.wait().await.ok()
    }

    /// Waits that long for the child to leave by itself, then kills what is left of its group. Says how the child ended
    /// if it ended by itself.
    pub(crate) async fn end(mut self, grace: Duration) -> Option<ExitStatus> {
        let status = timeout(grace, self.exited()).await.ok().flatten();
        // Also after it has left: it may have left children of its own. Its number cannot be anybody else's group
        // as long as one of them lives.
        self.kill_group();
        self.exited().await;
        status
    }

    fn kill_group(&mut self) {
        if let Some(group) = self.group.take() {
            // Fails only if nobody is left in it.
            let _ = killpg(group, Signal::SIGKILL);
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill_group();
    }
}

fn not_started(program: &str, error: &std::io::Error) -> Failure {
    match error.kind() {
        ErrorKind::NotFound => Failure::unavailable(
            "exec.not_found",
            format!("command {program:?} was not found; check its path and the PATH of the relay"),
        ),
        ErrorKind::PermissionDenied => Failure::unavailable(
            "exec.not_found",
            format!("command {program:?} may not be executed; check its permissions"),
        ),
        _ => Failure::unavailable("exec.not_started", format!("command {program:?} could not be started: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_command_is_named_as_such() {
        assert_eq!(Process::start(&[], &Environment::default()).unwrap_err().code, "exec.not_found");
    }
}
