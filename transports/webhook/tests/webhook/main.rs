//! Webhooks against real HTTP servers: the suite, and what only webhooks meet.

#![allow(clippy::expect_used, clippy::panic, reason = "helpers of tests")]

mod answers;
mod check;
mod connections;
mod hostile;
mod plain;
mod receiver;
mod secrets;
mod slow;
mod tls;
