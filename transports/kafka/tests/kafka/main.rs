//! The Kafka transport against real brokers, and against a mock where a real one cannot be made to fail so.

#![allow(clippy::expect_used, clippy::panic, reason = "helpers of tests")]

#[path = "../support/cluster.rs"]
mod cluster;
