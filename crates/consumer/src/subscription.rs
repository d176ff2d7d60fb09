//! The seam to a broker.

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use postroom_core::{DeadLetterCause, Delays, Failure, RetryPolicy};

use crate::wire::Wire;

/// Scope of order: messages of one scope are processed one after the other, in the order they came.
pub type OrderScope = Arc<str>;

/// Event of a subscription.
#[derive(Debug)]
pub enum Arrival<T> {
    /// A message.
    Message(Delivered<T>),
    /// What was handed over before is no longer ours: the broker gives it to somebody, or to us again.
    Revoked(Revoked),
}

/// Message that the consumer holds.
#[derive(Debug)]
pub struct Delivered<T> {
    /// Its lane, where the broker has an order of its own. Otherwise messages of one key are a lane, and those without a
    /// key have none.
    pub lane: Option<OrderScope>,
    /// Content of the message.
    pub wire: Wire,
    /// Ticket by which the broker identifies the message.
    pub ticket: T,
}

/// Messages that the broker has revoked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Revoked {
    /// Everything of before.
    All,
    /// These lanes. They do not come back under the same name.
    Scopes(Vec<OrderScope>),
}

/// Subscription: the source of a consumer's messages. Each is one member of the group that shares the work.
///
/// Nothing here loses a message: what was not acknowledged comes again, here or elsewhere. The limit of how much is in
/// our hands at once is the subscription's own (`prefetch`).
pub trait Subscription: fmt::Debug + Send + Sync + 'static {
    /// Ticket by which the broker identifies a message. Dropping it frees the message's slot without notifying the broker.
    type Ticket: Send + Sync + 'static;

    /// The next thing that happens. Connects, and connects again, with a back-off of its own; never gives up. At most one
    /// call at a time; it is dropped only when no other will follow.
    fn next(&self) -> impl Future<Output = Arrival<Self::Ticket>> + Send;

    /// Says that the message is done. If that does not get through it comes again, and is found to be a duplicate.
    fn ack(&self, ticket: &Self::Ticket) -> impl Future<Output = ()> + Send;

    /// Puts the message where dead ones are, with why it died, and says that it is done: in this order. After a failure
    /// the message is as it was before.
    fn publish_dead_letter(
        &self,
        ticket: &Self::Ticket,
        consumer: &str,
        dead_letter: &DeadLetterCause,
    ) -> impl Future<Output = Result<(), Failure>> + Send;

    /// Gives the message back at once, because we stop.
    fn release(&self, ticket: Self::Ticket) -> impl Future<Output = ()> + Send;

    /// Says goodbye, when nothing is in our hands any more. Acknowledgements before it have got through after it, if the
    /// broker is there. Dropping a subscription without it is a crash.
    fn close(self) -> impl Future<Output = ()> + Send;
}

/// Returns the headers with the reason of a dead message, for subscriptions that write them. They come first: the first of a name counts.
pub fn reason_headers(consumer: &str, dead_letter: &DeadLetterCause) -> [(&'static str, String); 5] {
    [
        ("postroom-failure-code", dead_letter.failure.code.to_string()),
        ("postroom-error", dead_letter.failure.error.clone()),
        ("postroom-attempts", dead_letter.attempts.to_string()),
        ("postroom-failed-at", dead_letter.at.to_string()),
        ("postroom-consumer", consumer.to_owned()),
    ]
}

/// Error of options of a subscription that are not valid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct OptionsError(pub String);

/// Returns the pause before the next connection to a broker that was unreachable this many times in a row.
pub fn pause(times: u32) -> Duration {
    let delays = Delays::Exponential { base: Duration::from_millis(100), max: Duration::from_secs(10) };
    RetryPolicy::default().delays(delays).jitter(0.2).attempts(u32::MAX).delay(times, fastrand::f64())
}
