//! Getting over a restore: the sequence, and transaction ids of another cluster.
//!
//! Positions and rows hold transaction ids, and ids of two clusters must never be compared. Accepting a cluster removes
//! every id of the former one that could be: from the positions, after what those transactions had committed is
//! delivered, and from rows whose id this cluster has yet to give out.

use std::collections::BTreeMap;

use postroom_core::Actor;
use postroom_core::view::{Accepted, Recovered, Repaired};
use sqlx::postgres::PgRow;
use sqlx::{Executor as _, Row as _};

use super::passed::{self, Behind};
use crate::admin;
use crate::clock::Time;
use crate::database::Session;
use crate::error::Fault;
use crate::identity::Identity;
use crate::routes::{self, Registered};
use crate::store::Inner;

/// Sets the sequence and those of identity columns to the greatest numbers that are known, where they are behind.
pub(super) async fn sequences(
    session: &mut Session,
    inner: &Inner,
    dry_run: bool,
    actor: &Actor,
) -> Result<Repaired, Fault> {
    let found = look(session, inner).await?;
    if dry_run || !(found.repaired || found.identities > 0) {
        return Ok(found);
    }
    // Nobody draws a number meanwhile: it would be one that another event has, or that routes have passed.
    session.conn.execute("set local lock_timeout = '10s'").await?;
    let lock = session.sql.query("lock table postroom.log in share row exclusive mode");
    lock.execute(&mut *session.conn).await?;
    // What another repair has done meanwhile, and what was appended since, must not be taken back.
    let found = look(session, inner).await?;
    // First those of identity columns: what is recorded below draws one.
    for (sequence, greatest) in identities(session).await? {
        let set = session.sql.query("select setval($1::text::regclass, $2)").bind(sequence).bind(greatest);
        set.execute(&mut *session.conn).await?;
    }
    if !(found.repaired || found.identities > 0) {
        return Ok(found);
    }
    let mut subject = format!("{} identity sequences", found.identities);
    if found.repaired {
        let set = session.sql.query("select setval('postroom.log_seq', $1)").bind(found.greatest);
        set.execute(&mut *session.conn).await?;
        subject = format!("sequence from {} to {}", found.last_number, found.greatest);
    }
    let now = inner.now(session).await?;
    admin::record(session, actor, "store.repair", &subject, 1, now).await?;
    Ok(found)
}

/// Delivers what routes have passed without seeing it. `sequence` is what was found before the sequences were set.
pub(super) async fn recover(
    session: &mut Session,
    inner: &Inner,
    sequence: &Repaired,
    dry_run: bool,
    actor: &Actor,
) -> Result<Recovered, Fault> {
    let behind = behind(sequence, false);
    let found = passed::look(session, behind).await?;
    if dry_run || found == Recovered::default() {
        return Ok(found);
    }
    passed::seize(session, inner).await?;
    let found = passed::recover(session, inner, behind).await?;
    let now = inner.now(session).await?;
    let Recovered { renumbered, parked, again, unwanted, missing } = found;
    let subject =
        format!("{renumbered} renumbered, {parked} parked, {again} again, {unwanted} unwanted, {missing} missing");
    admin::record(session, actor, "store.recover", &subject, renumbered + parked, now).await?;
    Ok(found)
}

fn behind(sequence: &Repaired, moved_here: bool) -> Option<Behind> {
    sequence.repaired.then_some(Behind { last: sequence.last_number, moved_here })
}

/// Sequences of identity columns that are behind, and the number each must have given out.
async fn identities(session: &mut Session) -> Result<Vec<(String, i64)>, Fault> {
    let query = session.sql.query(include_str!("../sql/maintenance/identities.sql"));
    let rows = query.fetch_all(&mut *session.conn).await?;
    Ok(rows.iter().map(|row| Ok((row.try_get(0)?, row.try_get(1)?))).collect::<Result<_, sqlx::Error>>()?)
}

/// Where the sequences stand, and where they must.
async fn look(session: &mut Session, inner: &Inner) -> Result<Repaired, Fault> {
    let identities = identities(session).await?.len() as u64;
    Ok(Repaired { identities, ..numbers(session, inner).await? })
}

/// Where the sequence of the log stands, and where it must.
pub(super) async fn numbers(session: &mut Session, inner: &Inner) -> Result<Repaired, Fault> {
    let query = session.sql.query(include_str!("../sql/maintenance/sequence.sql"));
    let row = query.fetch_one(&mut *session.conn).await?;
    let (last_number, greatest): (i64, i64) = (row.try_get("last_number")?, row.try_get("greatest")?);
    let repaired = last_number < greatest;
    Ok(Repaired { store: inner.name.clone(), last_number, greatest, repaired, ..Repaired::default() })
}

/// Whether the tables were made on another cluster than this, or in another database.
pub(super) async fn is_other_cluster(session: &mut Session) -> Result<bool, Fault> {
    Ok(Identity::read(session).await?.is_other())
}

/// Forgets transaction ids of the former cluster that this one has yet to give out, or has just given out: one day a
/// reader would take the event for that transaction's. Rows that are visible now need no id any more. Served by the
/// partitions' BRIN on tx.
const CLEAR_IDS: &str =
    "update postroom.log set tx = 0 where tx >= pg_snapshot_xmin(pg_current_snapshot())::text::int8";

/// Makes this cluster the one the tables live on. `sequence` is what was found before the sequences were set.
pub(super) async fn accept(
    session: &mut Session,
    inner: &Inner,
    sequence: Repaired,
    dry_run: bool,
    actor: &Actor,
) -> Result<Accepted, Fault> {
    let identity = Identity::read(session).await?;
    let mut accepted = Accepted {
        store: inner.name.clone(),
        from: identity.from(),
        to: identity.to(),
        other_cluster: identity.is_other(),
        accepted: identity.is_other() || identity.is_other_timeline() || identity.unknown_server().is_some(),
        sequence,
        ..Accepted::default()
    };
    if !accepted.accepted {
        return Ok(accepted);
    }
    session.conn.execute("savepoint before").await?;
    if accepted.other_cluster {
        take_over(session, inner, &mut accepted).await?;
        let behind = behind(&accepted.sequence, true);
        accepted.passed = passed::look(session, behind).await?;
        let clear = session.sql.query(CLEAR_IDS);
        accepted.cleared = clear.execute(&mut *session.conn).await?.rows_affected();
        if !dry_run {
            // After ids were cleared: what gets a new number here is of this transaction, and found by its id.
            passed::recover(session, inner, behind).await?;
        }
    }
    for (name, value) in identity.here() {
        let set = session.sql.query("update postroom.meta set value = $2 where name = $1").bind(name).bind(value);
        set.execute(&mut *session.conn).await?;
    }
    let now = inner.now(session).await?;
    let subject = format!("from {} to {}", accepted.from, accepted.to);
    admin::record(session, actor, "store.accept_identity", &subject, accepted.lanes, now).await?;
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
    /// Settled at once: not wanted, or parked until their time.
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
            .query(include_str!("../sql/maintenance/take_over.sql"))
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

/// Parks an event until its time.
const DELAY: &str = "
    insert into postroom.delivery (route, lane, seq, key, state, due, since)
    values ($1, $2, $3, $4, 'delayed', $5, $6)
    on conflict do nothing";

/// What every lane has not seen; those for later are parked here.
async fn unseen(session: &mut Session, inner: &Inner) -> Result<BTreeMap<(String, i16), Unseen>, Fault> {
    let now = inner.now(session).await?;
    let registered: BTreeMap<String, Registered> =
        routes::all(session).await?.into_iter().map(|route| (route.name.clone(), route)).collect();
    let rows = session.sql.query(include_str!("../sql/maintenance/unseen.sql")).fetch_all(&mut *session.conn).await?;
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
                .query(DELAY)
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
pub(super) fn wanted(row: &PgRow, route: Option<&Registered>) -> Result<bool, sqlx::Error> {
    let Some(route) = route else { return Ok(false) };
    let before = route.start_at.is_some_and(|start| row.try_get::<Time, _>("appended_at").is_ok_and(|at| at.0 < start));
    let (event_type, aggregate_type, tenant): (String, Option<String>, Option<String>) =
        (row.try_get("type")?, row.try_get("aggregate_type")?, row.try_get("tenant")?);
    Ok(!before && route.filter.matches_parts(&event_type, aggregate_type.as_deref(), tenant.as_deref()))
}
