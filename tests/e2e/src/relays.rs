//! Two relays on one file, and everything that is done to them.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use serde_json::Value;

use crate::running::Running;
use crate::wait::{until, within};
use crate::world::World;

/// Two relays, one of them usually standing by. Remembers which process suffered what.
#[derive(Debug)]
pub struct Relays<'w> {
    world: &'w World,
    pair: [Running; 2],
    started: usize,
    names: BTreeMap<u32, String>,
    faults: BTreeMap<u32, usize>,
    frozen: BTreeSet<u32>,
}

impl<'w> Relays<'w> {
    /// Starts both.
    pub fn start(world: &'w World) -> Self {
        let pair = ["relay-1", "relay-2"].map(|name| world.relay(name));
        let names = pair.iter().map(Running::pid).zip(["relay-1".to_owned(), "relay-2".to_owned()]).collect();
        Self { world, pair, started: 2, names, faults: BTreeMap::new(), frozen: BTreeSet::new() }
    }

    /// Which of the two handed over last. Both may have deliveries on their way, on different routes.
    pub fn active(&self) -> usize {
        let last = self.world.journal().read().last().map(|r| r.relay);
        self.pair.iter().position(|relay| Some(relay.pid()) == last).unwrap_or(0)
    }

    /// Kills one with SIGKILL and starts another in its place.
    pub fn kill(&mut self, which: usize) {
        *self.faults.entry(self.pair[which].pid()).or_default() += 1;
        self.pair[which].signal(Signal::SIGKILL);
        assert_eq!(self.replace(which).end(), -9);
    }

    /// Stops one in good order while another starts in its place.
    pub fn restart(&mut self, which: usize) {
        self.hears_signals(which);
        self.pair[which].signal(Signal::SIGTERM);
        assert_eq!(self.replace(which).end(), 0, "a graceful stop ends with 0");
    }

    /// Freezes one for twice its lease, then thaws it. Whether the other took over meanwhile comes back: it cannot when
    /// the frozen one was in the middle of a commit and holds the file's lock.
    pub fn freeze(&mut self, which: usize, lease: Duration) -> bool {
        let [frozen, other] = [&self.pair[which], &self.pair[1 - which]];
        *self.faults.entry(frozen.pid()).or_default() += 1;
        self.frozen.insert(frozen.pid());
        let journal = self.world.journal();
        let so_far = journal.len();
        let since = Instant::now();
        frozen.signal(Signal::SIGSTOP);
        within(4 * lease, "the frozen time is over", || (since.elapsed() >= 2 * lease).then_some(()));
        frozen.signal(Signal::SIGCONT);
        journal.read().iter().skip(so_far).any(|r| r.relay == other.pid())
    }

    /// Stops both in good order. What each process suffered comes back: what was done to it, and leases it lost without
    /// having been frozen itself, because the file was locked by one that was, or the machine was too slow.
    pub fn stop(self) -> BTreeMap<u32, usize> {
        for which in 0..self.pair.len() {
            self.hears_signals(which);
        }
        for relay in self.pair {
            relay.stop();
        }
        let mut faults = self.faults;
        for (pid, name) in self.names.iter().filter(|(pid, _)| !self.frozen.contains(pid)) {
            let lost = leases_lost(&self.world.log(name));
            if lost > 0 {
                *faults.entry(*pid).or_default() += lost;
            }
        }
        faults
    }

    /// Waits until one is far enough to hear a signal: before, the system ends it at once.
    fn hears_signals(&self, which: usize) {
        let name = &self.names[&self.pair[which].pid()];
        until("the relay has started", || self.world.log(name).contains("relay starts"));
    }

    /// Takes one out and puts a fresh one, with a name and a log of its own, in its place.
    fn replace(&mut self, which: usize) -> Running {
        self.started += 1;
        let name = format!("relay-{}", self.started);
        let fresh = self.world.relay(&name);
        self.names.insert(fresh.pid(), name);
        std::mem::replace(&mut self.pair[which], fresh)
    }
}

/// How often a relay lost its lease: the lanes of all routes go together, so the route that lost most terms tells.
fn leases_lost(log: &str) -> usize {
    let mut terms: BTreeMap<String, BTreeSet<i64>> = BTreeMap::new();
    for line in log.lines().filter(|line| line.contains("another relay has taken this lane")) {
        let line: Value = serde_json::from_str(line).unwrap();
        let route = line["route"].as_str().unwrap().to_owned();
        terms.entry(route).or_default().insert(line["term"].as_i64().unwrap());
    }
    terms.values().map(BTreeSet::len).max().unwrap_or(0)
}
