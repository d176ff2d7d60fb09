//! The position rule on a real server: nothing is lost, nothing is swapped, nothing waits.
//!
//! `interleavings` are the ones that break other rules, step by step; `controls` are those other rules, each of which the
//! same checker must catch; `numbers` shows that every way to append takes its transaction id first; `stress` is the store
//! under writers that do everything a transaction can do, with relays that die.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout, reason = "tests")]

mod checker;
mod controls;
mod interleavings;
mod load;
mod numbers;
mod readers;
mod relays;
mod shop;
mod stress;
mod wrong_ids;
