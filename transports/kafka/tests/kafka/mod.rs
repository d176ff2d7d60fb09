//! The Kafka transport against real brokers, and against a mock where a real one cannot be made to fail so.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "helpers of tests")]

mod check;
mod lag;
mod messages;
mod mock;
mod order;
mod refusals;
mod sizes;
mod way_in;
mod workshop;
