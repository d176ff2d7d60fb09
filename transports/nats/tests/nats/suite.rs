//! The suite, with the way to the shared server cut, and with a server that crashes.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use postroom_conformance::transports::{Arrived, Breakable, Harness, Observed};
use postroom_core::Transport;
use postroom_testbed::proxy::Mode;
use postroom_testbed::{FaultProxy, OwnServer, Servers, brokers};

use crate::nats::streams::{Stream, nats};

/// The shared server behind a proxy.
struct Shared {
    stream: Stream,
    proxy: FaultProxy,
    timeout: Duration,
}

#[async_trait]
impl Harness for Shared {
    async fn start(timeout: Duration) -> Self {
        let proxy = FaultProxy::to(Servers::find().port("nats")).await;
        Self { stream: Stream::new().await, proxy, timeout }
    }

    fn transport(&self) -> Arc<dyn Transport> {
        Arc::new(nats(self.stream.options(self.proxy.port(), self.timeout)))
    }

    async fn running(&self) -> usize {
        self.proxy.counts().open()
    }
}

#[async_trait]
impl Observed for Shared {
    async fn arrived(&self) -> Vec<Arrived> {
        self.stream.arrived().await
    }
}

#[async_trait]
impl Breakable for Shared {
    async fn stop(&self) {
        self.proxy.set(Mode::Refuse).await;
    }

    async fn resume(&self) {
        self.proxy.set(Mode::Pass).await;
    }
}

postroom_conformance::transport_suite!(Shared: reports, arrives, goes_down);

/// A server of its own, which crashes.
struct Own {
    server: OwnServer,
    shared: Shared,
}

#[async_trait]
impl Harness for Own {
    async fn start(timeout: Duration) -> Self {
        let server = OwnServer::start(&brokers::Nats).expect("a server");
        let proxy = FaultProxy::to(server.site.port).await;
        let stream = Stream::on(server.site.port, |_| {}).await;
        Self { server, shared: Shared { stream, proxy, timeout } }
    }

    fn transport(&self) -> Arc<dyn Transport> {
        self.shared.transport()
    }

    async fn running(&self) -> usize {
        self.shared.running().await
    }
}

#[async_trait]
impl Observed for Own {
    async fn arrived(&self) -> Vec<Arrived> {
        self.shared.arrived().await
    }
}

#[async_trait]
impl Breakable for Own {
    async fn stop(&self) {
        self.server.crash().expect("it ends");
    }

    async fn resume(&self) {
        self.server.resume().expect("it starts");
    }
}

mod own {
    use super::Own;

    postroom_conformance::transport_suite!(Own: goes_down);
}
