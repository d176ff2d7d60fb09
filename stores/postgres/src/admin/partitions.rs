//! Space comes back a partition at a time: a partition is truncated once all its rows are old and nobody needs them.
//!
//! What takes long is done before the partition is locked; under the lock only what may have changed since is looked at. A
//! partition that cannot be locked at once is left for the next time: nobody waits for retention.

use std::sync::Arc;

use postroom_core::{StoreError, StoreErrorKind};
use sqlx::{AssertSqlSafe, Row as _};

use super::prune::alone;
use super::verify;
use crate::clock::Time;
use crate::database::Session;
use crate::error::{Fault, state_of};
use crate::events::count;
use crate::schema::Partitioning;
use crate::store::Inner;

/// Partitions whose last turn ended before `cut`: neither the one that takes events now nor the next one.
fn old(partitioning: Partitioning, now: i64, cut: i64) -> impl Iterator<Item = i16> {
    let (turn, partitions) =
        (now.div_euclid(1_000_000).div_euclid(partitioning.segment), i64::from(partitioning.partitions));
    (1..partitions - 1)
        .filter(move |ago| (turn - ago + 1) * partitioning.segment <= cut.div_euclid(1_000_000))
        .filter_map(move |ago| i16::try_from((turn - ago).rem_euclid(partitions)).ok())
}

/// A partition that may go.
struct Ready {
    partition: i16,
    /// When it was counted.
    snapshot: String,
    lanes: Vec<i16>,
    rows: Vec<i64>,
    needed: u64,
}

impl Ready {
    fn all(&self) -> u64 {
        count(self.rows.iter().sum())
    }
}

/// Truncates partitions of the log that are older than `cut`; returns how many events are gone for good.
pub(super) async fn log(inner: &Arc<Inner>, now: i64, cut: i64, dry_run: bool) -> Result<u64, StoreError> {
    let (mut gone, mut checked) = (0, false);
    for partition in old(*inner.partitioning, now, cut) {
        let ready = inner
            .db
            .write_long("prune", move |session| Box::pin(async move { Ok(look(session, partition, cut).await?) }))
            .await?;
        let Some(ready) = ready else { continue };
        // Counting walks the whole log, so it is done once there is something to truncate, not every time.
        if !checked {
            check(inner).await?;
            checked = true;
        }
        if dry_run {
            gone += ready.all().saturating_sub(ready.needed);
            continue;
        }
        let shared = Arc::clone(inner);
        gone += inner
            .db
            .write_long("prune", move |session| Box::pin(async move { truncate(session, &shared, &ready).await }))
            .await?;
    }
    Ok(gone)
}

/// What does not add up must be looked at while everything is still there.
async fn check(inner: &Inner) -> Result<(), StoreError> {
    let rows = verify::verify(inner).await?;
    let Some(row) = rows.iter().find(|row| !row.differences.is_empty()) else { return Ok(()) };
    let (route, lane, differences) = (&row.route, row.lane, row.differences.join("; "));
    let message = format!("the counts of route {route:?}, lane {lane}, do not agree: {differences}");
    Err(StoreError::new(StoreErrorKind::Conflict, "prune", message)
        .hint("no event was removed; `postroom verify` shows the counts"))
}

/// A text as it reads for a partition.
fn of_partition(session: &Session, text: &str, partition: i16) -> Arc<str> {
    session.sql.made(&text.replace("{partition}", &partition.to_string())).into()
}

async fn run(session: &mut Session, text: &str) -> Result<(), sqlx::Error> {
    let text = session.sql.made(text);
    sqlx::raw_sql(AssertSqlSafe(text)).execute(&mut *session.conn).await.map(drop)
}

/// Whether a partition has rows, all older than `cut`, that every route has passed.
async fn look(session: &mut Session, partition: i16, cut: i64) -> Result<Option<Ready>, sqlx::Error> {
    let any = of_partition(session, "select exists (select from postroom.log_{partition})", partition);
    let any = session.sql.query_made(any).fetch_one(&mut *session.conn).await?;
    if !any.try_get::<bool, _>(0)? || is_held(session, partition).await? {
        return Ok(None);
    }
    let text = of_partition(session, include_str!("../sql/partition.sql"), partition);
    let row = session.sql.query_made(text).bind(Time(cut)).fetch_one(&mut *session.conn).await?;
    let ready = Ready {
        partition,
        snapshot: row.try_get("snap")?,
        lanes: row.try_get("lanes")?,
        rows: row.try_get("rows")?,
        needed: count(row.try_get("needed")?),
    };
    Ok((!row.try_get::<bool, _>("young")?).then_some(ready))
}

async fn is_held(session: &mut Session, partition: i16) -> Result<bool, sqlx::Error> {
    let text = of_partition(session, include_str!("../sql/partition_held.sql"), partition);
    session.sql.query_made(text).fetch_one(&mut *session.conn).await?.try_get(0)
}

/// Truncates a partition of the log, if it still may go; returns how many events are gone for good.
async fn truncate(session: &mut Session, inner: &Inner, ready: &Ready) -> Result<u64, Fault> {
    if !alone(session).await? {
        return Ok(0);
    }
    // Who registers a route waits: it must not rest on rows that are about to go.
    run(session, "select from postroom.truncated order by lane for update").await?;
    run(session, "savepoint partition").await?;
    let partition = ready.partition;
    let mut kept = evacuate(session, partition).await?;
    if !lock(session, &format!("postroom.log_{partition}")).await? {
        return Ok(0);
    }
    // Whoever wrote to it has ended by now; what they committed since it was counted was not looked at. And another relay may have
    // counted the same rows and truncated them: they must not be added twice.
    let late = of_partition(session, include_str!("../sql/partition_late.sql"), partition);
    let late = session.sql.query_made(late).bind(ready.snapshot.clone()).fetch_one(&mut *session.conn).await?;
    if late.try_get(0)? || is_held(session, partition).await? {
        run(session, "rollback to savepoint partition").await?;
        return Ok(0);
    }
    kept += evacuate(session, partition).await?;
    let add = session.sql.query(
        "update postroom.truncated t set rows = t.rows + n.rows \
         from unnest($1::int2[], $2::int8[]) as n(lane, rows) where t.lane = n.lane",
    );
    add.bind(ready.lanes.clone()).bind(ready.rows.clone()).execute(&mut *session.conn).await?;
    run(session, &format!("truncate postroom.log_{partition}")).await?;
    tracing::info!(store = inner.name, partition, events = ready.all(), kept, "partition truncated");
    Ok(ready.all().saturating_sub(kept))
}

async fn evacuate(session: &mut Session, partition: i16) -> Result<u64, sqlx::Error> {
    let text = of_partition(session, include_str!("../sql/evacuate.sql"), partition);
    Ok(session.sql.query_made(text).execute(&mut *session.conn).await?.rows_affected())
}

/// Locks a partition against everybody, if that can be had at once; else everything since the savepoint is undone.
async fn lock(session: &mut Session, table: &str) -> Result<bool, sqlx::Error> {
    run(session, "set local lock_timeout = '50ms'").await?;
    match run(session, &format!("lock table {table} in access exclusive mode")).await {
        Err(error) if state_of(&error).as_deref() == Some("55P03") => {
            run(session, "rollback to savepoint partition").await?;
            Ok(false)
        }
        locked => locked.map(|()| true),
    }
}

/// Truncates partitions of receipts that are older than `cut`; returns how many rows those were.
pub(super) async fn receipts(inner: &Arc<Inner>, now: i64, cut: i64, dry_run: bool) -> Result<u64, StoreError> {
    let mut gone = 0;
    for partition in old(*inner.partitioning, now, cut) {
        gone += inner
            .db
            .write_long("prune", move |session| {
                Box::pin(async move { truncate_receipts(session, partition, cut, dry_run).await })
            })
            .await?;
    }
    Ok(gone)
}

async fn truncate_receipts(session: &mut Session, partition: i16, cut: i64, dry_run: bool) -> Result<u64, Fault> {
    let text = "select count(*), coalesce(bool_or(at >= $1), false) from postroom.receipt_{partition}";
    let text = of_partition(session, text, partition);
    let look = session.sql.query_made(Arc::clone(&text)).bind(Time(cut)).fetch_one(&mut *session.conn).await?;
    let (rows, young): (i64, bool) = (look.try_get(0)?, look.try_get(1)?);
    if dry_run || rows == 0 || young {
        return Ok(if young { 0 } else { count(rows) });
    }
    run(session, "savepoint partition").await?;
    if !alone(session).await? || !lock(session, &format!("postroom.receipt_{partition}")).await? {
        return Ok(0);
    }
    let look = session.sql.query_made(text).bind(Time(cut)).fetch_one(&mut *session.conn).await?;
    if look.try_get(1)? {
        return Ok(0);
    }
    run(session, &format!("truncate postroom.receipt_{partition}")).await?;
    Ok(count(look.try_get(0)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_partition_is_old_when_its_turn_ended_before_the_cut_and_it_is_neither_current_nor_next() {
        let partitioning = Partitioning { lanes: 1, partitions: 5, segment: 100 };
        let second = 1_000_000;
        let at = |now: i64, cut: i64| old(partitioning, now * second, cut * second).collect::<Vec<_>>();
        assert_eq!(at(1250, 1250), [1, 0, 4], "2 is current, 3 is next");
        assert_eq!(at(1250, 1199), [0, 4]);
        assert_eq!(at(1250, 1100), [0, 4]);
        assert_eq!(at(1250, 999), Vec::<i16>::new());
    }

    #[test]
    fn what_is_kept_for_as_long_as_the_partitions_have_room_is_never_old_and_what_is_kept_for_less_is() {
        let partitioning = Partitioning { lanes: 1, partitions: 5, segment: 100 };
        let second = 1_000_000;
        let ever = |keep: i64| {
            (1_000..1_100).any(|now| old(partitioning, now * second, (now - keep) * second).next().is_some())
        };
        assert!(ever(299));
        assert!(!ever(300), "which is why (partitions - 2) × segment is refused");
    }
}
