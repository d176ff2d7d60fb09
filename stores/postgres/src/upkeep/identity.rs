//! Getting over a restore: the sequence, and transaction ids of another cluster.
//!
//! Positions and rows hold transaction ids, and ids of two clusters must never be compared. Accepting a cluster removes
//! every id of the former one that could be: from the positions, after what those transactions had committed is
//! delivered, and from rows whose id this cluster has yet to give out.

use std::collections::BTreeMap;

use postroom_core::Actor;
use postroom_core::view::{Accepted, Repaired};
use sqlx::postgres::PgRow;
use sqlx::{Executor as _, Row as _};

use crate::clock::Time;
use crate::database::Session;
use crate::desk::actions::{self, Action};
use crate::error::Fault;
use crate::routes::{self, Registered};
use crate::store::Inner;

/// Sets the sequence to the greatest number that is known, if it is behind.
pub(super) async fn repair(
    session: &mut Session,
    inner: &Inner,
    dry_run: bool,
    actor: &Actor,
) -> Result<Repaired, Fault> {
    let found = look(session, inner).await?;
    if dry_run || !found.repaired {
        return Ok(found);
    }
    // Nobody draws a number meanwhile: it would be one that another event has, or that routes have passed.
    session.conn.execute("set local lock_timeout = '10s'").await?;
    let lock = session.sql.query("lock table postroom.log in share row exclusive mode");
    lock.execute(&mut *session.conn).await?;
    // What another repair has done meanwhile, and what was appended since, must not be taken back.
    let found = look(session, inner).await?;
    if !found.repaired {
        return Ok(found);
    }
    let set = session.sql.query("select setval('postroom.log_seq', $1)").bind(found.greatest);
    set.execute(&mut *session.conn).await?;
    let now = inner.now(session).await?;
    let subject = format!("sequence from {} to {}", found.last_number, found.greatest);
    actions::record(session, &Action::of(actor, "store.repair"), &subject, 1, now).await?;
    Ok(found)
}

/// Where the sequence stands, and where it must.
pub(super) async fn look(session: &mut Session, inner: &Inner) -> Result<Repaired, Fault> {
    let query = session.sql.query(include_str!("../sql/upkeep/sequence.sql"));
    let row = query.fetch_one(&mut *session.conn).await?;
    let (last_number, greatest): (i64, i64) = (row.try_get("last_number")?, row.try_get("greatest")?);
    Ok(Repaired { store: inner.name.clone(), last_number, greatest, repaired: last_number < greatest })
}

/// Makes this cluster the one the tables live on.
pub(super) async fn accept(
    session: &mut Session,
    inner: &Inner,
    dry_run: bool,
    actor: &Actor,
) -> Result<Accepted, Fault> {
    let query = session.sql.query(include_str!("../sql/identity.sql"));
    let row = query.fetch_one(&mut *session.conn).await?;
    let text = |column: &str| row.try_get::<String, _>(column);
    let (made_for, here) = (text("made_for")?, text("system_identifier")?);
    let (known, timeline) = (text("known_timeline")?, text("timeline")?);
    let mut accepted = Accepted {
        store: inner.name.clone(),
        from: format!("{made_for}/{known}"),
        to: format!("{here}/{timeline}"),
        other_cluster: made_for != here,
        accepted: made_for != here || known != timeline,
        sequence: look(session, inner).await?,
        ..Accepted::default()
    };
    if !accepted.accepted {
        return Ok(accepted);
    }
    session.conn.execute("savepoint before").await?;
    if accepted.other_cluster {
        take_over(session, inner, &mut accepted).await?;
        let clear = session.sql.query(include_str!("../sql/upkeep/clear_ids.sql"));
        accepted.cleared = clear.execute(&mut *session.conn).await?.rows_affected();
        accepted.sequence = repair(session, inner, dry_run, actor).await?;
    }
    for (name, value) in [("system_identifier", here), ("timeline", timeline)] {
        let set = session.sql.query("update postroom.meta set value = $2 where name = $1").bind(name).bind(value);
        set.execute(&mut *session.conn).await?;
    }
    let now = inner.now(session).await?;
    let subject = format!("from {} to {}", accepted.from, accepted.to);
    actions::record(session, &Action::of(actor, "store.accept_identity"), &subject, accepted.lanes, now).await?;
    if dry_run {
        // What it would do is what it did, undone.
        session.conn.execute("rollback to savepoint before").await?;
    }
    Ok(accepted)
}

/// Events of one lane that it has not seen, though it has passed their numbers.
#[derive(Debug, Default)]
struct Unseen {
    unsettled: Vec<i64>,
    /// Settled at once: not wanted, or put aside until their time.
    settled: Vec<i64>,
    filtered: i64,
    delayed: i64,
}

async fn take_over(session: &mut Session, inner: &Inner, accepted: &mut Accepted) -> Result<(), Fault> {
    let lanes = session.sql.query("select route, lane from postroom.lane order by route, lane for update");
    let lanes = lanes.fetch_all(&mut *session.conn).await?;
    let mut unseen = unseen(session, inner).await?;
    for row in &lanes {
        let lane: (String, i16) = (row.try_get("route")?, row.try_get("lane")?);
        let found = unseen.remove(&lane).unwrap_or_default();
        accepted.recovered += (found.unsettled.len() as u64) + found.delayed.unsigned_abs();
        let written = session
            .sql
            .query(include_str!("../sql/upkeep/take_over.sql"))
            .bind(lane.0.clone())
            .bind(lane.1)
            .bind(found.unsettled)
            .bind(found.settled)
            .bind(found.filtered)
            .bind(found.delayed)
            .bind(inner.clock())
            .execute(&mut *session.conn)
            .await?
            .rows_affected();
        if written != 1 {
            return Err(routes::no_checkpoint(&lane.0).into());
        }
        accepted.lanes += 1;
    }
    Ok(())
}

/// What every lane has not seen; those for later are put aside here.
async fn unseen(session: &mut Session, inner: &Inner) -> Result<BTreeMap<(String, i16), Unseen>, Fault> {
    let now = inner.now(session).await?;
    let registered: BTreeMap<String, Registered> =
        routes::all(session).await?.into_iter().map(|route| (route.name.clone(), route)).collect();
    let rows = session.sql.query(include_str!("../sql/upkeep/unseen.sql")).fetch_all(&mut *session.conn).await?;
    let mut unseen: BTreeMap<(String, i16), Unseen> = BTreeMap::new();
    for row in &rows {
        let (route, lane, seq): (String, i16, i64) = (row.try_get("route")?, row.try_get("lane")?, row.try_get("seq")?);
        let due = row.try_get::<Option<Time>, _>("available_at")?.filter(|at| at.0 > now);
        let of = unseen.entry((route.clone(), lane)).or_default();
        if !wanted(row, registered.get(&route))? {
            of.settled.push(seq);
            of.filtered += 1;
        } else if let Some(due) = due {
            of.settled.push(seq);
            of.delayed += 1;
            session
                .sql
                .query(include_str!("../sql/upkeep/delay.sql"))
                .bind(route)
                .bind(lane)
                .bind(seq)
                .bind(row.try_get::<Option<String>, _>("key")?)
                .bind(due)
                .bind(Time(now))
                .execute(&mut *session.conn)
                .await?;
        } else {
            of.unsettled.push(seq);
        }
    }
    Ok(unseen)
}

/// Whether the route wants the event.
fn wanted(row: &PgRow, route: Option<&Registered>) -> Result<bool, sqlx::Error> {
    let Some(route) = route else { return Ok(false) };
    let before = route.start_at.is_some_and(|start| row.try_get::<Time, _>("appended_at").is_ok_and(|at| at.0 < start));
    let (event_type, aggregate_type, tenant): (String, Option<String>, Option<String>) =
        (row.try_get("type")?, row.try_get("aggregate_type")?, row.try_get("tenant")?);
    Ok(!before && route.filter.matches_parts(&event_type, aggregate_type.as_deref(), tenant.as_deref()))
}
