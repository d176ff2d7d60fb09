//! The route of an adopted table as one relay sees it.
//!
//! `lease` decides whether the table is ours, `take` reads, `settle` writes; `row` makes events of rows.

mod lease;
mod row;
mod settle;
mod take;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Instant;

use async_trait::async_trait;
use postroom_core::{
    Budget, Ear, LaneTerm, Lease, RelayIdentity, RouteDefinition, RouteHealth, Settlement, Source, Standing,
    StoreError, Take,
};
use tokio::sync::Mutex;

use crate::store::Inner;

/// An adopted table has one lane.
const LANE: u32 = 0;

/// The route of an adopted table as one relay sees it.
pub(crate) struct AdoptedSource(Arc<Shared>);

struct Shared {
    inner: Arc<Inner>,
    relay: RelayIdentity,
    route: RouteDefinition,
    state: Mutex<State>,
}

/// What the relay knows of the table.
#[derive(Debug, Default)]
struct State {
    /// The ownership, while there is one.
    term: Option<i64>,
    /// Ownerships that ended and of which the engine has not been told.
    lost: Vec<LaneTerm>,
    /// Rows in the engine's hands, by handle.
    out: HashMap<i64, Out>,
    /// Their ids.
    rows: HashSet<String>,
    handles: i64,
    /// How far the walk through the rows has got.
    walk: Walk,
}

/// A row in the engine's hands.
#[derive(Debug)]
struct Out {
    row: String,
    event_id: String,
    key: Option<String>,
    /// Failed tries before this one.
    attempts: u32,
}

/// A walk through the due rows, from the front to the end.
#[derive(Debug, Default)]
struct Walk {
    /// Behind this row; `None` is the front.
    place: Option<String>,
    began: Option<Instant>,
}

impl AdoptedSource {
    /// A source of a route that is registered and joined.
    pub(crate) fn new(inner: Arc<Inner>, relay: RelayIdentity, route: RouteDefinition) -> Self {
        Self(Arc::new(Shared { inner, relay, route, state: Mutex::default() }))
    }
}

impl State {
    fn lane(&self) -> Option<LaneTerm> {
        self.term.map(|term| LaneTerm { lane: LANE, term })
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
        self.walk = Walk::default();
    }

    fn remove(&mut self, handle: i64) -> Option<Out> {
        let out = self.out.remove(&handle)?;
        self.rows.remove(&out.row);
        Some(out)
    }

    fn standing(&mut self, paused: bool) -> Standing {
        Standing {
            paused,
            lanes: usize::from(self.term.is_some()),
            lost: std::mem::take(&mut self.lost),
            ..Standing::default()
        }
    }
}

#[async_trait]
impl Source for AdoptedSource {
    async fn take(&self, budget: Budget) -> Result<Take, StoreError> {
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
        self.0.inner.wake.listen()
    }
}
