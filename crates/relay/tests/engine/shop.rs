//! A memory store on tokio's time with one route, and a relay that can be run in the background.

use std::sync::Arc;
use std::time::Duration;

use postroom_admin::view::{RouteDetail, Timeline};
use postroom_admin::{Inspect as _, Operate};
use postroom_conformance::changed;
use postroom_core::{BreakerPolicy, Delays, Event, RetryPolicy, RouteSpec, StartFrom, Store};
use postroom_memory::{MemoryOptions, MemoryStore};
use postroom_relay::{Relay, RelayError, RelayOptions, Route};
use postroom_testing::{ScriptedTransport, TokioClock};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

pub(crate) struct Shop {
    pub(crate) store: MemoryStore,
    pub(crate) transport: ScriptedTransport,
    pub(crate) options: RelayOptions,
    pub(crate) route: RouteSpec,
    pub(crate) retry: RetryPolicy,
    pub(crate) breaker: BreakerPolicy,
    pub(crate) rate: Option<f64>,
}

pub(crate) struct Running {
    stop: CancellationToken,
    task: JoinHandle<Result<(), RelayError>>,
}

impl Running {
    pub(crate) async fn stop(self) {
        self.stop.cancel();
        self.task.await.unwrap().unwrap();
    }

    /// As `kill -9` does it.
    pub(crate) async fn crash(self) {
        self.task.abort();
        let _ = self.task.await;
    }
}

impl Shop {
    pub(crate) async fn open() -> Self {
        let store = MemoryStore::with(changed(MemoryOptions::default(), |o| {
            o.clock = Arc::new(TokioClock::new());
            o.lanes = 4;
        }));
        let shop = Self {
            store,
            transport: ScriptedTransport::new(),
            options: RelayOptions::default().retention(None),
            route: RouteSpec::new("shop").start_from(StartFrom::Beginning),
            retry: RetryPolicy::default().jitter(0.0),
            breaker: BreakerPolicy::default(),
            rate: None,
        };
        shop.store.register(std::slice::from_ref(&shop.route)).await.unwrap();
        shop
    }

    /// Appends one event of this id and key.
    pub(crate) async fn append(&self, id: &str, key: &str) {
        Operate::append(&self.store, &[Event::new("order.placed").id(id).key(key)]).await.unwrap();
    }

    /// Appends `count` events over `keys` keys: `0`, `1`, …, key `k0`, `k1`, ….
    pub(crate) async fn fill(&self, count: usize, keys: usize) {
        let event = |n: usize| Event::new("order.placed").id(n.to_string()).key(format!("k{}", n % keys));
        Operate::append(&self.store, &(0..count).map(event).collect::<Vec<_>>()).await.unwrap();
    }

    pub(crate) fn relay(&self) -> Relay {
        self.relay_on(self.store.clone(), self.transport.clone())
    }

    /// The shop's route on another store, to another transport.
    pub(crate) fn relay_on(&self, store: impl Store + 'static, transport: ScriptedTransport) -> Relay {
        let route =
            Route::from_spec(self.route.clone()).retry(self.retry.clone()).breaker(self.breaker).rate(self.rate);
        Relay::new(store).options(self.options.clone()).route(route.to(transport))
    }

    pub(crate) fn start(&self) -> Running {
        let stop = CancellationToken::new();
        let task = tokio::spawn(self.relay().run(stop.clone().cancelled_owned()));
        Running { stop, task }
    }

    pub(crate) async fn drain(&mut self) {
        self.options.drain = true;
        self.relay().run(std::future::pending()).await.unwrap();
        self.options.drain = false;
    }

    pub(crate) async fn status(&self) -> RouteDetail {
        self.store.routes().await.unwrap().remove(0)
    }

    pub(crate) async fn timeline(&self, id: &str) -> Timeline {
        self.store.event(id, false).await.unwrap().expect("the event is there")
    }

    /// Waits until the status is as wanted; paused time makes that no wait at all.
    pub(crate) async fn until(&self, mut wanted: impl FnMut(&RouteDetail) -> bool) {
        let look = async {
            while !wanted(&self.status().await) {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(Duration::from_hours(1), look).await.expect("within an hour of simulated time");
    }
}

/// Retries after this long, again and again, so often.
pub(crate) fn retry_every(delay: Duration, attempts: u32) -> RetryPolicy {
    RetryPolicy::default().delays(Delays::Schedule(vec![delay])).jitter(0.0).attempts(attempts)
}
