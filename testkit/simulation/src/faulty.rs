//! Wrappers round the seams that let a simulated process die, freeze, see errors and lose answers at every step.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use postroom_admin::{Admin, ManagedStore};
use postroom_core::{
    Budget, Capabilities, Failure, LaneTerm, Lease, Maintenance, Notified, Outbound, Ownership, RelayIdentity, Retain,
    RouteHealth, RouteSpec, Schema, Settlement, Source, Store, StoreError, StoreErrorKind, Take, Transport,
};

use crate::process::{Process, Step};

/// How the connection to the database behaves at the moment; shared by all relays.
#[derive(Debug)]
pub(super) struct Weather {
    rng: Mutex<fastrand::Rng>,
    // Per mille of calls that fail before, fail after (the answer is lost), or are slow.
    before: AtomicU64,
    after: AtomicU64,
    slow: AtomicU64,
}

impl Weather {
    pub(super) fn new(seed: u64) -> Arc<Self> {
        Arc::new(Self {
            rng: Mutex::new(fastrand::Rng::with_seed(seed)),
            before: AtomicU64::new(0),
            after: AtomicU64::new(0),
            slow: AtomicU64::new(0),
        })
    }

    pub(super) fn set(&self, before: u64, after: u64, slow: u64) {
        self.before.store(before, Ordering::Relaxed);
        self.after.store(after, Ordering::Relaxed);
        self.slow.store(slow, Ordering::Relaxed);
    }

    fn chance(&self, per_mille: &AtomicU64) -> bool {
        let per_mille = per_mille.load(Ordering::Relaxed);
        per_mille > 0 && self.rng.lock().expect("never poisoned").u64(0..1000) < per_mille
    }

    async fn before(&self, operation: &'static str) -> Result<(), StoreError> {
        let wait = {
            let mut rng = self.rng.lock().expect("never poisoned");
            if rng.u64(0..1000) < self.slow.load(Ordering::Relaxed) { rng.u64(1..800) } else { rng.u64(0..3) }
        };
        tokio::time::sleep(Duration::from_millis(wait)).await;
        if self.chance(&self.before) {
            return Err(StoreError::new(StoreErrorKind::Busy, operation, "simulated: refused before it happened"));
        }
        Ok(())
    }

    /// The answer travels too.
    async fn answer(&self) {
        let wait = {
            let mut rng = self.rng.lock().expect("never poisoned");
            if rng.u64(0..1000) < self.slow.load(Ordering::Relaxed) { rng.u64(1..5000) } else { rng.u64(0..3) }
        };
        tokio::time::sleep(Duration::from_millis(wait)).await;
    }

    fn after(&self, operation: &'static str) -> Result<(), StoreError> {
        if self.chance(&self.after) {
            return Err(StoreError::new(StoreErrorKind::CommitUnknown, operation, "simulated: the answer was lost"));
        }
        Ok(())
    }
}

/// A store as one simulated process sees it.
pub(super) struct FaultyStore {
    pub(super) inner: Arc<dyn ManagedStore>,
    pub(super) process: Arc<Process>,
    pub(super) weather: Arc<Weather>,
    pub(super) lease: Arc<LeaseWatch>,
    pub(super) unfenced: Arc<AtomicU64>,
    pub(super) handed_out: Arc<AtomicU64>,
}

#[deny(clippy::missing_trait_methods)]
#[async_trait]
impl Store for FaultyStore {
    fn name(&self) -> &str {
        self.inner.name()
    }

    async fn source(&self, relay: &RelayIdentity, route: &RouteSpec) -> Result<Arc<dyn Source>, StoreError> {
        let inner = self.inner.source(relay, route).await?;
        let (process, weather, lease) = (self.process.clone(), self.weather.clone(), self.lease.clone());
        let (admin, route) = (self.inner.admin(), route.name.clone());
        let (unfenced, handed_out) = (self.unfenced.clone(), self.handed_out.clone());
        Ok(Arc::new(FaultySource { inner, admin, route, process, weather, lease, unfenced, handed_out }))
    }

    fn retain(&self) -> Arc<dyn Retain> {
        self.inner.retain()
    }

    fn schema(&self) -> Option<Arc<dyn Schema>> {
        self.inner.schema()
    }

    fn maintenance(&self) -> Option<Arc<dyn Maintenance>> {
        self.inner.maintenance()
    }
}

impl ManagedStore for FaultyStore {
    fn admin(&self) -> Arc<dyn Admin> {
        self.inner.admin()
    }
}

struct FaultySource {
    inner: Arc<dyn Source>,
    admin: Arc<dyn Admin>,
    route: String,
    process: Arc<Process>,
    weather: Arc<Weather>,
    lease: Arc<LeaseWatch>,
    unfenced: Arc<AtomicU64>,
    handed_out: Arc<AtomicU64>,
}

impl FaultySource {
    /// Notes a settle that was not told that its ownership is over.
    fn check_fence(&self, terms: &[LaneTerm], settlements: &[Settlement], ownership: &Ownership) {
        let stale = |s: &&Settlement| terms.iter().any(|now| now.lane == s.lane.lane && now.term > s.lane.term);
        let untold = settlements.iter().filter(stale).filter(|s| !ownership.lost.contains(&s.lane)).count();
        self.unfenced.fetch_add(untold as u64, Ordering::Relaxed);
    }

    /// The terms in force.
    async fn terms(&self) -> Result<Vec<LaneTerm>, StoreError> {
        let routes = self.admin.routes().await?;
        let lanes = routes.iter().filter(|route| route.status.route == self.route).flat_map(|route| &route.lanes);
        Ok(lanes.map(|row| LaneTerm { lane: row.lane, term: row.term }).collect())
    }
}

#[deny(clippy::missing_trait_methods)]
#[async_trait]
impl Source for FaultySource {
    async fn take(&self, budget: Budget) -> Result<Take, StoreError> {
        self.process.step(Step::BeforeTake).await;
        self.weather.before("take").await?;
        let take = self.inner.take(budget).await?;
        self.handed_out.fetch_add(take.deliveries.len() as u64, Ordering::Relaxed);
        self.weather.answer().await;
        self.process.step(Step::AfterTake).await;
        Ok(take)
    }

    async fn settle(&self, settlements: &[Settlement]) -> Result<Ownership, StoreError> {
        self.process.step(Step::BeforeSettle).await;
        self.weather.before("settle").await?;
        let terms = self.terms().await?;
        let ownership = self.inner.settle(settlements).await?;
        self.check_fence(&terms, settlements, &ownership);
        self.weather.answer().await;
        self.process.step(Step::AfterSettle).await;
        self.weather.after("settle")?;
        Ok(ownership)
    }

    async fn renew(&self, health: &RouteHealth) -> Result<Lease, StoreError> {
        let started = tokio::time::Instant::now();
        self.process.step(Step::BeforeRenew).await;
        self.weather.before("renew").await?;
        let lease = self.inner.renew(health).await?;
        self.weather.answer().await;
        self.process.step(Step::AfterRenew).await;
        self.weather.after("renew")?;
        self.lease.renewed(started + lease.valid_for);
        Ok(lease)
    }

    async fn release(&self) -> Result<(), StoreError> {
        self.process.step(Step::BeforeRelease).await;
        self.weather.before("release").await?;
        self.inner.release().await?;
        self.process.step(Step::AfterRelease).await;
        Ok(())
    }

    async fn disable(&self, failure: &Failure) -> Result<(), StoreError> {
        self.inner.disable(failure).await
    }

    async fn is_drained(&self) -> Result<bool, StoreError> {
        self.inner.is_drained().await
    }

    fn bound(&self, deliveries: usize) {
        self.inner.bound(deliveries);
    }

    fn holds_transactions(&self) -> bool {
        self.inner.holds_transactions()
    }

    fn notified(&self) -> Notified {
        self.inner.notified()
    }

    fn watch(&self, every: Duration) -> bool {
        self.inner.watch(every)
    }
}

/// Until when a process holds its lease, to the best of its own knowledge.
#[derive(Debug, Default)]
pub(super) struct LeaseWatch(Mutex<Option<tokio::time::Instant>>);

impl LeaseWatch {
    fn renewed(&self, until: tokio::time::Instant) {
        // The heartbeat is one for all routes, and an older answer may come later.
        let mut known = self.0.lock().expect("never poisoned");
        *known = (*known).max(Some(until));
    }

    fn holds(&self) -> bool {
        self.0.lock().expect("never poisoned").is_some_and(|until| tokio::time::Instant::now() < until)
    }
}

/// A transport as one simulated process sees it; notes hand-overs without a lease.
#[derive(Debug)]
pub(super) struct FaultyTransport {
    pub(super) inner: Arc<dyn Transport>,
    pub(super) process: Arc<Process>,
    pub(super) lease: Arc<LeaseWatch>,
    pub(super) unleased: Arc<AtomicU64>,
}

#[async_trait]
impl Transport for FaultyTransport {
    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities()
    }

    async fn deliver(&self, batch: Vec<Outbound>) {
        if !self.lease.holds() {
            self.unleased.fetch_add(batch.len() as u64, Ordering::Relaxed);
        }
        self.process.step(Step::BeforeDeliver).await;
        self.inner.deliver(batch).await;
        self.process.step(Step::AfterDeliver).await;
    }

    async fn close(&self) {
        self.inner.close().await;
    }
}
