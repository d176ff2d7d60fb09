//! What happens to a run that is interrupted: its children end, and the rest of the run goes on to clean up.

use std::collections::BTreeSet;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, ExitStatus};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

/// Processes that were started, each with a group of its own, and are ended with the run.
#[derive(Clone, Default)]
pub(super) struct Children {
    running: Arc<Mutex<BTreeSet<i32>>>,
    interrupted: Arc<AtomicBool>,
}

impl Children {
    /// From here on SIGINT, SIGTERM and SIGHUP end the children and not this process.
    pub(super) fn watch() -> io::Result<Self> {
        let children = Self::default();
        // Not by blocking them: children would inherit that.
        let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP])?;
        let theirs = children.clone();
        std::thread::spawn(move || {
            for _ in signals.forever() {
                theirs.interrupted.store(true, Ordering::SeqCst);
                for pid in theirs.running().iter() {
                    let _ = killpg(Pid::from_raw(*pid), Signal::SIGKILL);
                }
            }
        });
        Ok(children)
    }

    pub(super) fn interrupted(&self) -> bool {
        self.interrupted.load(Ordering::SeqCst)
    }

    /// Starts one, unless the run was interrupted.
    pub(super) fn spawn(&self, command: &mut Command) -> io::Result<Child> {
        // Held over the start: whoever interrupts sees it.
        let mut running = self.running();
        if self.interrupted() {
            return Err(io::ErrorKind::Interrupted.into());
        }
        let child = command.process_group(0).spawn()?;
        running.insert(pid(&child));
        Ok(child)
    }

    /// Waits for one to end, and ends what it left of its group.
    pub(super) fn wait(&self, mut child: Child) -> io::Result<ExitStatus> {
        let status = child.wait();
        self.running().remove(&pid(&child));
        let _ = killpg(Pid::from_raw(pid(&child)), Signal::SIGKILL);
        status
    }

    /// Ends one that takes too long.
    pub(super) fn end(child: &Child) {
        let _ = killpg(Pid::from_raw(pid(child)), Signal::SIGKILL);
    }

    fn running(&self) -> std::sync::MutexGuard<'_, BTreeSet<i32>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn pid(child: &Child) -> i32 {
    i32::try_from(child.id()).unwrap_or(i32::MAX)
}
