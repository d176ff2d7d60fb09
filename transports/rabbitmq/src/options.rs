//! What a RabbitMQ transport is told.

use std::time::Duration;

use postroom_core::{SecretUrl, Template};
use postroom_tls::TlsFiles;

use crate::address::{Address, AddressError};
use crate::topology::{Topology, TopologyError};
use crate::wire::SHORT_BYTES_MAX;

/// Settings of one RabbitMQ transport.
#[derive(Debug, Clone)]
pub struct RabbitMqOptions {
    /// Where the broker is and how to log in; see [`Address`].
    pub url: SecretUrl,
    /// Whom to trust and what to show, for `amqps://`.
    pub tls: TlsFiles,
    /// The exchange that gets the events, at most 255 bytes. Empty is the default exchange, where the routing key is the
    /// name of a queue.
    pub exchange: String,
    /// The routing key. Defaults to `{type}`.
    pub routing_key: Template,
    /// What becomes of an event that no queue takes. Defaults to [`Unroutable::Retry`].
    pub unroutable: Unroutable,
    /// Exchanges and queues that must be there, looked up whenever a connection is opened. Defaults to none.
    pub topology: Option<Topology>,
    /// How often both sides show that they are there. A peer that has said nothing for twice as long is gone.
    ///
    /// Too short and a busy broker is given up; too long and a dead connection holds its route. Whole seconds, at
    /// least one; the broker may want it shorter.
    ///
    /// Defaults to 10 seconds.
    pub heartbeat: Duration,
    /// How long the broker may take to confirm an event, and to let us in, before the connection is dropped.
    ///
    /// Too short and a slow disk repeats what is on its way; too long and a stuck broker holds its route.
    ///
    /// Defaults to 30 seconds.
    pub timeout: Duration,
}

impl RabbitMqOptions {
    /// Options with the defaults, for this exchange.
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
        }
    }

    /// The exchange as people call it.
    pub(crate) fn exchange_name(&self) -> &str {
        if self.exchange.is_empty() { "(default)" } else { &self.exchange }
    }
}

/// What becomes of an event that no queue takes. The broker confirms such an event like any other and throws it away.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Unroutable {
    /// It is tried again, as the route's retry policy says: a queue may be bound late.
    #[default]
    Retry,
    /// It is a dead letter at once.
    Dead,
    /// It counts as delivered: who is interested has a queue, and nobody is.
    Accept,
}

/// Options that cannot be meant.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
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
    /// Whether they can be meant; where the broker is.
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
