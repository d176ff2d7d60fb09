//! What a NATS transport is told.

use std::path::PathBuf;
use std::time::Duration;

use postroom_core::{Secret, SecretUrl, Template};
use postroom_tls::TlsFiles;

/// Settings of one NATS transport.
#[derive(Debug, Clone, PartialEq)]
pub struct NatsOptions {
    /// Servers, `nats://` or `tls://`, tried in this order. A user and password, or a token, may stand in them.
    pub urls: Vec<SecretUrl>,
    /// Whom to trust and who we are. When given, a connection without TLS is refused.
    pub tls: Option<TlsFiles>,
    /// Who we are, unless the URL says it.
    pub login: Login,
    /// The subject of each event.
    pub subject: Template,
    /// The stream that must take it; a subject of another stream is refused. `None` when any stream will do.
    pub stream: Option<String>,
    /// Whether other routes go into this stream, too. A server tells copies by their id and knows no routes: with the bare
    /// id, what a second route sends would be acknowledged and thrown away. So ids then carry the route.
    ///
    /// Defaults to false.
    pub stream_is_shared: bool,
    /// How to make the stream when it is named and not there. `None` leaves that to somebody else.
    pub create: Option<CreateStream>,
    /// How long the server may take to acknowledge an event, and to be connected to.
    ///
    /// Too short and a busy server looks like one that is down; too long and one that is down is noticed late.
    ///
    /// Defaults to 5 seconds.
    pub timeout: Duration,
}

impl NatsOptions {
    /// Options with the defaults.
    pub fn new(urls: Vec<SecretUrl>, subject: Template) -> Self {
        Self {
            urls,
            tls: None,
            login: Login::None,
            subject,
            stream: None,
            stream_is_shared: false,
            create: None,
            timeout: Duration::from_secs(5),
        }
    }
}

/// How to log in.
#[derive(Debug, Clone, PartialEq, Eq)]
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

/// A stream to make. What is not said here is the server's default.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CreateStream {
    /// Subjects it takes, wildcards included.
    pub subjects: Vec<String>,
    /// On how many servers it is.
    pub replicas: usize,
    /// How long it keeps an event; `None` is for ever.
    pub max_age: Option<Duration>,
    /// How long it remembers ids; `None` is the server's two minutes.
    pub duplicate_window: Option<Duration>,
}
