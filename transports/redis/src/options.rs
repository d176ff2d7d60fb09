//! What a Redis transport is told.

use std::time::Duration;

use postroom_core::{LagOptions, SecretUrl, Template};
use postroom_tls::TlsFiles;

/// Options of a Redis transport.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct RedisOptions {
    /// URL of the server: `redis://`, or `rediss://` with TLS, then user and password, host, port and number of the database.
    pub url: SecretUrl,
    /// TLS files for `rediss://`.
    pub tls: TlsFiles,
    /// Stream of each event.
    pub stream: Template,
    /// Approximate maximum length of a stream; older entries are trimmed, read or not. `None` keeps all.
    pub maxlen: Option<u64>,
    /// Number of replicas that must have an event before it counts as delivered. `None` is none.
    pub wait_replicas: Option<u32>,
    /// Time-out of a response, and of connecting; the replicas have half of it.
    ///
    /// Too short and a busy server looks like one that is down; too long and one that is down is noticed late.
    ///
    /// Defaults to 5 seconds.
    pub timeout: Duration,
    /// Reading of the lag of the stream's groups; [`LagOptions::names`] are groups, by default all. `None` reads none.
    pub consumers: Option<LagOptions>,
}

impl RedisOptions {
    /// Creates options with the defaults.
    pub fn new(url: SecretUrl, stream: Template) -> Self {
        let timeout = Duration::from_secs(5);
        let consumers = Some(LagOptions::default());
        Self { url, tls: TlsFiles::default(), stream, maxlen: None, wait_replicas: None, timeout, consumers }
    }
}
