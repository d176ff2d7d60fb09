//! A store in a folder of its own, a clock the test owns, and the words tests are written in.
#![allow(dead_code, unreachable_pub, reason = "each test file uses its share")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "part of the tests")]

use std::future::Future;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use postroom_admin::ManagedStore as _;
use postroom_core::{
    Actor, Budget, Clock, Delivery, Event, Failure, FailureKind, Outbox, Receipt, RelayIdentity, RouteSpec, Settlement,
    Source, StartFrom, Store, Timestamp, Verdict,
};
use postroom_sqlite::{SqliteOptions, SqliteStore};

/// 2026-01-01T00:00:00Z
const START: i64 = 1_767_225_600_000_000;

pub const ALL: Budget = Budget { rows: 1_000, bytes: 64 * 1024 * 1024 };
pub const LEASE: Duration = Duration::from_secs(30);

#[derive(Debug)]
pub struct ManualClock(AtomicI64);

impl Default for ManualClock {
    fn default() -> Self {
        Self(AtomicI64::new(START))
    }
}

impl ManualClock {
    pub fn advance(&self, by: Duration) {
        self.0.fetch_add(i64::try_from(by.as_micros()).unwrap(), Ordering::SeqCst);
    }
}

impl ManualClock {
    pub fn set_back(&self, by: Duration) {
        self.0.fetch_sub(i64::try_from(by.as_micros()).unwrap(), Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_microsecond(self.0.load(Ordering::SeqCst)).unwrap()
    }
    fn elapsed(&self) -> Duration {
        Duration::from_micros(u64::try_from(self.0.load(Ordering::SeqCst) - START).unwrap())
    }
    fn sleep(&self, _: Duration) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(std::future::pending())
    }
}

pub struct Shop {
    pub folder: tempfile::TempDir,
    pub clock: Arc<ManualClock>,
    pub store: SqliteStore,
}

impl Shop {
    pub async fn open() -> Self {
        Self::with(|options| options).await
    }

    pub async fn with(change: impl FnOnce(SqliteOptions) -> SqliteOptions) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let clock = Arc::new(ManualClock::default());
        let path = folder.path().join("shop.db");
        let options = SqliteOptions::new("main", path.to_str().unwrap()).create(true).clock(clock.clone());
        let store = SqliteStore::open_unmigrated(change(options)).await.unwrap();
        store.schema().unwrap().up().await.unwrap();
        Self { folder, clock, store }
    }

    pub fn path(&self) -> PathBuf {
        self.folder.path().join("shop.db")
    }

    pub async fn append(&self, events: &[Event]) {
        let mut tx = self.store.begin().await.unwrap();
        let appended = self.store.append_many(&mut tx, events).await.unwrap();
        tx.commit().await.unwrap();
        appended.wake();
    }

    /// Appends `n` events of key `key`, with ids `key-1` and so on.
    pub async fn append_key(&self, key: &str, numbers: std::ops::RangeInclusive<u32>) {
        let events: Vec<Event> = numbers.map(|n| Event::new("t").key(key).id(format!("{key}-{n}"))).collect();
        self.append(&events).await;
    }

    pub async fn source(&self, boot: &str, route: &RouteSpec) -> Arc<dyn Source> {
        self.store.source(&relay(boot), route).await.unwrap()
    }

    /// A source of a route that starts with what is there.
    pub async fn all(&self) -> Arc<dyn Source> {
        self.source("a", &from_beginning("r")).await
    }

    pub async fn number(&self, sql: &'static str) -> i64 {
        sqlx::query_scalar(sql).fetch_one(self.store.pool()).await.unwrap()
    }

    /// Proves by counting that nothing was lost.
    pub async fn verify(&self) {
        for row in self.store.admin().verify().await.unwrap() {
            assert!(row.differences.is_empty(), "{row:?}");
        }
    }
}

pub fn relay(boot: &str) -> RelayIdentity {
    RelayIdentity { name: "relay".into(), boot: boot.into(), version: "0".into(), lease: LEASE }
}

pub fn from_beginning(name: &str) -> RouteSpec {
    RouteSpec { start: StartFrom::Beginning, ..RouteSpec::new(name) }
}

pub fn actor() -> Actor {
    Actor { name: "ann".into(), reason: Some("a test".into()) }
}

pub fn settlement(delivery: &Delivery, verdict: Verdict) -> Settlement {
    Settlement { handle: delivery.handle, lane: delivery.lane, verdict, took: Duration::from_millis(3) }
}

pub fn delivered(delivery: &Delivery) -> Settlement {
    settlement(delivery, Verdict::Delivered(Receipt::at(format!("@{}", delivery.event.id))))
}

pub fn retry(delivery: &Delivery, seconds: u64) -> Settlement {
    let failure = Failure::new(FailureKind::Transient, "test.transient", "no luck");
    let attempts = delivery.attempts + 1;
    settlement(delivery, Verdict::Retry { attempts, after: Duration::from_secs(seconds), failure })
}

pub fn dead(delivery: &Delivery) -> Settlement {
    let failure = Failure::new(FailureKind::Permanent, "test.permanent", "never");
    settlement(delivery, Verdict::Dead { attempts: delivery.attempts + 1, failure, published: false })
}

pub fn returned(delivery: &Delivery) -> Settlement {
    settlement(delivery, Verdict::Returned)
}

pub fn ids(deliveries: &[Delivery]) -> Vec<&str> {
    deliveries.iter().map(|d| d.event.id.as_str()).collect()
}

pub async fn take(source: &Arc<dyn Source>) -> Vec<Delivery> {
    source.take(ALL).await.unwrap().deliveries
}

pub async fn settle(source: &Arc<dyn Source>, settlements: &[Settlement]) {
    let ownership = source.settle(settlements).await.unwrap();
    assert_eq!((ownership.lanes, ownership.lost.len()), (1, 0), "the lane was lost");
}
