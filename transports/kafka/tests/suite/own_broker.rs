//! Against a broker of our own that is switched off and on, in good order or by falling silent.

mod relay;

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use async_trait::async_trait;
use nix::sys::signal::Signal;
use postroom_conformance::transports::{Arrived, Breakable, Harness, Observed};
use postroom_core::Transport;
use postroom_testbed::{OwnServer, brokers};
use tokio::task::spawn_blocking;

use crate::cluster::Cluster;
use crate::suite::threads::{Turn, arrived, running, transport};

/// A start takes seconds, so cases that follow each other share one: the next already waits while one runs.
static BROKER: Mutex<Weak<Broker>> = Mutex::new(Weak::new());

struct Broker {
    server: OwnServer,
    down: AtomicBool,
}

impl Broker {
    async fn find() -> Arc<Self> {
        let find = || {
            let mut shared = BROKER.lock().unwrap_or_else(PoisonError::into_inner);
            shared.upgrade().unwrap_or_else(|| {
                let server = OwnServer::start(&brokers::Kafka).expect("a broker");
                let broker = Arc::new(Self { server, down: AtomicBool::new(false) });
                *shared = Arc::downgrade(&broker);
                broker
            })
        };
        spawn_blocking(find).await.expect("no panic")
    }

    /// Starts it again if the case before did not leave it as it found it.
    async fn is_up(self: &Arc<Self>) {
        if self.down.swap(false, Ordering::SeqCst) {
            self.work(|broker| broker.server.resume()).await;
        }
    }

    async fn work(self: &Arc<Self>, work: impl FnOnce(&Self) -> io::Result<()> + Send + 'static) {
        let broker = Arc::clone(self);
        spawn_blocking(move || work(&broker)).await.expect("no panic").expect("it does as it is told");
    }
}

struct Own<const SILENT: bool> {
    broker: Arc<Broker>,
    cluster: Cluster,
    topic: String,
    timeout: Duration,
    _turn: Turn,
}

#[async_trait]
impl<const SILENT: bool> Harness for Own<SILENT> {
    async fn start(timeout: Duration) -> Self {
        let broker = Broker::find().await;
        let turn = Turn::take().await;
        broker.is_up().await;
        let cluster = Cluster::of(&broker.server.site);
        let topic = cluster.topic(1, &[]).await;
        // Silence is only noticed by the time-out.
        let timeout = if SILENT { Duration::from_secs(2) } else { timeout };
        Self { broker, cluster, topic, timeout, _turn: turn }
    }

    fn transport(&self) -> Arc<dyn Transport> {
        transport(&self.cluster.brokers, &self.topic, self.timeout)
    }

    async fn running(&self) -> usize {
        running()
    }
}

#[async_trait]
impl<const SILENT: bool> Observed for Own<SILENT> {
    async fn arrived(&self) -> Vec<Arrived> {
        arrived(&self.cluster, &self.topic).await
    }
}

#[async_trait]
impl<const SILENT: bool> Breakable for Own<SILENT> {
    async fn stop(&self) {
        let end = |broker: &Broker| {
            broker.down.store(true, Ordering::SeqCst);
            broker.server.stop()
        };
        let silence = |broker: &Broker| broker.server.signal(Signal::SIGSTOP);
        if SILENT { self.broker.work(silence).await } else { self.broker.work(end).await }
    }

    async fn resume(&self) {
        let start = |broker: &Broker| {
            broker.down.store(false, Ordering::SeqCst);
            broker.server.resume()
        };
        let speak = |broker: &Broker| broker.server.signal(Signal::SIGCONT);
        if SILENT { self.broker.work(speak).await } else { self.broker.work(start).await }
    }
}

impl<const SILENT: bool> Drop for Own<SILENT> {
    fn drop(&mut self) {
        let _ = self.broker.server.signal(Signal::SIGCONT);
    }
}

mod stopped {
    postroom_conformance::transport_suite!(super::Own<false>: goes_down);
}

mod silent {
    postroom_conformance::transport_suite!(super::Own<true>: goes_down);
}
