//! The route of an adopted table as one relay sees it.
//!
//! A further route has entries of its own for rows: `further`.
//!
//! `check` asks whether the mapping fits, `lease` decides whether the table is ours, `take` reads, `settle` writes; `row`
//! makes events of rows. `consumer` keeps what was processed from the handler. Where relays share the table, `claims` or `locks` say which rows are ours. What they share is
//! locked only for a moment, never while the database works: a slow take holds up neither settles nor the heartbeat.

mod check;
mod claims;
mod consumer;
mod further;
mod lease;
mod locks;
mod row;
mod settle;
mod take;

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use postroom_core::{
    Budget, Failure, LaneTerm, Lease, Notified, OnFailure, Ownership, RelayIdentity, RouteHealth, RouteSpec,
    Settlement, Source, StoreError, Take, disabled_by,
};

pub(crate) use consumer::Consumer;
pub(crate) use row::Due;

use self::lease::Look;
use self::locks::{HeldTake, Pause};
use crate::admin;
use crate::admin::routes::Switch;
use crate::mapping::Claim;
use crate::sql::Takes;
use crate::sql::further::Entries;
use crate::store::Inner;

/// An adopted table has one lane.
const LANE: u32 = 0;
/// What may be out while it is locked, as long as nobody has said so.
const BOUND: usize = 512;
/// A walk begins again at the front after this long.
const WALK_MAX: Duration = Duration::from_secs(1);
/// Where relays share rows nobody owns the lane; the engine wants a term all the same.
const SHARED: LaneTerm = LaneTerm { lane: LANE, term: 1 };

/// The route of an adopted table as one relay sees it.
pub(crate) struct AdoptedSource(Arc<Shared>);

struct Shared {
    inner: Arc<Inner>,
    relay: RelayIdentity,
    route: RouteSpec,
    takes: Takes,
    /// What a further route reads and writes instead of the table.
    entries: Option<Entries>,
    /// The consumer whose inbox the relay keeps.
    consumer: Option<Consumer>,
    state: Mutex<State>,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What the relay knows of the table.
#[derive(Debug, Default)]
struct State {
    /// Whether relays share the table.
    shares: bool,
    /// The ownership, while there is one.
    term: Option<i64>,
    /// Ownerships that ended and of which the engine has not been told.
    lost: Vec<LaneTerm>,
    /// Rows in the engine's hands, by handle.
    out: HashMap<i64, PendingRow>,
    /// Their ids.
    rows: HashSet<String>,
    handles: i64,
    /// Takes whose rows are locked, by their terms.
    held: HashMap<i64, HeldTake>,
    /// Most rows that may be in the engine's hands while they are locked.
    bound: usize,
    /// The last take was full: this one need not ask whether anything is due.
    more: bool,
    /// Whether this take, of an odd number of rows, has one more for what has failed before.
    odd: bool,
    /// How far the walk through the rows has got.
    walk: DueScan,
    /// Keys of which rows came back undelivered since the last take began.
    turned: HashSet<String>,
    /// No row is locked before this: what was locked last could not be settled.
    pause: Pause,
    /// Whether the table has further routes.
    several: bool,
    /// A further route looks for rows that it has not seen no earlier than this.
    see_at: Option<Instant>,
}

/// A row in the engine's hands.
#[derive(Debug)]
struct PendingRow {
    row: String,
    event_id: String,
    key: Option<String>,
    /// Failed tries before this one.
    attempts: u32,
    /// How often it was claimed, where rows are claimed in columns.
    fence: Option<u32>,
    /// Whether the side table knows of claims that did not run out.
    excused: bool,
    /// How often it was tried as the table spells it, where that is read and not claimed: who changes it meanwhile wins.
    was: Option<String>,
}

impl PendingRow {
    /// A row as it was read, before anything is known of its event.
    fn read(row: String, attempts: u32, was: Option<String>) -> Self {
        Self { event_id: row.clone(), row, key: None, attempts, fence: None, excused: false, was }
    }
}

/// A walk through the due rows, from the front to the end.
#[derive(Debug, Default)]
struct DueScan {
    /// Behind this row; `None` is the front.
    cursor: Option<String>,
    began: Option<Instant>,
    /// How often keys had been let go on when it began.
    unblocked: String,
}

impl DueScan {
    /// Where it goes on. It begins again at the front after a while: what is committed late may stand anywhere.
    fn next(&mut self, look: &Look) -> Option<String> {
        if self.began.is_none_or(|began| began.elapsed() >= WALK_MAX) {
            self.restart(look);
        }
        self.cursor.clone()
    }

    /// It begins at the front.
    fn restart(&mut self, look: &Look) {
        *self = Self { cursor: None, began: Some(Instant::now()), unblocked: look.unblocked.clone() };
    }

    /// It has got to this cursor, and to the end or not. Whether there may be more. One that was to begin anew comes to an end.
    fn came(&mut self, from_the_front: bool, cursor: Option<String>, at_the_end: bool) -> bool {
        if at_the_end {
            *self = Self::default();
        } else if cursor.is_some() {
            self.cursor = cursor;
        }
        // What stands before the cursor it began at is looked at by the next one.
        !at_the_end || !from_the_front
    }
}

impl AdoptedSource {
    /// A source of a route that is registered and joined.
    pub(crate) fn new(inner: Arc<Inner>, relay: RelayIdentity, route: RouteSpec, consumer: Option<Consumer>) -> Self {
        let (blocks, limits) = (route.on_failure == OnFailure::Block, inner.limits);
        let takes = Takes::new(&inner.mapping, &inner.writer(), limits, blocks);
        let further = inner.mapping.is_further(&route.name);
        let entries = further.then(|| Entries::new(&inner.mapping, &inner.writer(), limits, blocks));
        let state = State { shares: !inner.mapping.has_owner(), bound: BOUND, ..State::default() };
        Self(Arc::new(Shared { inner, relay, route, takes, entries, consumer, state: Mutex::new(state) }))
    }
}

impl State {
    fn lane(&self) -> Option<LaneTerm> {
        if self.shares { Some(SHARED) } else { self.term.map(|term| LaneTerm { lane: LANE, term }) }
    }

    fn own(&mut self, term: i64) {
        if self.term != Some(term) {
            self.lose();
            self.term = Some(term);
        }
    }

    /// Forgets the table; what the engine holds of it is void.
    fn lose(&mut self) {
        self.lost.extend(self.lane());
        self.term = None;
        self.out.clear();
        self.rows.clear();
        self.walk = DueScan::default();
    }

    /// A row came back undelivered: those of its key come from the front, in their order.
    fn turn(&mut self, out: PendingRow) {
        if let Some(key) = out.key {
            self.turned.insert(key);
            self.walk.began = None;
        }
    }

    /// How many of so many rows may be such that have failed before, while others wait.
    fn share(&mut self, rows: usize) -> usize {
        self.odd = !self.odd;
        usize::midpoint(rows, usize::from(self.odd))
    }

    fn remove(&mut self, handle: i64) -> Option<PendingRow> {
        let out = self.out.remove(&handle)?;
        self.rows.remove(&out.row);
        Some(out)
    }

    fn ownership(&mut self, paused: bool) -> Ownership {
        Ownership {
            paused,
            lanes: usize::from(self.term.is_some() || self.shares),
            lost: std::mem::take(&mut self.lost),
            ..Ownership::default()
        }
    }
}

#[async_trait]
impl Source for AdoptedSource {
    async fn take(&self, budget: Budget) -> Result<Take, StoreError> {
        self.0.take(budget).await
    }

    async fn settle(&self, settlements: &[Settlement]) -> Result<Ownership, StoreError> {
        match self.0.inner.mapping.claim {
            Claim::RowLocks => Ok(self.0.settle_locked(settlements).await),
            Claim::Lease | Claim::Columns(_) => self.0.settle(settlements).await,
        }
    }

    async fn renew(&self, health: &RouteHealth) -> Result<Lease, StoreError> {
        self.0.renew(health).await
    }

    async fn release(&self) -> Result<(), StoreError> {
        self.0.release().await
    }

    async fn disable(&self, failure: &Failure) -> Result<(), StoreError> {
        admin::routes::switch(&self.0.inner, &self.0.route.name, &disabled_by(failure), Switch::Pause).await.map(drop)
    }

    async fn is_drained(&self) -> Result<bool, StoreError> {
        admin::routes::is_drained(&self.0.inner, &self.0.route.name).await
    }

    fn bound(&self, deliveries: usize) {
        self.0.state().bound = deliveries;
    }

    fn holds_transactions(&self) -> bool {
        self.0.inner.mapping.claim == Claim::RowLocks
    }

    fn notified(&self) -> Notified {
        self.0.inner.wake.notified()
    }
}
