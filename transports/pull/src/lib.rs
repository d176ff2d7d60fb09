//! Delivers to whoever asks: deliveries lie here until a worker leases them, and are settled by what it answers.
//!
//! A lease that ends before its answer is a failure as of a program that has ended: the worker may have died, or have done the
//! work and not said so. Order, retries and dead letters are the relay's, as for every transport: of one key only one delivery is out at a
//! time.

mod codes;
#[cfg(feature = "config")]
mod config;
mod queue;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use postroom_core::envelope::Encoder;
use postroom_core::{Capabilities, Diagnostic, Outbound, Transport};
use postroom_transport_kit::worker;

pub use codes::CODES;
#[cfg(feature = "config")]
pub use config::KIND;
pub use queue::{Leased, Queue, Settled};

/// Options of a pull transport.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct PullOptions {
    /// Time that a worker may take for a delivery.
    ///
    /// Too short and slow work is done twice; too long and what a dead worker had waits that long. Defaults to 30 s.
    pub lease: Duration,
    /// Longest time that a worker may ask for.
    ///
    /// A worker that dies holds its deliveries for that long. Less than `lease` means `lease`. Defaults to 30 s.
    pub lease_max: Duration,
    /// Maximum number of deliveries that wait for workers or are leased.
    ///
    /// Defaults to 256.
    pub in_flight: usize,
}

impl Default for PullOptions {
    fn default() -> Self {
        Self { lease: Duration::from_secs(30), lease_max: Duration::from_secs(30), in_flight: 256 }
    }
}

/// Transport that holds the deliveries of a route for workers.
pub struct Pull {
    options: PullOptions,
    encoder: Encoder,
    queue: Arc<Queue>,
}

impl Pull {
    /// Creates the transport of a route; its envelopes must be JSON.
    pub fn new(route: &str, options: PullOptions, encoder: Encoder) -> Self {
        Self { options, encoder, queue: Queue::start(route, options) }
    }

    /// Returns the queue from which workers lease and settle.
    pub fn queue(&self) -> Arc<Queue> {
        Arc::clone(&self.queue)
    }
}

#[async_trait]
impl Transport for Pull {
    fn capabilities(&self) -> Capabilities {
        Capabilities { in_flight_max: Some(self.options.in_flight.max(1)), ..Capabilities::plain("pull") }
    }

    async fn deliver(&self, batch: Vec<Outbound>) {
        let mut ready = Vec::with_capacity(batch.len());
        for outbound in batch {
            match worker::envelope(&self.encoder, &outbound, "pull.not_json") {
                Ok(envelope) => ready.push((outbound, envelope)),
                Err(failure) => outbound.report(Err(failure)),
            }
        }
        self.queue.put(ready);
    }

    async fn check(&self) -> Vec<Diagnostic> {
        vec![Diagnostic::fine(format!("workers ask for POST /api/v1/pull/{}", self.queue.route()))]
    }

    fn wind_down(&self) {
        self.queue.give_back();
    }

    async fn close(&self) {
        self.queue.end();
    }
}

impl fmt::Debug for Pull {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pull")
            .field("route", &self.queue.route())
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}

impl Drop for Pull {
    fn drop(&mut self) {
        self.queue.end();
    }
}
