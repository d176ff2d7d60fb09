//! A server of one test's own, for those that stop, crash or change it.

use std::fs;
use std::io;
use std::sync::Mutex;

use nix::sys::signal::Signal;

use super::server::{PATIENCE, Server, Site, end_leftovers, start};
use super::{Process, State};

/// A server that nobody else uses. It and its folder go when this is dropped.
pub struct OwnServer {
    server: &'static dyn Server,
    /// Where it lives; the same after a restart.
    pub site: Site,
    process: Mutex<Option<Process>>,
}

impl OwnServer {
    /// Starts one. The shared servers must be up: their folder is where it lives.
    pub fn start(server: &'static dyn Server) -> io::Result<Self> {
        let state = State::read()?.ok_or_else(|| io::Error::other("no servers: run cargo xtask services up"))?;
        let random: String = std::iter::repeat_with(fastrand::alphanumeric).take(8).collect();
        let site = Site::new(server, state.own().join(format!("{}-{random}", server.name())), &state)?;
        server.prepare(&site, &state)?;
        let own = Self { server, site, process: Mutex::new(None) };
        own.resume()?;
        Ok(own)
    }

    /// Asks it to end, and waits until it has.
    pub fn stop(&self) -> io::Result<()> {
        self.take().map_or(Ok(()), |process| process.end(self.server.stop_signal(), PATIENCE))
    }

    /// Ends it without giving it a chance to do anything about it.
    pub fn crash(&self) -> io::Result<()> {
        self.take().map_or(Ok(()), |process| process.crash())
    }

    /// Starts it again with what it had.
    pub fn resume(&self) -> io::Result<()> {
        let process = start(self.server, &self.site)?;
        *self.process.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = Some(process);
        Ok(())
    }

    /// Sends it a signal, for instance `SIGSTOP`.
    pub fn signal(&self, signal: Signal) -> io::Result<()> {
        let process = *self.process.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        process.map_or(Ok(()), |process| process.signal(signal))
    }

    fn take(&self) -> Option<Process> {
        self.process.lock().unwrap_or_else(std::sync::PoisonError::into_inner).take()
    }
}

impl Drop for OwnServer {
    fn drop(&mut self) {
        // It may be stopped by a signal, which would keep it from ending.
        let _ = self.crash();
        let _ = end_leftovers(&self.site.folder);
        let _ = fs::remove_dir_all(&self.site.folder);
    }
}

impl std::fmt::Debug for OwnServer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OwnServer").field("name", &self.server.name()).field("site", &self.site).finish_non_exhaustive()
    }
}
