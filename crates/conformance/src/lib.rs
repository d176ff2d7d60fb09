//! The suites every store and every transport passes, the simulation and its checker.

pub mod simulation;
pub mod transports;
pub mod stores;
