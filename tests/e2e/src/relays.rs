//! Relays on one database, and everything that is done to them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use serde_json::Value;

use crate::running::Running;
use crate::wait::{until, within};
use crate::world::World;
use crate::write_lock::WriteLock;

/// Some relays. Remembers which process suffered what.
#[derive(Debug)]
pub struct Relays<'w> {
    world: &'w World,
    all: Vec<Running>,
    started: usize,
    names: BTreeMap<u32, String>,
    faults: BTreeMap<u32, usize>,
    robbed: BTreeSet<u32>,
}

impl<'w> Relays<'w> {
    /// Starts so many.
    pub fn start(world: &'w World, count: usize) -> Self {
        let (faults, robbed) = (BTreeMap::new(), BTreeSet::new());
        let mut relays = Self { world, all: Vec::new(), started: 0, names: BTreeMap::new(), faults, robbed };
        for _ in 0..count {
            let fresh = relays.fresh();
            relays.all.push(fresh);
        }
        relays
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.all.len()
    }

    /// The name and the process id of one.
    pub fn who(&self, which: usize) -> (&str, u32) {
        let pid = self.all[which].pid();
        (&self.names[&pid], pid)
    }

    /// The processes.
    pub fn all(&self) -> &[Running] {
        &self.all
    }

    /// Where one answers over HTTP, once it does.
    pub fn address(&self, which: usize) -> Option<String> {
        let log = self.world.log(self.who(which).0);
        let line = log.lines().find(|line| line.contains("HTTP server started"))?;
        let line: Value = serde_json::from_str(line).unwrap();
        line["address"].as_str().map(str::to_owned)
    }

    /// Which one handed over last. Several may have deliveries on their way, on different routes or lanes.
    pub fn active(&self) -> usize {
        let last = self.world.journal().read().last().map(|r| r.relay);
        self.all.iter().position(|relay| Some(relay.pid()) == last).unwrap_or(0)
    }

    /// Kills one with SIGKILL and starts another in its place.
    pub fn kill(&mut self, which: usize) {
        *self.faults.entry(self.all[which].pid()).or_default() += 1;
        self.all[which].signal(Signal::SIGKILL);
        assert_eq!(self.replace(which).end(), -9);
    }

    /// Stops one in good order while another starts in its place.
    pub fn restart(&mut self, which: usize) {
        self.hears_signals(which);
        self.all[which].signal(Signal::SIGTERM);
        assert_eq!(self.replace(which).end(), 0, "a graceful stop ends with 0");
    }

    /// Stops one in good order; the others remain.
    pub fn retire(&mut self, which: usize) {
        self.hears_signals(which);
        self.all.remove(which).stop();
    }

    /// Freezes one for twice its lease and until another has delivered, but no longer than six leases, then thaws it. Returns
    /// whether another delivered meanwhile.
    pub fn freeze(&mut self, which: usize, lease: Duration) -> bool {
        self.freeze_holding(which, lease, || ())
    }

    /// Freezes one as [`Relays::freeze`] does, while it commits nothing to this SQLite file: one that is frozen in the middle of
    /// a commit holds the file's lock, so that no other could take over.
    pub fn freeze_between_commits(&mut self, which: usize, lease: Duration, file: &Path) -> bool {
        self.freeze_holding(which, lease, || WriteLock::take(file))
    }

    fn freeze_holding<G>(&mut self, which: usize, lease: Duration, guard: impl FnOnce() -> G) -> bool {
        let frozen = &self.all[which];
        *self.faults.entry(frozen.pid()).or_default() += 1;
        self.robbed.insert(frozen.pid());
        let others: Vec<u32> = self.all.iter().map(Running::pid).filter(|pid| *pid != frozen.pid()).collect();
        let mut journal = self.world.journal().follow();
        journal.count();
        let guard = guard();
        let since = Instant::now();
        frozen.signal(Signal::SIGSTOP);
        until("the relay is frozen", || frozen.is_frozen());
        drop(guard);
        let mut taken_over = false;
        within(9 * lease, "the frozen time is over", || {
            taken_over |= journal.fresh().iter().any(|r| others.contains(&r.relay));
            let leases = if taken_over { 2 } else { 6 };
            (since.elapsed() >= leases * lease).then_some(())
        });
        frozen.signal(Signal::SIGCONT);
        taken_over
    }

    /// Something was done to the server or the way to it, which may have cost every relay its lanes.
    pub fn all_suffered(&mut self) {
        for pid in self.all.iter().map(Running::pid) {
            *self.faults.entry(pid).or_default() += 1;
            self.robbed.insert(pid);
        }
    }

    /// Stops all in good order. What each process suffered comes back: what was done to it, and leases it lost without
    /// having been robbed of them, because the file was locked by one that was frozen, or the machine was too slow.
    pub fn stop(self) -> BTreeMap<u32, usize> {
        for which in 0..self.all.len() {
            self.hears_signals(which);
        }
        for relay in &self.all {
            relay.signal(Signal::SIGTERM);
        }
        for relay in self.all {
            assert_eq!(relay.end(), 0, "a graceful stop ends with 0");
        }
        let mut faults = self.faults;
        for (pid, name) in self.names.iter().filter(|(pid, _)| !self.robbed.contains(pid)) {
            let lost = leases_lost(&self.world.log(name));
            if lost > 0 {
                *faults.entry(*pid).or_default() += lost;
            }
        }
        faults
    }

    /// Waits until one is far enough to hear a signal: before, the system ends it at once.
    fn hears_signals(&self, which: usize) {
        let (name, _) = self.who(which);
        until("the relay has started", || self.world.log(name).contains("relay started"));
    }

    /// Takes one out and puts a fresh one in its place.
    fn replace(&mut self, which: usize) -> Running {
        let fresh = self.fresh();
        std::mem::replace(&mut self.all[which], fresh)
    }

    /// Starts one with a name and a log of its own.
    fn fresh(&mut self) -> Running {
        self.started += 1;
        let name = format!("relay-{}", self.started);
        let fresh = self.world.relay(&name);
        self.names.insert(fresh.pid(), name);
        fresh
    }
}

/// How often a relay lost its lease: the lanes of all routes go together, so the lane that lost most terms tells.
fn leases_lost(log: &str) -> usize {
    let mut terms: BTreeMap<(String, i64), BTreeSet<i64>> = BTreeMap::new();
    let told = ["another relay has taken over lanes", "lanes lost while the store was away"];
    for line in log.lines().filter(|line| told.iter().any(|told| line.contains(told))) {
        let line: Value = serde_json::from_str(line).unwrap();
        for lost in line["lost"].as_str().unwrap().split(' ') {
            let (lane, term) = lost.split_once('@').unwrap();
            let lane = (line["route"].as_str().unwrap().to_owned(), lane.parse().unwrap());
            terms.entry(lane).or_default().insert(term.parse().unwrap());
        }
    }
    terms.values().map(BTreeSet::len).max().unwrap_or(0)
}
