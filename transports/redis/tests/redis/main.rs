//! The Redis transport against real servers: the suite, and what only it does.

#![allow(clippy::expect_used, clippy::unwrap_used, clippy::panic, reason = "helpers of tests")]

mod check;
mod durable;
mod lag;
mod login;
mod losing;
mod refusing;
mod streams;
mod stub;
mod suite;
mod tls;
mod window;
