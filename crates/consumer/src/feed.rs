//! The seam to a broker.

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use postroom_core::{Burial, Delays, Failure, RetryPolicy};

use crate::wire::Wire;

/// Messages of one lane are worked on one after the other, in the order they came.
pub type LaneName = Arc<str>;

/// What a broker hands over.
#[derive(Debug)]
pub enum Arrival<T> {
    /// A message.
    Message(Delivered<T>),
    /// What was handed over before is no longer ours: the broker gives it to somebody, or to us again.
    Gone(Gone),
}

/// A message in our hands.
#[derive(Debug)]
pub struct Delivered<T> {
    /// Its lane, where the broker has an order of its own. Otherwise messages of one key are a lane, and those without a
    /// key have none.
    pub lane: Option<LaneName>,
    /// What it says.
    pub wire: Wire,
    /// What the broker knows it by.
    pub ticket: T,
}

/// Whose turn is over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Gone {
    /// Everything of before.
    All,
    /// These lanes. They do not come back under the same name.
    Lanes(Vec<LaneName>),
}

/// Where a consumer's messages come from. One of them is one member of the group that shares the work.
///
/// Nothing here loses a message: what was not acknowledged comes again, here or elsewhere. The limit of how much is in
/// our hands at once is the feed's own (`prefetch`).
pub trait Feed: fmt::Debug + Send + Sync + 'static {
    /// What the broker knows a message by. Dropping it gives the message's place free, and says nothing to the broker.
    type Ticket: Send + Sync + 'static;

    /// The next thing that happens. Connects, and connects again, with a back-off of its own; never gives up. At most one
    /// call at a time; it is dropped only when no other will follow.
    fn next(&self) -> impl Future<Output = Arrival<Self::Ticket>> + Send;

    /// Says that the message is done. If that does not get through it comes again, and is found to be a duplicate.
    fn ack(&self, ticket: &Self::Ticket) -> impl Future<Output = ()> + Send;

    /// Puts the message where dead ones are, with why it died, and says that it is done: in this order. After a failure
    /// the message is as it was before.
    fn bury(
        &self,
        ticket: &Self::Ticket,
        consumer: &str,
        burial: &Burial,
    ) -> impl Future<Output = Result<(), Failure>> + Send;

    /// Gives the message back at once, because we stop.
    fn release(&self, ticket: Self::Ticket) -> impl Future<Output = ()> + Send;

    /// Says goodbye, when nothing is in our hands any more. Acknowledgements before it have got through after it, if the
    /// broker is there. Dropping a feed without it is a crash.
    fn close(self) -> impl Future<Output = ()> + Send;
}

/// Headers that say why a message died, for feeds that write them. They come first: the first of a name counts.
pub fn reason_headers(consumer: &str, burial: &Burial) -> [(&'static str, String); 5] {
    [
        ("postroom-failure-code", burial.failure.code.to_string()),
        ("postroom-error", burial.failure.error.clone()),
        ("postroom-attempts", burial.attempts.to_string()),
        ("postroom-failed-at", burial.at.to_string()),
        ("postroom-consumer", consumer.to_owned()),
    ]
}

/// Options of a feed that cannot be meant.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct OptionsError(pub String);

/// How long to leave a broker alone that was not there so often in a row.
pub fn pause(times: u32) -> Duration {
    let delays = Delays::Exponential { base: Duration::from_millis(100), max: Duration::from_secs(10) };
    RetryPolicy { delays, jitter: 0.2, attempts: u32::MAX }.delay(times, fastrand::f64())
}
