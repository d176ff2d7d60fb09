//! The HTTP API over real sockets: who may what, what comes back, and what wrong input gets.

#![allow(clippy::unwrap_used, clippy::panic, reason = "what is not as it should be fails the test")]

mod answers;
mod append;
mod fuzz;
mod once;
mod roles;
mod site;
mod wrong;
