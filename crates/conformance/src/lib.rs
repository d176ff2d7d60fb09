//! The suites every store and every transport passes, the simulation and its checker.

pub mod simulation;
pub mod stores;
pub mod transports;
