//! What a feed from JetStream is told.

use std::time::Duration;

use postroom_core::SecretUrl;
use postroom_tls::TlsFiles;

use crate::options::Login;

/// Settings of one feed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NatsFeedOptions {
    /// Servers, `nats://` or `tls://`. A user and password, or a token, may stand in the first.
    pub urls: Vec<SecretUrl>,
    /// Whom to trust and who we are. When given, a connection without TLS is refused.
    pub tls: Option<TlsFiles>,
    /// Who we are, unless the URL says it.
    pub login: Login,
    /// The stream. It is never made from here.
    pub stream: String,
    /// The durable consumer that all instances share. It is made if it is not there; one that is there is not changed.
    pub durable: String,
    /// Which subjects of the stream, wildcards included, when the consumer is made.
    ///
    /// Defaults to all.
    pub filter: Option<String>,
    /// Where messages go that were given up: a subject that some stream takes, and that this consumer does not read.
    pub dead_subject: String,
    /// How many messages may be in our hands without an acknowledgement, in handlers and behind them.
    ///
    /// Also how many handlers run at once. Many let one instance hold what others could do.
    ///
    /// Defaults to 10.
    pub prefetch: u16,
    /// How long the server waits for a sign of life of a message before it gives it to another, when the consumer is made.
    /// Whatever is in our hands gives one three times as often.
    ///
    /// Too short and a busy machine works twice; too long and a crashed one holds its messages.
    ///
    /// Defaults to 30 seconds.
    pub ack_wait: Duration,
    /// How long the server may take to let us in, and to acknowledge a dead letter.
    ///
    /// Defaults to 5 seconds.
    pub timeout: Duration,
}

impl NatsFeedOptions {
    /// Options with the defaults.
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
