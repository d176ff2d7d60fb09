//! What a subscription from RabbitMQ is told.

use std::time::Duration;

use postroom_core::SecretUrl;
use postroom_tls::TlsFiles;

/// Options of a subscription.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct RabbitMqSubscriptionOptions {
    /// URL of the broker, with the login; see [`Address`](crate::Address).
    pub url: SecretUrl,
    /// TLS files for `amqps://`, beside the authorities of the system.
    pub tls: TlsFiles,
    /// Name of the queue. A subscription never declares it.
    pub queue: String,
    /// Maximum number of unacknowledged messages that the consumer holds, in handlers and behind them.
    ///
    /// Also how many handlers run at once. One keeps the order of the whole queue; many let one instance hold what others
    /// could do.
    ///
    /// Defaults to 10.
    pub prefetch: u16,
    /// Destination of dead messages.
    pub dead: DeadLetters,
    /// Time-out of connecting, and of the confirm of a dead message.
    ///
    /// Defaults to 30 seconds.
    pub timeout: Duration,
}

/// Destination of dead messages.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum DeadLetters {
    /// Into this queue, by a confirmed publish with why in headers, before the message is acknowledged.
    Queue(String),
    /// To the dead-letter exchange of the queue itself, by rejecting the message. A queue without one throws them away, and
    /// nobody can ask a queue whether it has one.
    Exchange,
}

impl RabbitMqSubscriptionOptions {
    /// Creates options with the defaults.
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
