//! Delivers to RabbitMQ exchanges with publisher confirms.
//!
//! A persistent message per event: its id as `message_id`, its type as `type`, when it occurred as `timestamp`, the
//! correlation id and the content type as such, and what the route's envelope puts into headers. The routing key is made
//! from the event ([`Template`](postroom_core::Template)).
//!
//! # What counts as delivered
//!
//! A confirm of the broker for a message that did not come back. Everything is published as `mandatory`: a broker confirms
//! what no queue takes as well, and sends it back before. What that means is [`Unroutable`]'s choice. A refusal (a queue
//! that is full and says so) is transient.
//!
//! # Why not a general client
//!
//! A confirm may cover many messages (`multiple`), and one of them may have come back. lapin 4.12 gives a message that came
//! back to any of those confirmed with it: of 200 unroutable ones among 2,000, 8 were reported as delivered. So this crate
//! speaks the small part of AMQP 0-9-1 that a publisher needs itself; [`lapin`](https://docs.rs/lapin) reads the queues in
//! its tests.
//!
//! # The life of a connection
//!
//! Opened at the first delivery, one per route with one channel, and again at the next delivery after it has ended. When
//! the broker closes it or the channel, when nothing is heard for two heartbeats, or when a confirm takes longer than
//! [`RabbitMqOptions::timeout`], everything unconfirmed is `Unavailable` and comes again with the same id. A blocked
//! connection (memory or disk alarm) is kept, and everything is `Unavailable` until the broker unblocks it.

mod address;
mod check;
mod codes;
#[cfg(feature = "config")]
mod config;
mod connection;
mod culprit;
mod deliver;
mod driver;
mod failures;
mod lag;
mod message;
mod options;
#[cfg(feature = "consumer")]
mod subscription;
mod topology;
mod unroutable;
mod window;
mod wire;

pub use address::{Address, AddressError};
pub use codes::CODES;
#[cfg(feature = "config")]
pub use config::KIND;
pub use deliver::RabbitMq;
pub use options::{OptionsError, RabbitMqOptions, Unroutable};
#[cfg(feature = "consumer")]
pub use subscription::{DeadLetters, RabbitMqSubscription, RabbitMqSubscriptionOptions, RabbitMqTicket};
#[cfg(feature = "config")]
pub use topology::config::TOPOLOGY;
pub use topology::{
    Binding, Exchange, ExchangeKind, Mode, Queue, QueueKind, Topology, TopologyError, check_binding_key, check_name,
};

/// The target of everything this crate logs.
const LOG: &str = "postroom::rabbitmq";
