//! Delivers to whoever asks: deliveries lie here until a worker leases them, and are settled by what it answers.
//!
//! A lease that ends before its answer is a transient failure: the worker may have died, or have done the work and not said
//! so. Order, retries and dead letters are the relay's, as for every transport: of one key only one delivery is out at a
//! time.

mod queue;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use postroom_core::envelope::Encoder;
use postroom_core::{Capabilities, Finding, Outbound, Transport, worker};

pub use queue::{Leased, Queue, Settled};

/// How deliveries are held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PullOptions {
    /// How long a worker may take for one.
    ///
    /// Too short and slow work is done twice; too long and what a dead worker had waits that long. Defaults to 30 s.
    pub lease: Duration,
    /// Most deliveries that lie here or are leased.
    ///
    /// Defaults to 256.
    pub in_flight: usize,
}

impl Default for PullOptions {
    fn default() -> Self {
        Self { lease: Duration::from_secs(30), in_flight: 256 }
    }
}

/// Holds the deliveries of one route.
pub struct Pull {
    options: PullOptions,
    encoder: Encoder,
    queue: Arc<Queue>,
}

impl Pull {
    /// The transport of a route; its envelopes must be JSON.
    pub fn new(route: &str, options: PullOptions, encoder: Encoder) -> Self {
        Self { options, encoder, queue: Queue::start(route, options.lease) }
    }

    /// Where workers lease and settle.
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

    async fn check(&self) -> Vec<Finding> {
        vec![Finding::Fine(format!("workers ask for POST /api/v1/pull/{}", self.queue.route()))]
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
