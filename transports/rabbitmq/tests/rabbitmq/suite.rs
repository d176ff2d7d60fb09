//! What every transport promises.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use postroom_conformance::changed;
use postroom_conformance::transports::{Arrived, Breakable, Harness, Observed, goes_down};
use postroom_core::Transport;
use postroom_testbed::brokers::RabbitMq as Broker;
use postroom_testbed::proxy::Mode;
use postroom_testbed::{FaultProxy, OwnServer};

use crate::rabbitmq::place::{Place, Proxied, transport};

/// The shared broker behind a proxy.
struct Shared {
    to: Proxied,
    timeout: Duration,
}

#[async_trait]
impl Harness for Shared {
    async fn start(timeout: Duration) -> Self {
        Self { to: Proxied::shared().await, timeout }
    }

    fn transport(&self) -> Arc<dyn Transport> {
        Arc::new(transport(changed(self.to.options(), |o| o.timeout = self.timeout)))
    }

    async fn running(&self) -> usize {
        self.to.proxy.counts().open()
    }
}

#[async_trait]
impl Observed for Shared {
    async fn arrived(&self) -> Vec<Arrived> {
        self.to.place.arrived().await
    }
}

#[async_trait]
impl Breakable for Shared {
    async fn stop(&self) {
        self.to.proxy.set(Mode::Refuse).await;
    }

    async fn resume(&self) {
        self.to.proxy.set(Mode::Pass).await;
    }
}

mod shared {
    postroom_conformance::transport_suite!(super::Shared: reports, arrives, goes_down);
}

/// A broker of its own that is really stopped.
struct Stopped {
    broker: OwnServer,
    name: String,
    proxy: FaultProxy,
    timeout: Duration,
}

impl Stopped {
    async fn place(&self) -> Place {
        let mut place = Place::bare(self.broker.site.port).await;
        place.name.clone_from(&self.name);
        place
    }
}

#[async_trait]
impl Harness for Stopped {
    async fn start(timeout: Duration) -> Self {
        let broker = OwnServer::start(&Broker).unwrap();
        let name = Place::at(broker.site.port).await.name;
        let proxy = FaultProxy::to(broker.site.port).await;
        Self { broker, name, proxy, timeout }
    }

    fn transport(&self) -> Arc<dyn Transport> {
        let url = crate::rabbitmq::place::url(self.proxy.port());
        Arc::new(transport(changed(crate::rabbitmq::place::options(&url, &self.name), |o| o.timeout = self.timeout)))
    }

    async fn running(&self) -> usize {
        self.proxy.counts().open()
    }
}

#[async_trait]
impl Observed for Stopped {
    async fn arrived(&self) -> Vec<Arrived> {
        self.place().await.arrived().await
    }
}

#[async_trait]
impl Breakable for Stopped {
    async fn stop(&self) {
        tokio::task::block_in_place(|| self.broker.stop()).unwrap();
    }

    async fn resume(&self) {
        tokio::task::block_in_place(|| self.broker.resume()).unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_broker_that_is_really_stopped_costs_nothing_but_time() {
    goes_down::a_destination_that_goes_down_later_costs_nothing_but_time::<Stopped>().await;
}
