//! What a Redis transport is told.

use std::time::Duration;

use postroom_core::{SecretUrl, Template};
use postroom_tls::TlsFiles;

/// Settings of one Redis transport.
#[derive(Debug, Clone, PartialEq)]
pub struct RedisOptions {
    /// The server: `redis://`, or `rediss://` with TLS, then user and password, host, port and number of the database.
    pub url: SecretUrl,
    /// Whom to trust and who we are, for `rediss://`.
    pub tls: TlsFiles,
    /// The stream of each event.
    pub stream: Template,
    /// About how many entries a stream keeps; older ones are thrown away, read or not. `None` keeps all.
    pub maxlen: Option<u64>,
    /// How many replicas must have an event before it counts as delivered. `None` asks only the server itself.
    pub wait_replicas: Option<u32>,
    /// How long the server may take to answer, and to be connected to; the replicas have half of it.
    ///
    /// Too short and a busy server looks like one that is down; too long and one that is down is noticed late.
    ///
    /// Defaults to 5 seconds.
    pub timeout: Duration,
}

impl RedisOptions {
    /// Options with the defaults.
    pub fn new(url: SecretUrl, stream: Template) -> Self {
        let timeout = Duration::from_secs(5);
        Self { url, tls: TlsFiles::default(), stream, maxlen: None, wait_replicas: None, timeout }
    }
}
