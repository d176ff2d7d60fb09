//! Ownership of the lane: who has it, taking it, finding out what became of a lost write, giving it up.
use std::sync::Arc;

use postroom_core::faults::{self, Fault as Old};
use postroom_core::{RouteSpec, StoreError};
use sqlx::{Row, SqliteConnection};

use super::checkpoint::Checkpoint;
use super::{Owned, Shared, State};
use crate::error::Fault;
use crate::routes;

/// The lane as the table has it.
#[derive(Debug)]
pub(super) struct Lane {
    holder: Option<String>,
    term: i64,
    /// Until when its holder lives; `None` when it has no heartbeat.
    pub(super) alive_until: Option<i64>,
    pub(super) paused: bool,
    /// When an operator last asked to try the destination now.
    pub(super) probe_at: Option<i64>,
    /// Whether we live ourselves.
    pub(super) joined: bool,
}

impl Lane {
    /// Whether this relay holds it under this term.
    pub(super) fn held_by(&self, boot: &str, term: i64) -> bool {
        self.holder.as_deref() == Some(boot) && self.term == term
    }

    /// Whether another relay held it when it was looked at.
    pub(super) fn was_anothers(&self, boot: &str) -> bool {
        self.holder.as_deref().is_some_and(|holder| holder != boot)
    }

    /// Whether it may be taken. Its own holder may, when it does not know under which term it holds it.
    pub(super) fn is_free(&self, boot: &str, now: i64) -> bool {
        self.joined
            && (self.holder.as_deref().is_none_or(|holder| holder == boot)
                || self.alive_until.is_none_or(|until| until <= now))
    }
}

/// Reads the lane of a route.
pub(super) async fn look(conn: &mut SqliteConnection, route: &str, boot: &str, now: i64) -> Result<Lane, Fault> {
    let row =
        sqlx::query(include_str!("../sql/lane.sql")).bind(route).bind(boot).bind(now).fetch_optional(conn).await?;
    let Some(row) = row else { return Err(routes::not_registered(route, "take").into()) };
    let Some(term) = row.try_get("term")? else { return Err(routes::no_checkpoint(route).into()) };
    Ok(Lane {
        holder: row.try_get("holder")?,
        term,
        alive_until: row.try_get("alive_until")?,
        paused: row.try_get("paused")?,
        probe_at: row.try_get("probe_at")?,
        joined: row.try_get("joined")?,
    })
}

/// Whether the lane is still ours under this term; asked inside the transaction that writes.
pub(super) async fn is_ours(
    conn: &mut SqliteConnection,
    route: &str,
    boot: &str,
    term: i64,
) -> Result<bool, sqlx::Error> {
    let row: Option<i64> = sqlx::query_scalar(include_str!("../sql/fence.sql"))
        .bind(route)
        .bind(boot)
        .bind(term)
        .fetch_optional(conn)
        .await?;
    Ok(row.is_some() || faults::is(Old::Unfenced))
}

impl Shared {
    /// Takes the lane if it is still free, with the position its last owner wrote.
    pub(super) async fn acquire(&self, state: &mut State) -> Result<bool, StoreError> {
        let (route, boot, now) = (Arc::clone(&self.route), self.relay.boot.clone(), self.inner.now());
        let taken = self
            .inner
            .db
            .write("take", move |conn| Box::pin(async move { acquire(conn, &route, &boot, now).await }))
            .await?;
        let Some(owned) = taken else { return Ok(false) };
        self.own(state, owned);
        Ok(true)
    }

    /// Finds out whether a write whose answer was lost has happened, before anything builds on it.
    pub(super) async fn resolve(&self, state: &mut State) -> Result<(), StoreError> {
        let (Some(unsure), Some(owned)) = (&state.unsure, &mut state.owned) else { return Ok(()) };
        let route = Arc::clone(&self.route);
        let written: Option<i64> = self
            .inner
            .db
            .look("take", move |conn| {
                Box::pin(async move {
                    Ok(sqlx::query_scalar("select writes from postroom_checkpoint where route = ?1 and lane = 0")
                        .bind(&route.name)
                        .fetch_optional(conn)
                        .await?)
                })
            })
            .await?;
        // Another number than these two means another owner; the fence finds that.
        if written == Some(unsure.writes) {
            owned.position = unsure.clone();
            owned.unwritten_since = None;
        }
        state.unsure = None;
        state.idle = None;
        Ok(())
    }

    /// Writes the position and gives the lane up; a relay without lanes leaves.
    pub(super) async fn release(&self) -> Result<(), StoreError> {
        let mut state = Arc::clone(&self.state).lock_owned().await;
        self.resolve(&mut state).await?;
        let (route, boot) = (Arc::clone(&self.route), self.relay.boot.clone());
        let ours = state.owned.as_ref().map(|o| (o.term, o.position.clone(), o.unwritten_since.is_some()));
        self.inner
            .db
            .write("release", move |conn| {
                Box::pin(async move {
                    if let Some((term, mut position, unwritten)) = ours
                        && is_ours(conn, &route.name, &boot, term).await?
                    {
                        if unwritten {
                            position.save(conn, &route.name, 0, 0).await?;
                        }
                        sqlx::query("update postroom_lane set holder = null where route = ?1 and lane = 0")
                            .bind(&route.name)
                            .execute(&mut *conn)
                            .await?;
                    }
                    leave(conn, &route.name, &boot).await?;
                    Ok(())
                })
            })
            .await?;
        self.lose(&mut state);
        state.lost.clear();
        self.inner.wake.wake();
        Ok(())
    }
}

async fn acquire(
    conn: &mut SqliteConnection,
    definition: &RouteSpec,
    boot: &str,
    now: i64,
) -> Result<Option<Owned>, Fault> {
    let route = definition.name.as_str();
    let term: Option<i64> = sqlx::query_scalar(include_str!("../sql/acquire.sql"))
        .bind(route)
        .bind(boot)
        .bind(now)
        .fetch_optional(&mut *conn)
        .await?;
    let Some(term) = term else { return Ok(None) };
    let row = sqlx::query(
        "update postroom_checkpoint set term = ?2, writes = writes + 1 where route = ?1 and lane = 0 returning *",
    )
    .bind(route)
    .bind(term)
    .fetch_optional(&mut *conn)
    .await?;
    let Some(row) = row else { return Err(routes::no_checkpoint(route).into()) };
    let position = Checkpoint::read(&row)?;
    let registered = routes::need(conn, route, "take").await?;
    if !registered.agrees_with(definition) {
        return Err(routes::was_changed(route).into());
    }
    let halted = sequence_behind(conn, &position).await?;
    Ok(Some(Owned { term, position, unwritten_since: None, start_at: registered.start_at, halted }))
}

/// A restored or copied table may give numbers again that we have passed: those events would never be read.
async fn sequence_behind(conn: &mut SqliteConnection, position: &Checkpoint) -> Result<Option<String>, sqlx::Error> {
    let last: Option<i64> =
        sqlx::query_scalar("select seq from sqlite_sequence where name = 'postroom_log'").fetch_optional(conn).await?;
    let last = last.unwrap_or(0);
    Ok((last < position.hwm)
        .then(|| format!("sequence_behind: the log's last number is {last}, but {} was already read", position.hwm)))
}

/// Takes the route out of the relay's heartbeat, and the heartbeat away when the relay serves none any more.
async fn leave(conn: &mut SqliteConnection, route: &str, boot: &str) -> Result<(), sqlx::Error> {
    sqlx::query("update postroom_relay set routes = json_remove(routes, ?2) where source = '' and boot = ?1")
        .bind(boot)
        .bind(routes::path_of(route))
        .execute(&mut *conn)
        .await?;
    sqlx::query(
        "delete from postroom_relay where source = '' and boot = ?1 and routes = '{}' \
         and not exists (select 1 from postroom_lane where holder = ?1)",
    )
    .bind(boot)
    .execute(conn)
    .await
    .map(drop)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use postroom_admin::ManagedStore as _;
    use postroom_core::{
        Budget, Event, Receipt, RelayIdentity, RouteSpec, Settlement, Source, StartFrom, Store, Verdict,
    };

    use super::super::SqliteSource;
    use crate::store::SqliteStore;

    /// Settles one of two events, then makes memory what it was before and says that the answer was lost.
    async fn settled_without_an_answer(happened: bool) {
        let folder = tempfile::tempdir().unwrap();
        let store = SqliteStore::create(folder.path().join("shop.db")).await.unwrap();
        let relay =
            RelayIdentity { name: "r".into(), boot: "b".into(), version: "0".into(), lease: Duration::from_mins(1) };
        let route = RouteSpec { start: StartFrom::Beginning, ..RouteSpec::new("r") };
        store.source(&relay, &route).await.unwrap();
        let source = SqliteSource::new(store.inner.clone(), relay, route);
        store.admin().append(&[Event::new("t"), Event::new("t")]).await.unwrap();
        let budget = Budget { rows: 10, bytes: 1 << 20 };
        let taken = source.take(budget).await.unwrap().deliveries;
        let settlement = |n: usize| Settlement {
            handle: taken[n].handle,
            lane: taken[n].lane,
            verdict: Verdict::Delivered(Receipt::default()),
            took: Duration::ZERO,
        };
        let (before, out) = {
            let state = source.0.state.lock().await;
            (state.owned.as_ref().unwrap().position.clone(), state.out.clone())
        };
        let mut lost = before.clone();
        if happened {
            source.settle(&[settlement(0)]).await.unwrap();
            lost = source.0.state.lock().await.owned.as_ref().unwrap().position.clone();
        } else {
            lost.writes += 1;
            lost.delivered += 1;
        }
        {
            let mut state = source.0.state.lock().await;
            state.owned.as_mut().unwrap().position = before;
            state.out = out;
            state.unsure = Some(lost);
        }
        assert!(source.take(budget).await.unwrap().deliveries.is_empty(), "handed out what the engine still holds");
        for _ in 0..2 {
            source.settle(&[settlement(0)]).await.unwrap();
        }
        source.settle(&[settlement(1)]).await.unwrap();
        let verified = store.admin().verify().await.unwrap().remove(0);
        assert_eq!((verified.counts.seen, verified.counts.delivered, verified.unsettled), (2, 2, 0));
        assert!(verified.differences.is_empty(), "{verified:?}");
    }

    #[tokio::test]
    async fn a_settle_that_happened_without_an_answer_is_not_counted_again() {
        settled_without_an_answer(true).await;
    }

    #[tokio::test]
    async fn a_settle_that_did_not_happen_is_done_when_repeated() {
        settled_without_an_answer(false).await;
    }
}
