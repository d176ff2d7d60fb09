//! The file transport against real folders.

#![allow(clippy::expect_used, reason = "helpers of tests")]

mod crash;
mod folder;
mod rotation;
mod suite;
