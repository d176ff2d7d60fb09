//! Checks events before they are sent: what breaks its contract never reaches the transport behind.

use std::sync::Arc;

use async_trait::async_trait;
use postroom_core::{Capabilities, Diagnostic, Failure, LagReader, Outbound, Transport};

use crate::contracts::{Enveloped, Mode, warn};

/// Transport that checks contracts before it delivers.
#[derive(Debug)]
pub struct Contracted {
    behind: Arc<dyn Transport>,
    contracts: Enveloped,
}

impl Contracted {
    /// Puts contracts before a transport.
    pub fn new(behind: Arc<dyn Transport>, contracts: Enveloped) -> Self {
        Self { behind, contracts }
    }

    /// Whether it goes on; what does not is reported.
    fn passes(&self, outbound: Outbound) -> Option<Outbound> {
        let Err(breaches) = self.contracts.breaches(&outbound.event, outbound.stage()) else { return Some(outbound) };
        // A dead event goes to where dead ones go, whatever it died of.
        let mode = if outbound.dead_letter.is_some() { Mode::Warn } else { self.contracts.mode() };
        match mode {
            Mode::Warn => {
                warn(&outbound.event, &breaches);
                Some(outbound)
            }
            Mode::Enforce => {
                let error = format!("event of type {:?} breaks its contract: {breaches}", outbound.event.event_type);
                outbound.report(Err(Failure::permanent("contract.violated", error)));
                None
            }
        }
    }
}

#[deny(clippy::missing_trait_methods)]
#[async_trait]
impl Transport for Contracted {
    fn capabilities(&self) -> Capabilities {
        self.behind.capabilities()
    }

    async fn deliver(&self, batch: Vec<Outbound>) {
        let batch: Vec<Outbound> = batch.into_iter().filter_map(|outbound| self.passes(outbound)).collect();
        if !batch.is_empty() {
            self.behind.deliver(batch).await;
        }
    }

    async fn check(&self) -> Vec<Diagnostic> {
        self.behind.check().await
    }

    fn lag_reader(&self) -> Option<Box<dyn LagReader>> {
        self.behind.lag_reader()
    }

    fn wind_down(&self) {
        self.behind.wind_down();
    }

    async fn close(&self) {
        self.behind.close().await;
    }
}
