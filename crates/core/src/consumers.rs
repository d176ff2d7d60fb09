//! Lag of the consumers of a destination, in whatever language they are written, as the destination itself tells it.
//!
//! Read now and then by one relay of a route, on a connection of its own: deliveries neither wait for it nor notice it. What is not
//! known is `None`, never 0.

use std::fmt;
use std::time::Duration;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use crate::failure::Failure;

/// Most consumers of a route that are shown. More of them are too many series for a metric, and too much for a heartbeat.
pub const CONSUMERS_MAX: usize = 100;

/// Reader of the lag of a destination's consumers. When dropped, its connection ends.
#[async_trait]
pub trait LagReader: fmt::Debug + Send {
    /// Returns the pause between two reads.
    fn every(&self) -> Duration;

    /// Reads the lag of every consumer, within the transport's own time-out. Changes nothing at the destination.
    ///
    /// A consumer of which something may not be read is unknown, and [`ConsumerLags::message`] says which right is missing. An error
    /// means that nothing is known.
    async fn read(&mut self) -> Result<ConsumerLags, Failure>;
}

/// Consumers of a destination, as they were last read.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ConsumerLags {
    /// Consumers, by destination and name.
    pub consumers: Vec<ConsumerLag>,
    /// Reason why something is unknown; empty if everything is known.
    pub message: String,
}

/// Lag of a consumer: a group, a durable consumer, or the consumers of a queue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ConsumerLag {
    /// Topic, exchange or stream that the route delivers to.
    pub destination: String,
    /// Name of the group, the durable consumer or the queue.
    pub consumer: String,
    /// Messages that the consumer has not finished; null if unknown.
    pub messages: Option<u64>,
    /// Members of the consumer, as the destination counts them; null if unknown.
    pub members: Option<u64>,
}

impl ConsumerLags {
    /// Creates the lags of these consumers, sorted, with the reason why something is unknown. Of more than [`CONSUMERS_MAX`] the
    /// rest is left out, and the message says so.
    pub fn new(mut consumers: Vec<ConsumerLag>, message: impl Into<String>) -> Self {
        consumers.sort_by(|a, b| (&a.destination, &a.consumer).cmp(&(&b.destination, &b.consumer)));
        let mut message = storable(message.into());
        if consumers.len() > CONSUMERS_MAX {
            let all = consumers.len();
            let separator = if message.is_empty() { "" } else { "; " };
            message =
                format!("{message}{separator}{CONSUMERS_MAX} of {all} consumers are shown; name those that matter");
            consumers.truncate(CONSUMERS_MAX);
        }
        Self { consumers, message }
    }

    /// Returns the same consumers, of which nothing is known any more, for this reason.
    #[must_use]
    pub fn unknown(self, message: impl Into<String>) -> Self {
        let unknown = |consumer| ConsumerLag { messages: None, members: None, ..consumer };
        Self { consumers: self.consumers.into_iter().map(unknown).collect(), message: storable(message.into()) }
    }
}

impl ConsumerLag {
    /// Creates the lag of a consumer.
    pub fn new(
        destination: impl Into<String>,
        consumer: impl Into<String>,
        messages: Option<u64>,
        members: Option<u64>,
    ) -> Self {
        Self { destination: storable(destination.into()), consumer: storable(consumer.into()), messages, members }
    }
}

/// A name that others gave, so that every database can store it.
fn storable(text: String) -> String {
    if text.contains('\0') { text.replace('\0', "\u{fffd}") } else { text }
}

/// Options of reading the lag of a destination's consumers.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct LagOptions {
    /// Pause between two reads.
    ///
    /// Too short and the destination is busy with questions; too long and a consumer that stopped is noticed late.
    ///
    /// Defaults to 30 seconds.
    pub every: Duration,
    /// Names of the groups, durable consumers or queues to read. Empty reads those that the transport finds.
    ///
    /// Defaults to none.
    pub names: Vec<String>,
}

impl Default for LagOptions {
    fn default() -> Self {
        Self { every: Duration::from_secs(30), names: Vec::new() }
    }
}

impl LagOptions {
    /// Sets the pause between two reads.
    pub fn every(mut self, every: Duration) -> Self {
        self.every = every;
        self
    }

    /// Sets the names to read.
    pub fn names(mut self, names: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.names = names.into_iter().map(Into::into).collect();
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_known_any_more_is_no_zero_and_keeps_its_name() {
        let lags = ConsumerLags::new(
            vec![ConsumerLag::new("t", "b\0", Some(3), Some(1)), ConsumerLag::new("t", "a", Some(0), None)],
            "",
        );
        assert_eq!(lags.consumers.iter().map(|lag| &*lag.consumer).collect::<Vec<_>>(), ["a", "b\u{fffd}"]);
        let unknown = lags.unknown("kafka.unreachable: refused");
        assert!(unknown.consumers.iter().all(|lag| lag.messages.is_none() && lag.members.is_none()), "{unknown:?}");
        assert_eq!((unknown.consumers.len(), &*unknown.message), (2, "kafka.unreachable: refused"));
    }

    #[test]
    fn more_consumers_than_can_be_shown_are_said_to_be_more() {
        let many = (0..=CONSUMERS_MAX).map(|n| ConsumerLag::new("t", format!("{n:04}"), Some(0), Some(1))).collect();
        let lags = ConsumerLags::new(many, "");
        assert_eq!((lags.consumers.len(), lags.message.contains("100 of 101")), (CONSUMERS_MAX, true), "{lags:?}");
    }
}
