//! Looking after the store: rights, sizes, the sequence, another cluster, tables changed by hand.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test may panic")]

mod bench;
mod diagnose;
mod identity;
mod passed;
mod roles;
mod tables;
