//! The NATS transport against real servers: the suite, and what only it does.

#![allow(clippy::expect_used, clippy::panic, reason = "helpers of tests")]

mod check;
mod core;
mod lag;
mod login;
mod losing;
mod refusing;
mod streams;
mod suite;
mod tls;
