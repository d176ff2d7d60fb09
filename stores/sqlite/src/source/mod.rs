//! One route of this store as one relay sees it.
//!
//! The lane's position lives in memory while the relay owns the lane, and in the checkpoint. Reading forward changes
//! memory only; every change that parks an event or ends it is written together with the position (`settle`, and
//! the parking part of `take`). Both run under one lock, so that neither overwrites what the other has just computed.

pub(crate) mod checkpoint;
mod lane;
mod look;
mod settle;
mod take;
mod verify;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use async_trait::async_trait;
use postroom_core::{
    Budget, Failure, LaneTerm, Lease, Notified, Ownership, RelayIdentity, RouteHealth, RouteSpec, Settlement, Source,
    StoreError, Take, disabled_by,
};
use tokio::sync::Mutex;

use crate::admin;
use crate::database::{Version, joined};
use crate::routes;
use crate::store::Inner;
use checkpoint::Checkpoint;
use verify::Verification;

/// SQLite has one lane.
const LANE: u32 = 0;

/// One route of this store as one relay sees it.
pub(crate) struct SqliteSource(Arc<Shared>);

struct Shared {
    inner: Arc<Inner>,
    relay: RelayIdentity,
    route: Arc<RouteSpec>,
    state: Arc<Mutex<State>>,
    // The term we own the lane under, 0 for none: what a renewal may look at without waiting for a take.
    term: AtomicI64,
    verification: Mutex<Verification>,
}

/// What the relay knows of its lane.
#[derive(Default)]
struct State {
    owned: Option<Owned>,
    /// The position of a write that failed in a way that leaves its effect unknown; see `lane::resolve`.
    unsure: Option<Checkpoint>,
    /// Handles in the engine's hands, with their keys: positive ones are numbers of the log, negative ones parked rows.
    out: HashMap<i64, Option<Arc<str>>>,
    /// Ownerships that ended and of which the engine has not been told.
    lost: Vec<LaneTerm>,
    /// Lanes got from a relay that had not given them up, of which the engine has not been told.
    taken_over: usize,
    /// Set when the last look found nothing: until the file or the clock moves, there is nothing to find.
    idle: Option<Idle>,
    /// Counts takes.
    turn: usize,
}

/// A lane in our hands.
struct Owned {
    term: i64,
    /// Where we are; may be ahead of what is written.
    position: Checkpoint,
    /// When `position` first differed from what is written.
    unwritten_since: Option<i64>,
    /// What was appended before is not for this route.
    start_at: Option<i64>,
    /// What must not be: nothing moves.
    halted: Option<String>,
}

/// A look that found nothing.
struct Idle {
    version: Version,
    /// When it was; a clock that shows less was set back.
    at: i64,
    /// When time alone changes that.
    until: Option<i64>,
    result: Take,
}

impl SqliteSource {
    /// A source of a route that is registered and joined.
    pub(crate) fn new(inner: Arc<Inner>, relay: RelayIdentity, route: RouteSpec) -> Self {
        let (route, term, verification) = (Arc::new(route), AtomicI64::new(0), Mutex::default());
        Self(Arc::new(Shared { inner, relay, route, state: Arc::default(), term, verification }))
    }
}

impl Shared {
    fn own(&self, state: &mut State, owned: Owned) {
        self.term.store(owned.term, Ordering::Release);
        state.owned = Some(owned);
        state.unsure = None;
        state.idle = None;
        state.out.clear();
    }

    /// Forgets the lane; what the engine holds of it is void.
    fn lose(&self, state: &mut State) {
        self.term.store(0, Ordering::Release);
        state.unsure = None;
        state.idle = None;
        state.out.clear();
        state.lost.extend(state.owned.take().map(|owned| LaneTerm { lane: LANE, term: owned.term }));
    }
}

#[async_trait]
impl Source for SqliteSource {
    async fn take(&self, budget: Budget) -> Result<Take, StoreError> {
        self.0.inner.db.check_file("take")?;
        let shared = Arc::clone(&self.0);
        let found = joined(tokio::spawn(async move { shared.take(budget).await }).await, "take")??;
        // Only now are they in the engine's hands: what a caller did not wait for is handed out again.
        if !found.deliveries.is_empty() {
            let mut state = self.0.state.lock().await;
            if state.owned.as_ref().is_none_or(|o| found.deliveries.iter().any(|d| d.lane.term != o.term)) {
                return Ok(Take { deliveries: Vec::new(), more: true, ..found });
            }
            for delivery in &found.deliveries {
                state.out.insert(delivery.handle, delivery.order_key().map(Arc::from));
            }
        }
        Ok(found)
    }

    async fn settle(&self, settlements: &[Settlement]) -> Result<Ownership, StoreError> {
        let (shared, settlements) = (Arc::clone(&self.0), settlements.to_vec());
        joined(tokio::spawn(async move { shared.settle(settlements).await }).await, "settle")?
    }

    async fn renew(&self, health: &RouteHealth) -> Result<Lease, StoreError> {
        self.0.inner.db.check_file("renew")?;
        let (relay, route, health) = (self.0.relay.clone(), Arc::clone(&self.0.route), health.clone());
        let now = self.0.inner.now();
        // Read before the table is: a lane that a take acquires meanwhile is not one that the table says we lost.
        let term = self.0.term.load(Ordering::Acquire);
        let lane = self
            .0
            .inner
            .db
            .write("renew", move |conn| {
                Box::pin(async move {
                    routes::heartbeat(conn, &relay, &route.name, &health, now).await?;
                    lane::look(conn, &route.name, &relay.boot, now).await
                })
            })
            .await?;
        let ours = lane.held_by(&self.0.relay.boot, term);
        let ownership = Ownership {
            paused: lane.paused,
            lanes: usize::from(ours),
            lost: if ours || term == 0 { Vec::new() } else { vec![LaneTerm { lane: LANE, term }] },
            differs: if ours { self.0.differs(term).await } else { None },
            ..Ownership::default()
        };
        Ok(Lease { valid_for: self.0.relay.lease, ownership, probe_asked: lane.probe_at.map(crate::clock::timestamp) })
    }

    async fn release(&self) -> Result<(), StoreError> {
        let shared = Arc::clone(&self.0);
        joined(tokio::spawn(async move { shared.release().await }).await, "release")?
    }

    async fn disable(&self, failure: &Failure) -> Result<(), StoreError> {
        let log = admin::SqliteLog(Arc::clone(&self.0.inner));
        postroom_admin::routes::pause(&log, &self.0.route.name, &disabled_by(failure)).await.map(drop)
    }

    async fn is_drained(&self) -> Result<bool, StoreError> {
        admin::routes::is_drained(&self.0.inner, &self.0.route.name).await
    }

    fn notified(&self) -> Notified {
        self.0.inner.wake.notified()
    }
}
