//! The suites every store and every transport passes, the simulation and its checker, real servers for tests.

#[cfg(feature = "feeds")]
pub mod feeds;
pub mod layouts;
mod log;
#[cfg(feature = "servers")]
pub mod servers;
pub mod simulation;
pub mod stores;
mod tokens;
pub mod transports;
pub mod windows;

pub use log::Log;
