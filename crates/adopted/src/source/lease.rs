//! Whether the table is ours: the heartbeat, and who holds the route.

use postroom_core::{Lease, RouteHealth, StoreError};

use super::Shared;
use crate::ground::Rows;
use crate::tables::routes;

/// How the route stands in our tables.
pub(super) struct Look {
    pub(super) paused: bool,
    /// The term, if we hold it.
    pub(super) ours: Option<i64>,
    /// Whether nobody alive holds it, and we live.
    pub(super) free: bool,
}

impl Look {
    /// Reads the row of [`routes::look`].
    pub(super) fn read(rows: &Rows) -> Option<Self> {
        let row = rows.first()?;
        let is = |n: usize| row.get(n).and_then(Option::as_deref) == Some("yes");
        let term = row.get(3).and_then(Option::as_deref).and_then(|term| term.parse().ok());
        Some(Self { paused: is(0), ours: term.filter(|_| is(1)), free: is(2) })
    }
}

impl Shared {
    /// Says that we live, and looks who holds the route.
    pub(super) async fn renew(&self, health: &RouteHealth) -> Result<Lease, StoreError> {
        let ground = &self.inner.ground;
        let statements = vec![
            routes::heartbeat(&self.inner, &self.relay, &self.route.name, health),
            routes::look(&self.inner, &self.route.name, &self.relay.boot),
        ];
        let found = ground.renew("renew", statements).await?;
        let mut state = self.state.lock().await;
        let look = found.get(1).and_then(Look::read);
        let paused = look.as_ref().is_some_and(|look| look.paused);
        let ours = look.and_then(|look| look.ours);
        // A take may have acquired it meanwhile: only another term is a loss.
        if state.term.is_some_and(|term| ours.is_some_and(|ours| ours != term))
            || (state.term.is_some() && ours.is_none())
        {
            state.lose();
        }
        Ok(Lease { valid_for: self.relay.lease, standing: state.standing(paused) })
    }

    /// Takes the route if nobody alive holds it.
    pub(super) async fn acquire(&self) -> Result<Option<i64>, StoreError> {
        let statement = routes::acquire(&self.inner, &self.route.name, &self.relay.boot);
        let found = self.inner.ground.run("take", vec![statement]).await?;
        let term = found.first().and_then(|rows| rows.first()).and_then(|row| row.first()).and_then(Option::as_deref);
        Ok(term.and_then(|term| term.parse().ok()))
    }

    /// Gives the route up, so that another relay may take it at once.
    pub(super) async fn release(&self) -> Result<(), StoreError> {
        let statements = routes::release(&self.inner, &self.route.name, &self.relay.boot);
        self.inner.ground.run("release", statements).await?;
        let mut state = self.state.lock().await;
        state.lose();
        state.lost.clear();
        self.inner.wake.wake();
        Ok(())
    }
}
