//! What a feed from RabbitMQ is told.

use std::time::Duration;

use postroom_core::SecretUrl;
use postroom_tls::TlsFiles;

/// Settings of one feed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RabbitMqFeedOptions {
    /// Where the broker is and how to log in; see [`Address`](crate::Address).
    pub url: SecretUrl,
    /// Whom to trust besides whom the machine trusts and what to show, for `amqps://`.
    pub tls: TlsFiles,
    /// The queue. It is never made from here.
    pub queue: String,
    /// How many messages may be in our hands without an acknowledgement, in handlers and behind them.
    ///
    /// Also how many handlers run at once. One keeps the order of the whole queue; many let one instance hold what others
    /// could do.
    ///
    /// Defaults to 10.
    pub prefetch: u16,
    /// Where messages go that were given up.
    pub dead: DeadLetters,
    /// How long the broker may take to let us in, and to confirm a dead letter.
    ///
    /// Defaults to 30 seconds.
    pub timeout: Duration,
}

/// Where messages go that were given up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DeadLetters {
    /// Into this queue, by a confirmed publish with why in headers, before the message is acknowledged.
    Queue(String),
    /// To the dead-letter exchange of the queue itself, by rejecting the message. A queue without one throws them away, and
    /// nobody can ask a queue whether it has one.
    Exchange,
}

impl RabbitMqFeedOptions {
    /// Options with the defaults.
    pub fn new(url: SecretUrl, queue: impl Into<String>, dead: DeadLetters) -> Self {
        Self {
            url,
            tls: TlsFiles::default(),
            queue: queue.into(),
            prefetch: 10,
            dead,
            timeout: Duration::from_secs(30),
        }
    }
}
