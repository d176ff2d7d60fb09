//! Delivers to URLs with signed requests.
//!
//! Each event is a `POST` of its envelope. A signature covers id, time and body, and no other header, so a configured route with a
//! secret has structured CloudEvents in the body, and one without a secret `ce-*` headers. `webhook-id` is the event's id and the same on every attempt, so that a receiver can tell repeats; `webhook-timestamp` is the
//! attempt's; `webhook-signature` is as Standard Webhooks describes ([`signature`]).
//!
//! # Answers
//!
//! 2xx is delivered, at the head of the answer. 400, 413, 415 and 422 are permanent. 429, 502, 503, 504,
//! a time-out, no connection, no name and no trust are `Unavailable`: the route pauses, as long as `Retry-After` asks, and
//! nothing is lost; 410 says that the endpoint is no more. Every other answer is transient; redirects are never followed. A connection that ends before an answer is replaced once.
//!
//! # Where requests go
//!
//! To public addresses, and to [`WebhookOptions::allow_networks`]. The address that counts is the one the name leads to,
//! looked at for every new connection, which then goes to exactly that address.
//!
//! # Limits
//!
//! A delivery holds one of [`WebhookOptions::concurrency`] slots for at most [`WebhookOptions::timeout`], whatever the
//! receiver does: a slow head, an endless body. Of an answer at most 64 kB are read, nothing is unpacked, and 200
//! characters are quoted. Each route has a client of its own.

mod address;
mod certificate;
mod check;
mod codes;
#[cfg(feature = "config")]
mod config;
mod connection;
mod deliver;
mod failures;
mod message;
mod options;
mod resolver;
mod retry_after;
pub mod signature;

pub use codes::CODES;
#[cfg(feature = "config")]
pub use config::KIND;
pub use deliver::Webhook;
pub use options::{WebhookError, WebhookOptions};

/// The target of everything this crate logs.
const LOG: &str = "postroom::webhook";
