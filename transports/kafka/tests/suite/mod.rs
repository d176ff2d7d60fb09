//! The suite every transport passes, against a real broker. A process of its own, because it counts threads.

#![allow(clippy::expect_used, clippy::panic, reason = "helpers of tests")]

mod own_broker;
mod shared_broker;
mod threads;
