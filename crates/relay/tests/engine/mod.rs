//! What the engine promises, on the memory store with paused time.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "helpers of tests")]

mod breaker;
mod connection;
mod dead_letters;
mod order;
mod pipelining;
mod refusals;
mod shop;
mod stopping;
mod watching;
mod windows;
