//! What a NATS transport is told.

use std::path::PathBuf;
use std::time::Duration;

use postroom_core::{LagOptions, Secret, SecretUrl, Template};
use postroom_tls::TlsFiles;

/// Options of a NATS transport.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct NatsOptions {
    /// Servers, `nats://` or `tls://`, tried in this order. May contain a user and password, or a token.
    pub urls: Vec<SecretUrl>,
    /// TLS files; if set, connections without TLS are refused.
    pub tls: Option<TlsFiles>,
    /// Login, unless the URL has it.
    pub login: Login,
    /// Subject of each event.
    pub subject: Template,
    /// Stream that must accept the events; a subject of another stream is refused. `None` allows any stream.
    pub stream: Option<String>,
    /// Whether a stream of JetStream acknowledges each event. Without it events go to core NATS: an event is delivered when the
    /// server has taken its bytes, and nobody who is not listening at that moment ever gets it.
    ///
    /// Defaults to true.
    pub jetstream: bool,
    /// Whether other routes publish to this stream, too. A server tells copies by their id and knows no routes: with the bare
    /// id, what a second route sends would be acknowledged and thrown away. So ids then carry the route.
    ///
    /// Defaults to false.
    pub stream_is_shared: bool,
    /// Settings of the stream if it has to be created. `None` never creates it.
    pub create: Option<CreateStream>,
    /// Time-out of an acknowledgement, and of connecting.
    ///
    /// Too short and a busy server looks like one that is down; too long and one that is down is noticed late.
    ///
    /// Defaults to 5 seconds.
    pub timeout: Duration,
    /// Reading of the lag of the stream's consumers; [`LagOptions::names`] are consumers, by default those that are durable. `None`
    /// reads none.
    pub consumers: Option<LagOptions>,
}

impl NatsOptions {
    /// Creates options with the defaults.
    pub fn new(urls: Vec<SecretUrl>, subject: Template) -> Self {
        Self {
            urls,
            tls: None,
            login: Login::None,
            subject,
            stream: None,
            jetstream: true,
            stream_is_shared: false,
            create: None,
            timeout: Duration::from_secs(5),
            consumers: Some(LagOptions::default()),
        }
    }
}

/// Login.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Login {
    /// Not at all, or as the URL says.
    None,
    /// A name and a password.
    UserPassword(String, Secret),
    /// A token.
    Token(Secret),
    /// The seed of a key the server knows, `SU…`; only a signature leaves this process.
    NkeySeed(Secret),
    /// A file with a JWT and the seed of its key, as `nsc` writes them. Read at every connection.
    CredentialsFile(PathBuf),
}

/// Settings of a stream to create. Other settings have the server's defaults.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CreateStream {
    /// Subjects of the stream, wildcards included.
    pub subjects: Vec<String>,
    /// Number of replicas.
    pub replicas: usize,
    /// Retention of messages; `None` is for ever.
    pub max_age: Option<Duration>,
    /// Duplicate window; `None` is the server's two minutes.
    pub duplicate_window: Option<Duration>,
}
