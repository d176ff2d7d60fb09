//! The suite every transport passes, against a real broker. A process of its own, because it counts threads.

#![allow(clippy::expect_used, clippy::panic, reason = "helpers of tests")]

#[path = "../support/cluster.rs"]
#[allow(dead_code, reason = "what the other tests need of it")]
mod cluster;
mod own_broker;
mod shared_broker;
mod threads;
