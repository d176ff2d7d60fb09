//! The exec transport against real processes and real sockets: the suite, and what only it does.

#![allow(clippy::expect_used, clippy::panic, reason = "helpers of tests")]

mod child;
mod life;
mod log;
mod protocol;
mod socket;
mod workshop;
