//! What a consumer is told.

use std::time::Duration;

use postroom_core::{Delays, RetryPolicy};

use crate::wire::ID_FIELD;

/// Options of a consumer.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct ConsumerOptions {
    /// Retry policy of a failed handler.
    ///
    /// A message that waits holds back what comes behind it: its partition, or its key. It stays unacknowledged, too, so
    /// all delays together belong below the broker's patience (RabbitMQ: 30 minutes).
    ///
    /// Defaults to 5 tries, after 1, 2, 4 and 8 seconds and up to a fifth more.
    pub retry: RetryPolicy,
    /// How long a handler may take. After that it is dropped, rolled back, and has failed once. The database has as long to
    /// begin, to accept and to commit; after that it is away, which is no failure.
    ///
    /// Too short and slow work never gets done; too long and a stuck one holds back what comes behind it, and a stop.
    ///
    /// Defaults to a minute.
    pub timeout: Duration,
    /// Field with the event's id in bodies that are JSON objects, for messages that have it nowhere else.
    ///
    /// Defaults to `event_id`.
    pub id_field: String,
}

impl ConsumerOptions {
    /// Sets the retry policy of a failed handler.
    pub fn retry(mut self, retry: RetryPolicy) -> Self {
        self.retry = retry;
        self
    }

    /// Sets the time-out of a handler.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Sets the field with the event's id in bodies that are JSON objects.
    pub fn id_field(mut self, id_field: impl Into<String>) -> Self {
        self.id_field = id_field.into();
        self
    }
}

impl Default for ConsumerOptions {
    fn default() -> Self {
        let delays = Delays::Exponential { base: Duration::from_secs(1), max: Duration::from_mins(1) };
        Self {
            retry: RetryPolicy::default().delays(delays).jitter(0.2).attempts(5),
            timeout: Duration::from_mins(1),
            id_field: ID_FIELD.to_owned(),
        }
    }
}
