//! Checks events before they are sent: what breaks its contract never reaches the transport behind.

use std::sync::Arc;

use async_trait::async_trait;
use postroom_core::{Capabilities, Failure, Finding, Outbound, Transport};

use crate::contracts::{Enveloped, Mode, warn};

/// A transport behind contracts.
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
        // A dead event goes to where dead ones go, whatever it died of.
        if outbound.burial.is_some() {
            return Some(outbound);
        }
        let Err(breaches) = self.contracts.breaches(&outbound.event, outbound.stage()) else { return Some(outbound) };
        match self.contracts.mode() {
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

    async fn check(&self) -> Vec<Finding> {
        self.behind.check().await
    }

    fn wind_down(&self) {
        self.behind.wind_down();
    }

    async fn close(&self) {
        self.behind.close().await;
    }
}
