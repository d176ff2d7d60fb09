//! Whether the table is ours: the heartbeat, and who holds the route.

use futures_util::future::join;
use postroom_core::{Lease, RouteHealth, StoreError, Timestamp};

use super::Shared;
use crate::executor::Rows;
use crate::tables::routes;

/// How the route stands in our tables.
pub(super) struct Look {
    pub(super) paused: bool,
    /// The term, if we hold it.
    pub(super) ours: Option<i64>,
    /// Whether nobody alive holds it, and we live.
    pub(super) free: bool,
    /// Whether another relay holds it, alive or not.
    pub(super) anothers: bool,
    /// How often somebody who is no relay has let keys go on.
    pub(super) unblocked: String,
    /// When an operator last asked to try the destination now.
    probe_asked: Option<Timestamp>,
    /// Whether the table has further routes.
    pub(super) several: bool,
}

impl Look {
    /// Reads the row of [`routes::look`].
    pub(super) fn read(rows: &Rows) -> Option<Self> {
        let row = rows.first()?;
        let is = |n: usize| row.get(n).and_then(Option::as_deref) == Some("yes");
        let term = row.get(3).and_then(Option::as_deref).and_then(|term| term.parse().ok());
        let unblocked = row.get(5).cloned().flatten().unwrap_or_default();
        let micros = row.get(6).and_then(Option::as_deref).and_then(|micros| micros.parse().ok());
        let probe_asked = micros.and_then(|micros: i64| Timestamp::from_microsecond(micros).ok());
        let several = is(7);
        Some(Self {
            several,
            probe_asked,
            paused: is(0),
            ours: term.filter(|_| is(1)),
            free: is(2),
            anothers: is(4),
            unblocked,
        })
    }
}

impl Shared {
    /// Says that we live, and looks who holds the route.
    pub(super) async fn renew(&self, health: &RouteHealth) -> Result<Lease, StoreError> {
        let executor = &self.inner.executor;
        let mut statements = vec![
            routes::heartbeat(&self.inner, &self.relay, &self.route.name, health),
            routes::look(&self.inner, &self.route.name, &self.relay.boot),
        ];
        statements.extend(self.takes.claims.as_ref().and_then(|claims| self.refresh(claims)));
        // Read before the tables are: what a take acquires meanwhile is not what they say we lost.
        let term = self.state().term;
        // What is locked stays so while we live. Beside it: a session that does not answer must not cost us the lease.
        let (found, ()) = join(executor.renew("renew", statements), self.keep_locks()).await;
        let found = found?;
        let look = found.get(1).and_then(Look::read);
        let paused = look.as_ref().is_some_and(|look| look.paused);
        let several = look.as_ref().is_some_and(|look| look.several);
        let probe_asked = look.as_ref().and_then(|look| look.probe_asked);
        let ours = look.and_then(|look| look.ours);
        let mut state = self.state();
        state.several = several;
        if term.is_some() && state.term == term && ours != term {
            state.lose();
        }
        let claim = self.inner.mapping.claimed().map_or(self.relay.lease, |claimed| claimed.lease);
        Ok(Lease { valid_for: self.relay.lease.min(claim), ownership: state.ownership(paused), probe_asked })
    }

    /// Takes the route if nobody alive holds it.
    pub(super) async fn acquire(&self) -> Result<Option<i64>, StoreError> {
        let statements = routes::acquire(&self.inner, &self.route.name, &self.relay.boot);
        let found = self.inner.executor.run("take", statements).await?;
        let term = found.last().and_then(|rows| rows.first()).and_then(|row| row.first()).and_then(Option::as_deref);
        Ok(term.and_then(|term| term.parse().ok()))
    }

    /// Gives the route up, so that another relay may take it at once.
    pub(super) async fn release(&self) -> Result<(), StoreError> {
        self.give_claims_back().await?;
        self.end_all().await;
        let statements = routes::release(&self.inner, &self.route.name, &self.relay.boot);
        self.inner.executor.run("release", statements).await?;
        let mut state = self.state();
        state.lose();
        state.lost.clear();
        self.inner.wake.wake();
        Ok(())
    }
}
