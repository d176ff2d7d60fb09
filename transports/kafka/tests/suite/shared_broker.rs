//! Against the broker everybody uses, a topic for each case.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use postroom_conformance::transports::{Arrived, Harness, Observed};
use postroom_core::Transport;

use crate::cluster::Cluster;
use crate::suite::threads::{Turn, arrived, running, transport};

struct Shared {
    cluster: Cluster,
    topic: String,
    timeout: Duration,
    _turn: Turn,
}

#[async_trait]
impl Harness for Shared {
    async fn start(timeout: Duration) -> Self {
        let turn = Turn::take().await;
        let cluster = Cluster::shared();
        // One partition: what arrived has one order.
        let topic = cluster.topic(1, &[]).await;
        Self { cluster, topic, timeout, _turn: turn }
    }

    fn transport(&self) -> Arc<dyn Transport> {
        transport(&self.cluster.brokers, &self.topic, self.timeout)
    }

    async fn running(&self) -> usize {
        running()
    }
}

#[async_trait]
impl Observed for Shared {
    async fn arrived(&self) -> Vec<Arrived> {
        arrived(&self.cluster, &self.topic).await
    }
}

postroom_conformance::transport_suite!(Shared: reports, arrives);
