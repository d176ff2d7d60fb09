//! The engine over a simulated store, destination and clock: single-threaded, one seed a run, every fault included.
//!
//! Time is tokio's paused time, so a run of minutes takes milliseconds, and the same seed gives the same run. After the
//! faults are over everything must come to an end, and the [`checker`] decides whether the promises held.

#![allow(clippy::expect_used, reason = "a simulation that cannot run has failed")]

mod checker;
mod consumer;
mod controls;
mod destination;
mod faulty;
mod plan;
mod process;
mod supervisor;
mod world;

pub use controls::Control;
pub use process::Step;

/// What came of one run.
#[derive(Debug, Clone)]
pub struct Report {
    /// The seed; running it again gives the same run.
    pub seed: u64,
    /// What did not hold; empty when all did.
    pub violations: Vec<String>,
    /// Committed events.
    pub committed: usize,
    /// What took effect at the destination.
    pub arrivals: usize,
    /// A number for what arrived in which order; equal runs have equal ones.
    pub digest: u64,
    /// What went wrong on purpose, in words.
    pub faults: Vec<String>,
}

/// Runs one seed.
///
/// # Panics
///
/// When the simulation itself cannot run.
pub fn run(seed: u64, control: Control) -> Report {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    runtime.expect("a runtime can be built").block_on(world::run(seed, control))
}
