//! Reads a broker's messages and does their work once.
//!
//! For each message the loop begins a transaction, accepts the event's id in it, runs the handler in it, commits, and only
//! then tells the broker that the message is done. A message that comes again is told to be done without running.
//!
//! ```text
//!  broker ──next──► lane ──begin──► accept ──New──► handler(&mut tx, &message) ──► commit ──► ack
//!                    ▲                 └─Duplicate──────────────────────────────────────────────┘
//!                    │ one at a time     failed: rolled back, again after a delay; given up: bury, then ack
//! ```
//!
//! - A [`Feed`] is a broker: `transports/{kafka,rabbitmq,nats}` have one each, behind their feature `consumer`.
//! - A [`Message`] is what every envelope of Postroom comes to; [`Wire`] is how a feed found it.
//! - A [`Handler`] is given the transaction. Work through another connection would not be part of it.
//! - A [`Consumer`] is the loop: lanes, retries, dead letters, the stop.

mod attempt;
mod consumer;
mod feed;
mod handler;
mod lanes;
mod message;
mod meter;
mod options;
mod trace;
mod wire;

pub use consumer::{Consumer, NameError};
pub use feed::{Arrival, Delivered, Feed, Gone, LaneName, OptionsError, pause, reason_headers};
pub use handler::Handler;
pub use message::Message;
pub use options::ConsumerOptions;
pub use wire::{ID_FIELD, Wire};

/// The target of everything this crate logs.
const LOG: &str = "postroom::consumer";
