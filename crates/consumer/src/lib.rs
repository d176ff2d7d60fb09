//! Reads a broker's messages and does their work once.
//!
//! For each message the loop begins a transaction, accepts the event's id in it, runs the handler in it, commits, and only
//! then tells the broker that the message is done. A message that comes again is told to be done without running.
//!
//! ```text
//!  broker ──next──► lane ──begin──► accept ──New──► handler(&mut tx, &message) ──► commit ──► ack
//!                    ▲                 └─Duplicate──────────────────────────────────────────────┘
//!                    │ one at a time     failed: rolled back, again after a delay; given up: publish_dead_letter, then ack
//! ```
//!
//! - A [`Subscription`] is a broker: `transports/{kafka,rabbitmq,nats}` have one each, behind their feature `consumer`.
//! - A [`Message`] is what every envelope of Postroom comes to; [`Wire`] is how a subscription found it.
//! - A [`Handler`] is given the transaction. Work through another connection would not be part of it.
//! - A [`Consumer`] is the loop: lanes, retries, dead letters, the stop.
//! - A [`dedup`] window remembers ids for consumers without a database.

mod attempt;
mod codes;
mod consumer;
pub mod dedup;
mod handler;
mod lanes;
mod message;
mod meter;
mod options;
mod subscription;
mod trace;
mod wire;

pub use codes::CODES;
pub use consumer::{Consumer, NameError};
pub use handler::Handler;
pub use message::Message;
pub use options::ConsumerOptions;
pub use subscription::{Arrival, Delivered, OptionsError, OrderScope, Revoked, Subscription, pause, reason_headers};
pub use wire::{ID_FIELD, Wire};

/// The target of everything this crate logs.
const LOG: &str = "postroom::consumer";
