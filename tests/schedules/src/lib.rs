//! Schedules over the real stores: the real engine over a real store's source, where the harness decides at which statement
//! boundary something else happens.
//!
//! A run is a seed. Each statement of a relay waits at a gate until the schedule lets it go on; in between the schedule commits a
//! producer's transaction, answers a delivery, moves the clock, pauses the route, cuts a connection, kills a relay. Afterwards all
//! faults end, everything must come to its end, and the checker compares the store with the ledger of producers and destination.

#![allow(clippy::expect_used, clippy::panic, reason = "a simulation that cannot run has failed")]

mod controls;
mod destination;
mod faults;
mod ledger;
mod operators;
mod peace;
mod plan;
mod producers;
mod relay;
mod scenes;
mod schedule;
mod sites;

use std::fmt;
use std::sync::Arc;

pub use controls::controls;
use plan::Plan;
use postroom_conformance::mappings::Sample;
use postroom_testbed::Cluster;
use postroom_testing::ManualClock;
use scenes::Scene;
use schedule::Run;
use sites::{AdoptedSite, PostgresSite, Site, SqliteSite};

/// Which store a run is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Under {
    /// The native log on PostgreSQL.
    Postgres,
    /// The native log on a SQLite file.
    Sqlite,
    /// A table of an application on PostgreSQL; the seed decides how its rows are claimed, and whether another route marks them.
    Adopted,
}

impl Under {
    /// The one of this name on the command line.
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "postgres" => Some(Self::Postgres),
            "sqlite" => Some(Self::Sqlite),
            "adopted" => Some(Self::Adopted),
            _ => None,
        }
    }
}

/// What came of a run.
#[derive(Debug)]
pub struct Report {
    /// Its seed.
    pub seed: u64,
    /// What did not hold, in words; empty when all did.
    pub violations: Vec<String>,
    /// Events committed.
    pub committed: usize,
    /// Deliveries handed over.
    pub handed: usize,
    /// Steps of the schedule.
    pub steps: usize,
    /// What the seed decided.
    pub plan: String,
    /// The schedule.
    pub trace: Vec<String>,
}

impl Report {
    /// Of a run in which nothing happened yet.
    pub fn new(seed: u64) -> Self {
        let (violations, plan, trace) = (Vec::new(), String::new(), Vec::new());
        Self { seed, violations, committed: 0, handed: 0, steps: 0, plan, trace }
    }

    /// Of a run that ended by a panic.
    pub fn cut_short(seed: u64) -> Self {
        Self { violations: vec!["the run ended by a panic".to_owned()], ..Self::new(seed) }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "seed {}: {}", self.seed, self.plan)?;
        for step in &self.trace {
            writeln!(f, "  {step}")?;
        }
        for violation in &self.violations {
            writeln!(f, "{violation}")?;
        }
        Ok(())
    }
}

/// Runs one schedule.
pub fn run(under: Under, seed: u64) -> Report {
    run_with(under, seed, None, None)
}

/// Runs one schedule that begins with a scene, on a server of its own if there is one.
fn run_with(under: Under, seed: u64, scene: Option<Scene>, alone: Option<&Cluster>) -> Report {
    runtime().block_on(async {
        let mut rng = fastrand::Rng::with_seed(seed);
        let mut plan = Plan::new(&mut rng).playing(scene);
        if under == Under::Adopted && sites::kind(seed).sample == Sample::Locks {
            plan = plan.by_the_servers_clock();
        }
        let clock = ManualClock::new();
        let site: Arc<dyn Site> = match (under, alone) {
            (Under::Postgres, None) => Arc::new(PostgresSite::new(plan.lanes, &clock).await),
            (Under::Postgres, Some(cluster)) => Arc::new(PostgresSite::alone(plan.lanes, &clock, cluster).await),
            (Under::Adopted, _) => Arc::new(AdoptedSite::new(sites::kind(seed), &plan).await),
            (Under::Sqlite, _) => Arc::new(SqliteSite::new(&clock).await),
        };
        Run::new(seed, rng, plan, clock, site).run().await
    })
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime")
}
