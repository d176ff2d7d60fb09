//! Delivers nowhere: for measuring the relay, and for routes that only need their position to move.

use async_trait::async_trait;
use postroom_core::{Capabilities, Outbound, Receipt, Transport};

/// Transport that counts every event as delivered and keeps nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct Noop;

#[async_trait]
impl Transport for Noop {
    fn capabilities(&self) -> Capabilities {
        Capabilities { pipelines_key: true, ..Capabilities::plain("noop") }
    }

    async fn deliver(&self, batch: Vec<Outbound>) {
        for outbound in batch {
            outbound.report(Ok(Receipt::default()));
        }
    }

    async fn close(&self) {}
}
