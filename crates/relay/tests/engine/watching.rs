//! A source that looks by itself is left alone until it tells.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use postroom_core::{
    Budget, Desk, Ear, Failure, Lease, RelayIdentity, RouteDefinition, RouteHealth, Schema, Settlement, Source,
    Standing, Store, StoreError, Take, Upkeep, Wake,
};
use postroom_memory::Memory;
use postroom_relay::{Relay, RouteRun};
use tokio::time::{Instant, sleep};

use crate::engine::shop::{Shop, retry_every};

/// A store whose ear only the test wakes.
#[derive(Clone)]
struct Watching {
    store: Memory,
    looks: Arc<AtomicUsize>,
    can: Arc<AtomicBool>,
    wake: Wake,
}

struct WatchingSource(Arc<dyn Source>, Watching);

#[async_trait]
impl Store for Watching {
    fn name(&self) -> &str {
        Store::name(&self.store)
    }
    async fn source(&self, relay: &RelayIdentity, route: &RouteDefinition) -> Result<Arc<dyn Source>, StoreError> {
        Ok(Arc::new(WatchingSource(self.store.source(relay, route).await?, self.clone())))
    }
    fn desk(&self) -> Arc<dyn Desk> {
        self.store.desk()
    }
    fn schema(&self) -> Option<Arc<dyn Schema>> {
        None
    }
    fn upkeep(&self) -> Option<Arc<dyn Upkeep>> {
        None
    }
}

#[async_trait]
impl Source for WatchingSource {
    async fn take(&self, budget: Budget) -> Result<Take, StoreError> {
        self.1.looks.fetch_add(1, Ordering::SeqCst);
        self.0.take(budget).await
    }
    async fn settle(&self, settlements: &[Settlement]) -> Result<Standing, StoreError> {
        self.0.settle(settlements).await
    }
    async fn renew(&self, health: &RouteHealth) -> Result<Lease, StoreError> {
        self.0.renew(health).await
    }
    async fn release(&self) -> Result<(), StoreError> {
        self.0.release().await
    }
    fn ear(&self) -> Ear {
        self.1.wake.listen()
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
            wake: Wake::default(),
        };
        let mut run = RouteRun::new(store.clone(), shop.route.clone(), shop.transport.clone());
        run.retry = shop.retry.clone();
        tokio::spawn(Relay::new(shop.options.clone()).serve(run).run(std::future::pending()));
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
