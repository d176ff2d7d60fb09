//! What goes wrong with databases, networks and clocks, and what the store makes of it: a file per kind of trouble. Each
//! test names the row of `docs/hazards.md` it stands for; `list` checks that page.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

mod bench;
mod boundaries;
mod clocks;
mod commits;
mod connections;
mod counting;
mod crashes;
mod disk;
mod failover;
mod horizon;
mod inbox;
mod list;
mod locks;
mod numbers;
mod poolers;
mod quantities;
mod quiet;
mod retention;
mod schema;
mod sweeps;
mod vanished;
