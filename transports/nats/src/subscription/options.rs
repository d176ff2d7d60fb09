//! What a subscription from JetStream is told.

use std::time::Duration;

use postroom_core::SecretUrl;
use postroom_tls::TlsFiles;

use crate::options::Login;

/// Options of a subscription.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct NatsSubscriptionOptions {
    /// Servers, `nats://` or `tls://`. The first may contain a user and password, or a token.
    pub urls: Vec<SecretUrl>,
    /// TLS files; if set, connections without TLS are refused.
    pub tls: Option<TlsFiles>,
    /// Login, unless the URL has it.
    pub login: Login,
    /// Name of the stream. A subscription never creates it.
    pub stream: String,
    /// Durable consumer that all instances share. It is created if missing; an existing one is not changed.
    pub durable: String,
    /// Subjects of the stream to read, wildcards included, when the consumer is created.
    ///
    /// Defaults to all.
    pub filter: Option<String>,
    /// Subject of dead messages, which a stream must include and this consumer must not read.
    pub dead_subject: String,
    /// Maximum number of unacknowledged messages that the consumer holds, in handlers and behind them.
    ///
    /// Also how many handlers run at once. Many let one instance hold what others could do.
    ///
    /// Defaults to 10.
    pub prefetch: u16,
    /// Time without progress after which the server redelivers a message, when the consumer is created.
    /// Whatever is in our hands gives one three times as often.
    ///
    /// Too short and a busy machine works twice; too long and a crashed one holds its messages.
    ///
    /// Defaults to 30 seconds.
    pub ack_wait: Duration,
    /// Time-out of connecting, and of the acknowledgement of a dead message.
    ///
    /// Defaults to 5 seconds.
    pub timeout: Duration,
}

impl NatsSubscriptionOptions {
    /// Creates options with the defaults.
    pub fn new(
        urls: Vec<SecretUrl>,
        stream: impl Into<String>,
        durable: impl Into<String>,
        dead_subject: impl Into<String>,
    ) -> Self {
        Self {
            urls,
            tls: None,
            login: Login::None,
            stream: stream.into(),
            durable: durable.into(),
            filter: None,
            dead_subject: dead_subject.into(),
            prefetch: 10,
            ack_wait: Duration::from_secs(30),
            timeout: Duration::from_secs(5),
        }
    }
}
