//! One route of this store as one relay sees it.
//!
//! Positions live in memory while the relay owns their lanes, and in checkpoints. Reading forward changes memory only; every
//! change that parks an event or ends it is written together with the lane's position. When an answer is lost, so are the lanes: they are taken again from what is written.

mod batch;
mod change_probe;
mod checkpoint;
mod failures;
mod lane;
mod ownership;
mod ownership_snapshot;
mod park;
mod partitions;
pub(crate) mod position;
pub(crate) mod read;
mod read_ahead;
mod receipts;
mod settle;
mod shared_reads;
mod sweep;
mod take;
pub(crate) mod unsettled;
mod verify;
mod watch;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex as SyncMutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use foldhash::HashMap;
use postroom_core::{
    Budget, Delivery, Failure, LaneTerm, Lease, Notified, Ownership, RelayIdentity, RouteHealth, RouteSpec, Settlement,
    Source, StoreError, Take, disabled_by,
};
use tokio::sync::Mutex;
use tokio::task::JoinHandle;

use crate::database::joined;
use crate::error::Fault;
use crate::events::COLUMNS;
use crate::store::Inner;
use crate::{admin, identity, routes};
pub(crate) use change_probe::ChangeProbe;
use checkpoint::Writer;
use lane::{InFlight, Lane};
use ownership_snapshot::Server;
use partitions::Partitions;
pub(crate) use shared_reads::Tail;
use watch::Watch;

/// How long a renewal waits for a take to look whether counts differ.
const DIFFERS_WAIT: Duration = Duration::from_millis(500);

/// One route of this store as one relay sees it.
pub(crate) struct PostgresSource(Arc<Shared>);

struct Shared {
    inner: Arc<Inner>,
    relay: RelayIdentity,
    route: Arc<RouteSpec>,
    state: Arc<Mutex<State>>,
    /// Held by whoever writes positions, always taken after `state`.
    writing: Arc<Mutex<()>>,
    /// What settles have written and memory does not know yet.
    outcomes: SyncMutex<Vec<settle::Outcome>>,
    /// Lanes we own and under which terms: what a renewal may look at without waiting for a take.
    terms: SyncMutex<BTreeMap<i16, i64>>,
    /// Which counts differed when that was last asked, in words.
    differs: SyncMutex<Option<String>>,
    texts: Texts,
}

/// Statements with columns in them.
struct Texts {
    again: Arc<str>,
    due: Arc<str>,
}

/// What the relay knows of its lanes.
#[derive(Default)]
struct State {
    /// Which partitions are read, and the statements for them; none before the first read, when lanes were taken, and after a read
    /// that did not follow the last one.
    reader: Option<Reader>,
    /// Partitions that a reader left out before it began anew, with what it knew of them.
    unchecked: Vec<(i16, LeftOut)>,
    /// A read behind what waits to be handed out.
    ahead: Option<Reading>,
    /// A look for late rows of transactions that were open for long. Its lanes are not read meanwhile.
    sweeping: Option<sweep::Sweeping>,
    lanes: BTreeMap<i16, Lane>,
    /// In the engine's hands: positive handles are numbers of the log, negative ones parked rows.
    out: HashMap<i64, InFlight>,
    /// On the way into the engine's hands: a caller that does not wait for its take leaves them here.
    outgoing: Vec<(i64, InFlight)>,
    /// Ownerships that ended and of which the engine has not been told.
    lost: Vec<LaneTerm>,
    /// Whether we gave them up ourselves: memory is not to be trusted.
    given_up: bool,
    /// What was appended before is not for this route.
    start_at: Option<i64>,
    /// Which server was read.
    server: Option<Server>,
    /// Set when the last look found nothing.
    quiet: Option<Arc<change_probe::IdleSnapshot>>,
    /// Something must not be: nothing moves.
    halted: Option<String>,
    /// The time of the last look.
    now: i64,
    /// The last number that anybody had drawn at the last look.
    end: i64,
    /// Whether the last window brought too little for another one.
    sparse: bool,
    /// When the first of what this take parked becomes due.
    parked_due: Option<i64>,
    verification: verify::Verification,
    /// Which lane goes first; moves on with every take, so that none starves.
    turn: usize,
}

/// A read on its way. Nothing else reads its lanes meanwhile, so what it brings goes on where they are.
struct Reading {
    begun: shared_reads::Begun,
    /// Its lanes, and under which terms they were ours.
    terms: BTreeMap<i16, i64>,
    partitions: Partitions,
    windowed: bool,
    task: JoinHandle<Result<(read::Moment, Vec<read::Brought>), Fault>>,
}

/// Where a reader looks.
struct Reader {
    partitions: Partitions,
    texts: read::Texts,
}

/// What a reader knew of a partition that it left out: for each lane the greatest number in it, and the position. Events between the two
/// were passed. What lies above the position is read in its turn, because the next reads look into all partitions.
type LeftOut = BTreeMap<i16, (i64, i64)>;

impl State {
    /// The next read looks into all partitions.
    fn begin_anew(&mut self) {
        let Some(reader) = self.reader.take() else { return };
        for (partition, greatest) in reader.partitions.into_left_out() {
            let known = greatest.into_iter();
            let known = known.filter_map(|(lane, last)| Some((lane, (last, self.lanes.get(&lane)?.position.hwm))));
            self.unchecked.push((partition, known.collect()));
        }
    }
}

impl PostgresSource {
    /// A source of a route that is registered and joined.
    pub(crate) fn new(inner: Arc<Inner>, relay: RelayIdentity, route: RouteSpec) -> Self {
        let sql = &inner.db.sql;
        let made = |text: &str| Arc::from(sql.made(&text.replace("{columns}", COLUMNS)));
        let texts = Texts { again: made(include_str!("../sql/again.sql")), due: made(include_str!("../sql/due.sql")) };
        inner.change_probe.listen(&route.name);
        let (route, state, writing) = (Arc::new(route), Arc::default(), Arc::default());
        let (terms, outcomes, differs) = (SyncMutex::default(), SyncMutex::default(), SyncMutex::default());
        Self(Arc::new(Shared { inner, relay, route, state, writing, outcomes, terms, differs, texts }))
    }
}

impl Shared {
    fn writer(&self, state: &State) -> Writer {
        Writer {
            route: self.route.name.clone(),
            boot: self.relay.boot.clone(),
            clock: self.inner.clock(),
            partitioning: *self.inner.partitioning,
            started: state.server.map(|server| server.started()),
        }
    }

    fn terms(&self) -> std::sync::MutexGuard<'_, BTreeMap<i16, i64>> {
        self.terms.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn own(&self, state: &mut State, lane: Lane) {
        self.terms().insert(lane.number, lane.term);
        state.quiet = None;
        state.begin_anew();
        state.lanes.insert(lane.number, lane);
    }

    /// Forgets a lane; what the engine holds of it is void.
    fn lose(&self, state: &mut State, number: i16) {
        if let Some(lane) = self.drop_lane(state, number) {
            state.lost.push(lane.lane_term());
        }
    }

    /// Forgets a lane that we gave up ourselves.
    fn drop_lane(&self, state: &mut State, number: i16) -> Option<Lane> {
        self.terms().remove(&number);
        state.quiet = None;
        // Whoever owns the lane next reads all partitions.
        state.begin_anew();
        for (_, left_out) in &mut state.unchecked {
            left_out.remove(&number);
        }
        state.out.retain(|_, out| out.lane != number);
        state.outgoing.retain(|(_, out)| out.lane != number);
        state.lanes.remove(&number)
    }

    fn lose_all(&self, state: &mut State) {
        let all: Vec<i16> = state.lanes.keys().copied().collect();
        for number in all {
            self.lose(state, number);
        }
        // A read of before must not tell of another server, or fail, when the lanes are ours again: that would cost them twice.
        (state.ahead, state.sweeping) = (None, None);
        (state.server, state.quiet, state.halted) = (None, None, None);
        state.given_up = !state.lost.is_empty();
    }

    /// Which counts of our lanes differ, in words. A renewal does not wait long for a take: the next one asks again.
    async fn differs(&self) -> Option<String> {
        if let Ok(mut state) = tokio::time::timeout(DIFFERS_WAIT, self.state.lock()).await {
            let differs = self.verify(&mut state).await;
            self.differs.lock().unwrap_or_else(PoisonError::into_inner).clone_from(&differs);
        }
        self.differs.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The error of a piece of work; if nobody knows what became of it, memory is not to be trusted any more.
    fn failed(&self, state: &mut State, fault: Fault, operation: &'static str) -> StoreError {
        if !fault.is_certain() {
            self.lose_all(state);
        }
        fault.at(operation, &self.inner.db.place)
    }
}

#[async_trait]
impl Source for PostgresSource {
    async fn take(&self, budget: Budget) -> Result<Take, StoreError> {
        let shared = Arc::clone(&self.0);
        let found = joined(tokio::spawn(async move { shared.take(budget).await }).await, "take")??;
        // Only now are they in the engine's hands: what a caller did not wait for is handed out again.
        if !found.deliveries.is_empty() {
            let mut state = self.0.state.lock().await;
            let outgoing = std::mem::take(&mut state.outgoing);
            state.out.extend(outgoing);
            let kept = |d: &Delivery| state.out.contains_key(&d.handle);
            if !found.deliveries.iter().all(kept) {
                let deliveries = found.deliveries.iter().filter(|d| kept(d)).cloned().collect();
                return Ok(Take { deliveries, more: true, ..found });
            }
        }
        Ok(found)
    }

    async fn settle(&self, settlements: &[Settlement]) -> Result<Ownership, StoreError> {
        let (shared, settlements) = (Arc::clone(&self.0), settlements.to_vec());
        joined(tokio::spawn(async move { shared.settle(settlements).await }).await, "settle")?
    }

    async fn renew(&self, health: &RouteHealth) -> Result<Lease, StoreError> {
        let (relay, route, health) = (self.0.relay.clone(), Arc::clone(&self.0.route), health.clone());
        let clock = self.0.inner.clock();
        let identify = self.0.inner.should_identify().then(|| self.0.inner.db.place.clone());
        // Read before the table is: a lane that a take acquires meanwhile is not one that the table says we lost.
        let terms = self.0.terms().clone();
        let found = self
            .0
            .inner
            .db
            .renew("renew", move |session| {
                Box::pin(async move {
                    if let Some(place) = identify {
                        identity::verify(session, &place).await?;
                    }
                    routes::heartbeat(session, &relay, &route.name, &health, clock).await?;
                    ownership_snapshot::look(session, &route.name, clock).await
                })
            })
            .await?;
        let boot = self.0.relay.boot.as_str();
        let ours = |lane: i16, term: i64| found.lanes.iter().any(|row| row.is(lane, boot, term));
        let lost = terms.iter().filter(|(lane, term)| !ours(**lane, **term));
        let ownership = Ownership {
            paused: found.paused,
            lanes: terms.iter().filter(|(lane, term)| ours(**lane, **term)).count(),
            lost: lost.map(|(lane, term)| LaneTerm { lane: lane.unsigned_abs().into(), term: *term }).collect(),
            differs: self.0.differs().await,
            ..Ownership::default()
        };
        Ok(Lease { valid_for: self.0.relay.lease, ownership, probe_asked: found.probe_at.map(crate::clock::timestamp) })
    }

    async fn release(&self) -> Result<(), StoreError> {
        let shared = Arc::clone(&self.0);
        joined(tokio::spawn(async move { shared.release().await }).await, "release")?
    }

    async fn disable(&self, failure: &Failure) -> Result<(), StoreError> {
        let log = admin::PostgresLog(Arc::clone(&self.0.inner));
        postroom_admin::routes::pause(&log, &self.0.route.name, &disabled_by(failure)).await.map(drop)
    }

    async fn is_drained(&self) -> Result<bool, StoreError> {
        admin::routes::is_drained(&self.0.inner, &self.0.route.name).await
    }

    fn notified(&self) -> Notified {
        self.0.inner.wake.notified()
    }

    fn watch(&self, every: Duration) -> bool {
        // Without a quiet state, or while a settle changes it, there is nothing to compare with.
        let Ok(state) = self.0.state.try_lock() else { return false };
        let quiet = state.quiet.as_ref().filter(|_| state.lost.is_empty() && self.0.inner.clock().is_none());
        let Some(quiet) = quiet else { return false };
        Watch::begin(&self.0.inner, &self.0.relay.boot, &self.0.route.name, Arc::clone(quiet), every);
        true
    }
}
