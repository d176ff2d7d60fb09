//! Delivers to Apache Kafka and to what speaks its protocol, for instance Redpanda.
//!
//! # What it promises
//!
//! - Delivered means acknowledged by all replicas in sync (`acks=all`), by an idempotent producer. The receipt says where:
//!   `orders.v1[3]@88214`.
//! - The message's key is the event's ordering key, and keys are where Java's clients put them. Events of one key follow each
//!   other without waiting (`pipelines_key`), and none is written while an earlier one is in doubt: no message expires by
//!   itself, a batch that fails ends the producer before the next one is written, and then everything unacknowledged is
//!   `Unavailable` together. When a key changes its topic, what went to the former is acknowledged first.
//! - Only an event that this topic can never take is a dead letter: too large for it, refused as a record, without a key for a
//!   compacted topic, or with a name that no topic can have. Everything else is the route's trouble, with a code that
//!   says which (in the source of `failures`): no broker, no login, no certificate, no topic, no right.
//! - Topics are never created. They are looked up before the first message, with what they take, and again after trouble.
//!
//! # How it runs
//!
//! [`Kafka::new`](crate::Kafka::new) starts nothing. The first delivery starts a task, the driver, and a producer of
//! librdkafka with its threads. The driver feeds it; librdkafka's polling thread reports acknowledgements directly, a batch
//! of them for one wake-up of the relay. A producer that had one failure is ended in the background, and the next delivery
//! makes a new one: when that is tried is up to the relay's breaker.

mod batches;
mod behind;
mod check;
mod codes;
#[cfg(feature = "config")]
mod config;
mod connection;
mod context;
mod deliver;
mod driver;
mod failures;
mod lag;
mod message;
mod options;
#[cfg(feature = "consumer")]
mod subscription;
mod topics;
mod turns;
mod window;

pub use codes::CODES;
#[cfg(feature = "config")]
pub use config::KIND;
pub use deliver::Kafka;
pub use options::{Acks, Compression, KafkaOptions, Mechanism, Sasl, UnknownTopic};
#[cfg(feature = "consumer")]
pub use subscription::{Begin, KafkaSubscription, KafkaSubscriptionOptions, KafkaTicket};

/// The target of everything this crate logs.
const LOG: &str = "postroom::kafka";
