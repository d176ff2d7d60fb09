//! What every case works with: a store, relays on it, and short words for what they do.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use postroom_admin::view::{Affected, DeliveryRow, ReplayKind, RouteDetail, RouteTimeline};
use postroom_admin::{Admin, ManagedStore as _, Selection, replay_at_once};
use postroom_core::{
    Actor, Budget, Delivery, Event, Failure, LaneTerm, Outbox, Ownership, Receipt, RelayIdentity, RouteHealth,
    RouteSpec, Settlement, Source, StartFrom, Store, StoreError, Take, Verdict,
};

use super::StoreHarness;

/// How long heartbeats live in the suite.
pub(super) const LEASE: Duration = Duration::from_secs(30);
/// One second less than the lease.
pub(super) const ALMOST_LEASE: Duration = Duration::from_secs(29);
/// One second.
pub(super) const SECOND: Duration = Duration::from_secs(1);

/// A store under test.
#[derive(Debug)]
pub struct Bench<H> {
    pub(super) harness: H,
    boots: AtomicU32,
}

impl<H: StoreHarness> Bench<H> {
    pub(super) async fn open() -> Self {
        Self { harness: H::fresh().await, boots: AtomicU32::new(0) }
    }

    pub(super) fn store(&self) -> &H::Store {
        self.harness.store()
    }

    pub(super) fn admin(&self) -> Arc<dyn Admin> {
        self.store().admin()
    }

    /// Lets time pass.
    pub(super) fn pass(&self, time: Duration) {
        self.harness.clock().advance(time);
    }

    /// Appends and commits in one transaction.
    pub(super) async fn append(&self, events: &[Event]) {
        let mut tx = self.harness.begin().await;
        let appended = self.store().append_many(&mut tx, events).await.unwrap();
        self.harness.commit(tx).await;
        appended.wake();
    }

    /// A relay of this name, just started.
    pub(super) fn relay(&self, name: &str) -> RelayIdentity {
        let boot = format!("{name}-{}", self.boots.fetch_add(1, Ordering::Relaxed));
        RelayIdentity { name: name.to_owned(), boot, version: "0.0.0".to_owned(), lease: LEASE }
    }

    /// A new relay that serves the route.
    pub(super) async fn serve(&self, route: &RouteSpec) -> Worker {
        self.serve_as("relay", route).await.unwrap()
    }

    /// A new relay of this name that serves the route.
    pub(super) async fn serve_as(&self, name: &str, route: &RouteSpec) -> Result<Worker, StoreError> {
        Worker::open(self.store(), &self.relay(name), route).await
    }

    pub(super) async fn detail(&self, route: &str) -> RouteDetail {
        let routes = self.admin().routes().await.unwrap();
        routes.into_iter().find(|detail| detail.status.route == route).expect("the route is registered")
    }

    /// What became of an event on a route.
    pub(super) async fn timeline(&self, id: &str, route: &str) -> RouteTimeline {
        let timeline = self.admin().event(id, false).await.unwrap().expect("the event is in the log");
        timeline.routes.into_iter().find(|one| one.route == route).expect("the route is registered")
    }

    pub(super) async fn dead(&self) -> Vec<DeliveryRow> {
        self.admin().dead(&Selection::default(), 0, 1000).await.unwrap()
    }

    /// What a replay would touch.
    pub(super) async fn preview(&self, what: ReplayKind, which: &Selection) -> Affected {
        self.admin().preview_replay(what, which, None).await.unwrap()
    }

    /// Sends again what is selected; how many that are.
    pub(super) async fn replay(&self, what: ReplayKind, which: &Selection) -> u64 {
        replay_at_once(&*self.admin(), what, which, &actor()).await.unwrap().map_or(0, |row| row.done)
    }

    /// verification finds nothing.
    pub(super) async fn agrees(&self) {
        for row in self.admin().verify().await.unwrap() {
            assert!(row.differences.is_empty(), "route {} lane {}: {:?}", row.route, row.lane, row.differences);
        }
    }
}

/// One route as one relay serves it, with short words for verdicts.
#[allow(missing_debug_implementations, reason = "a source has none")]
pub struct Worker {
    pub(super) source: Arc<dyn Source>,
}

impl Worker {
    pub(super) async fn open<S: Store>(
        store: &S,
        relay: &RelayIdentity,
        route: &RouteSpec,
    ) -> Result<Self, StoreError> {
        Ok(Self { source: store.source(relay, route).await? })
    }

    pub(super) async fn look(&self) -> Take {
        self.source.take(Budget { rows: 1000, bytes: 64 << 20 }).await.unwrap()
    }

    pub(super) async fn take(&self) -> Vec<Delivery> {
        self.look().await.deliveries
    }

    /// Takes exactly one delivery.
    pub(super) async fn take_one(&self) -> Delivery {
        let mut taken = self.take().await;
        assert_eq!(taken.len(), 1, "{:?}", ids(&taken));
        taken.remove(0)
    }

    pub(super) async fn settle(&self, settlements: &[Settlement]) -> Ownership {
        self.source.settle(settlements).await.unwrap()
    }

    pub(super) async fn deliver(&self, deliveries: &[Delivery]) -> Ownership {
        self.settle(&deliveries.iter().map(delivered).collect::<Vec<_>>()).await
    }

    pub(super) async fn retry(&self, delivery: &Delivery, after: Duration) -> Ownership {
        self.settle(&[retry(delivery, after)]).await
    }

    pub(super) async fn kill(&self, delivery: &Delivery) -> Ownership {
        self.settle(&[dead(delivery)]).await
    }

    pub(super) async fn give_back(&self, deliveries: &[Delivery]) -> Ownership {
        self.settle(&deliveries.iter().map(returned).collect::<Vec<_>>()).await
    }

    pub(super) async fn renew(&self) -> Ownership {
        self.source.renew(&RouteHealth::running()).await.unwrap().ownership
    }

    /// Delivers everything there is now; ids in the order they came.
    pub(super) async fn drain(&self) -> Vec<String> {
        let mut came = Vec::new();
        loop {
            let taken = self.take().await;
            if taken.is_empty() {
                return came;
            }
            came.extend(ids(&taken));
            self.deliver(&taken).await;
        }
    }
}

/// Ids in order.
pub fn ids(deliveries: &[Delivery]) -> Vec<String> {
    deliveries.iter().map(|delivery| delivery.event.id.clone()).collect()
}

/// Ids of one key, in the order they came.
pub(super) fn of_key(ids: &[String], key: &str) -> Vec<String> {
    ids.iter().filter(|id| id.rsplit_once('-').is_some_and(|(k, _)| k == key)).cloned().collect()
}

/// Ids sorted, for comparisons in which order plays no part.
pub(super) fn sorted(mut ids: Vec<String>) -> Vec<String> {
    ids.sort();
    ids
}

/// `key-1`, `key-2`, … as ids.
pub(super) fn names(key: &str, numbers: impl IntoIterator<Item = u32>) -> Vec<String> {
    numbers.into_iter().map(|n| format!("{key}-{n}")).collect()
}

/// The n-th event of a key; its id is `key-n`.
pub(super) fn event(key: &str, n: u32) -> Event {
    Event::new("order.placed").key(key).id(format!("{key}-{n}"))
}

/// Events of one key in order.
pub(super) fn events(key: &str, numbers: impl IntoIterator<Item = u32>) -> Vec<Event> {
    numbers.into_iter().map(|n| event(key, n)).collect()
}

/// A route that wants everything that is in the log.
pub(super) fn route() -> RouteSpec {
    named("all")
}

pub(super) fn named(name: &str) -> RouteSpec {
    RouteSpec { start: StartFrom::Beginning, to: "noop".to_owned(), ..RouteSpec::new(name) }
}

pub(super) fn actor() -> Actor {
    Actor { name: "ada".to_owned(), reason: Some("a test".to_owned()) }
}

fn settlement(delivery: &Delivery, verdict: Verdict) -> Settlement {
    Settlement { handle: delivery.handle, lane: delivery.lane, verdict, took: Duration::from_millis(5) }
}

pub(super) fn delivered(delivery: &Delivery) -> Settlement {
    settlement(delivery, Verdict::Delivered(Receipt::default()))
}

pub(super) fn received(delivery: &Delivery, receipt: &str) -> Settlement {
    settlement(delivery, Verdict::Delivered(Receipt::at(receipt)))
}

pub(super) fn retry(delivery: &Delivery, after: Duration) -> Settlement {
    let failure = Failure::transient("test.transient", "not now");
    settlement(delivery, Verdict::Retry { attempts: delivery.attempts + 1, after, failure })
}

pub(super) fn dead(delivery: &Delivery) -> Settlement {
    let failure = Failure::permanent("test.permanent", "never");
    settlement(delivery, Verdict::Dead { attempts: delivery.attempts + 1, failure, published: false })
}

pub(super) fn returned(delivery: &Delivery) -> Settlement {
    settlement(delivery, Verdict::Returned)
}

/// Lanes and terms of deliveries, each once.
pub(super) fn lanes(deliveries: &[Delivery]) -> Vec<LaneTerm> {
    let mut lanes: Vec<LaneTerm> = deliveries.iter().map(|delivery| delivery.lane).collect();
    lanes.sort_unstable();
    lanes.dedup();
    lanes
}

/// Whether every lane these were taken from is reported as lost.
pub(super) fn is_lost(ownership: &Ownership, taken: &[Delivery]) -> bool {
    lanes(taken).iter().all(|lane| ownership.lost.contains(lane))
}
