//! What the end-to-end tests are made of: the real `postroom` binary, a producer with a ledger, a child that keeps a
//! journal, and a checker that compares the two.
//!
//! The tests see only the product's outside: its commands, its configuration, its files, its exit codes, and signals.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::missing_panics_doc,
    reason = "what cannot be made or run fails the test"
)]

mod binary;
mod brokers;
mod checker;
mod consumers;
mod journal;
mod judge;
mod ledger;
mod level;
mod producer;
mod producers;
mod relays;
mod running;
mod samples;
mod scale;
mod server;
mod wait;
mod watch;
mod world;
mod write_lock;

pub use binary::{postroom, target};
pub use brokers::Brokers;
pub use checker::{Evidence, Findings};
pub use consumers::{Receiver, consume, packages, printed};
pub use journal::{Answer, Follower, Journal, Reception};
pub use judge::Terms;
pub use ledger::{Ledger, Written};
pub use level::{Bound, Series};
pub use producer::Producer;
pub use producers::Producers;
pub use relays::Relays;
pub use running::Running;
pub use samples::Samples;
pub use scale::scale;
pub use server::Server;
pub use wait::{until, within};
pub use watch::Watch;
pub use world::{ProgramOutput, World};
pub use write_lock::WriteLock;
