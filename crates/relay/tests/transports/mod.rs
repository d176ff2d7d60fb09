//! Handlers, stdout and noop: the suite, and what only they do.

#![allow(clippy::expect_used, clippy::panic, reason = "helpers of tests")]

mod handlers;
mod noop;
mod stdout;
