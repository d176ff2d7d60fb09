//! What a RabbitMQ transport is told.

use std::time::Duration;

use postroom_core::{LagOptions, SecretUrl, Template};
use postroom_tls::TlsFiles;

use crate::address::{Address, AddressError};
use crate::topology::{Topology, TopologyError};
use crate::wire::SHORT_BYTES_MAX;

/// Options of a RabbitMQ transport.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct RabbitMqOptions {
    /// URL of the broker, with the login; see [`Address`].
    pub url: SecretUrl,
    /// TLS files for `amqps://`.
    pub tls: TlsFiles,
    /// Exchange that gets the events, at most 255 bytes. Empty is the default exchange, where the routing key is the
    /// name of a queue.
    pub exchange: String,
    /// Routing key of each event. Defaults to `{type}`.
    pub routing_key: Template,
    /// Handling of events that no queue is bound for. Defaults to [`Unroutable::Retry`].
    pub unroutable: Unroutable,
    /// Exchanges and queues that must exist, checked whenever a connection is opened. Defaults to none.
    pub topology: Option<Topology>,
    /// Interval of heartbeats. After two missing heartbeats the connection is closed.
    ///
    /// Too short and a busy broker is given up; too long and a dead connection holds its route. Whole seconds, at
    /// least one; the broker may want it shorter.
    ///
    /// Defaults to 10 seconds.
    pub heartbeat: Duration,
    /// Time-out of a confirm, and of connecting, after which the connection is closed.
    ///
    /// Too short and a slow disk repeats what is on its way; too long and a stuck broker holds its route.
    ///
    /// Defaults to 30 seconds.
    pub timeout: Duration,
    /// Reading of the messages and consumers of queues: of those that the topology binds to the exchange, and those of
    /// [`LagOptions::names`]. `None` reads none.
    pub consumers: Option<LagOptions>,
}

impl RabbitMqOptions {
    /// Creates options with the defaults, for this exchange.
    pub fn new(url: SecretUrl, exchange: impl Into<String>, routing_key: Template) -> Self {
        Self {
            url,
            tls: TlsFiles::default(),
            exchange: exchange.into(),
            routing_key,
            unroutable: Unroutable::default(),
            topology: None,
            heartbeat: Duration::from_secs(10),
            timeout: Duration::from_secs(30),
            consumers: Some(LagOptions::default()),
        }
    }

    /// Returns the name of the exchange for people.
    pub fn exchange_name(&self) -> &str {
        if self.exchange.is_empty() { "(default)" } else { &self.exchange }
    }
}

/// Handling of events that no queue is bound for. The broker confirms such an event like any other and throws it away.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Unroutable {
    /// It is tried again, as the route's retry policy says: a queue may be bound late.
    #[default]
    Retry,
    /// It is a dead letter at once.
    Dead,
    /// It counts as delivered: who is interested has a queue, and nobody is.
    Accept,
}

/// Error of options that are not valid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OptionsError {
    /// The broker's address.
    #[error(transparent)]
    Address(#[from] AddressError),
    /// Certificates for a conversation that is not private.
    #[error("certificates are for amqps://, and the url begins with amqp://")]
    TlsWithoutTls,
    /// A name that no exchange can have.
    #[error("the name of the exchange has {0} bytes, 255 are possible")]
    Exchange(usize),
    /// What must be there cannot be.
    #[error(transparent)]
    Topology(#[from] TopologyError),
}

impl RabbitMqOptions {
    /// Checks the options, and returns the address of the broker.
    pub fn check(&self) -> Result<Address, OptionsError> {
        let address = Address::parse(&self.url)?;
        if !address.tls && self.tls != TlsFiles::default() {
            return Err(OptionsError::TlsWithoutTls);
        }
        if self.exchange.len() > SHORT_BYTES_MAX {
            return Err(OptionsError::Exchange(self.exchange.len()));
        }
        if let Some(topology) = &self.topology {
            topology.check()?;
        }
        Ok(address)
    }
}
