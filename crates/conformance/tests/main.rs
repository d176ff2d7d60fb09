//! The suites find what is broken, and what tests use of servers does what tests rely on.

mod servers;
mod simulation;
mod transports;
mod window;
