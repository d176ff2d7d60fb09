//! A source that looks by itself is left alone until it tells.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use postroom_core::{
    Budget, Failure, Lease, Maintenance, Notified, Notifier, Ownership, RelayIdentity, Retain, RouteHealth, RouteSpec,
    Schema, Settlement, Source, Store, StoreError, Take,
};
use postroom_memory::MemoryStore;
use tokio::time::{Instant, sleep};

use crate::engine::shop::{Shop, retry_every};

/// A store that only the test notifies.
#[derive(Clone)]
struct Watching {
    store: MemoryStore,
    looks: Arc<AtomicUsize>,
    can: Arc<AtomicBool>,
    wake: Notifier,
}

struct WatchingSource(Arc<dyn Source>, Watching);

#[deny(clippy::missing_trait_methods)]
#[async_trait]
impl Store for Watching {
    fn name(&self) -> &str {
        Store::name(&self.store)
    }
    async fn source(&self, relay: &RelayIdentity, route: &RouteSpec) -> Result<Arc<dyn Source>, StoreError> {
        Ok(Arc::new(WatchingSource(self.store.source(relay, route).await?, self.clone())))
    }
    fn retain(&self) -> Arc<dyn Retain> {
        self.store.retain()
    }
    fn schema(&self) -> Option<Arc<dyn Schema>> {
        None
    }
    fn maintenance(&self) -> Option<Arc<dyn Maintenance>> {
        None
    }
}

#[deny(clippy::missing_trait_methods)]
#[async_trait]
impl Source for WatchingSource {
    async fn take(&self, budget: Budget) -> Result<Take, StoreError> {
        self.1.looks.fetch_add(1, Ordering::SeqCst);
        self.0.take(budget).await
    }
    async fn settle(&self, settlements: &[Settlement]) -> Result<Ownership, StoreError> {
        self.0.settle(settlements).await
    }
    async fn renew(&self, health: &RouteHealth) -> Result<Lease, StoreError> {
        self.0.renew(health).await
    }
    async fn release(&self) -> Result<(), StoreError> {
        self.0.release().await
    }
    async fn disable(&self, failure: &Failure) -> Result<(), StoreError> {
        self.0.disable(failure).await
    }
    async fn is_drained(&self) -> Result<bool, StoreError> {
        self.0.is_drained().await
    }
    fn bound(&self, deliveries: usize) {
        self.0.bound(deliveries);
    }
    fn holds_transactions(&self) -> bool {
        self.0.holds_transactions()
    }

    fn notified(&self) -> Notified {
        self.1.wake.notified()
    }
    fn watch(&self, every: Duration) -> bool {
        assert_eq!(every, Duration::from_millis(50), "as often as the engine itself would look");
        self.1.can.load(Ordering::SeqCst)
    }
}

impl Watching {
    async fn started() -> (Shop, Self) {
        let mut shop = Shop::open().await;
        shop.retry = retry_every(Duration::from_millis(300), 5);
        let store = Self {
            store: shop.store.clone(),
            looks: Arc::default(),
            can: Arc::new(AtomicBool::new(true)),
            wake: Notifier::default(),
        };
        tokio::spawn(shop.relay_on(store.clone(), shop.transport.clone()).run(std::future::pending()));
        sleep(Duration::from_secs(1)).await;
        (shop, store)
    }

    async fn looks_in(&self, time: Duration) -> usize {
        let before = self.looks.load(Ordering::SeqCst);
        sleep(time).await;
        self.looks.load(Ordering::SeqCst) - before
    }
}

#[tokio::test(start_paused = true)]
async fn a_watched_route_is_looked_at_seldom_and_at_once_when_it_is_told() {
    let (shop, store) = Watching::started().await;
    let seldom = store.looks_in(Duration::from_mins(1)).await;
    assert!((11..=13).contains(&seldom), "{seldom} looks in a minute");
    shop.append("e1", "k").await;
    let told = Instant::now();
    store.wake.wake();
    shop.transport.delivered(1).await;
    assert!(told.elapsed() < Duration::from_millis(10), "{:?}", told.elapsed());
    store.can.store(false, Ordering::SeqCst);
    sleep(Duration::from_secs(10)).await;
    let often = store.looks_in(Duration::from_secs(1)).await;
    assert!((18..=27).contains(&often), "{often} looks in a second");
}

#[tokio::test(start_paused = true)]
async fn a_watched_route_looks_when_something_is_due_and_when_nobody_tells() {
    let (shop, _) = Watching::started().await;
    shop.transport.fail_next(1, Failure::transient("t", "once"));
    shop.append("e1", "k").await;
    let appended = Instant::now();
    shop.transport.delivered(1).await;
    // At most five seconds until it looks by itself, and the pause of the retry.
    assert!(appended.elapsed() < Duration::from_millis(5_500), "{:?}", appended.elapsed());
}
