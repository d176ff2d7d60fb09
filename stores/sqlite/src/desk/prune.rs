//! Retention: deletes in small batches what is old enough and needed by nobody; never when the counts disagree.

use postroom_core::view::Pruned;
use postroom_core::{Ranges, Retention, StoreError, StoreErrorKind};
use sqlx::{Row, SqliteConnection};

use super::audit;
use crate::clock::span;
use crate::source::checkpoint::Checkpoint;
use crate::store::Inner;

/// Rows looked at or deleted per transaction: producers wait for no more than that.
const ROWS_AT_ONCE: u64 = 1_000;
const DAY: i64 = 86_400_000_000;

/// Failed tries of deliveries that are done.
const ATTEMPTS: Table = Table {
    count: "select count(*) from postroom_attempt a where a.at < ?1 \
            and not exists (select 1 from postroom_delivery d where d.handle = a.delivery)",
    delete: "delete from postroom_attempt where rowid in (select a.rowid from postroom_attempt a where a.at < ?1 \
             and not exists (select 1 from postroom_delivery d where d.handle = a.delivery) limit 1000)",
};
// These three grow at their end in order of time, so the oldest rows are the first ones.
const RECEIPTS: Table = Table {
    count: "select count(*) from postroom_receipt where at < ?1",
    delete: "delete from postroom_receipt where number in (select number from \
             (select number, at from postroom_receipt order by number limit 1000) where at < ?1)",
};
const INBOX: Table = Table {
    count: "select count(*) from postroom_inbox where accepted_at < ?1",
    delete: "delete from postroom_inbox where rowid in (select n from \
             (select rowid as n, accepted_at from postroom_inbox order by rowid limit 1000) where accepted_at < ?1)",
};
const APPEND_KEYS: Table = Table {
    count: "select count(*) from postroom_append_key where at < ?1",
    delete: "delete from postroom_append_key where rowid in (select n from \
             (select rowid as n, at from postroom_append_key order by rowid limit 1000) where at < ?1)",
};

struct Table {
    count: &'static str,
    delete: &'static str,
}

pub(super) async fn prune(inner: &Inner, retention: &Retention, dry_run: bool) -> Result<Pruned, StoreError> {
    check(inner).await?;
    let now = inner.now();
    let cut = |keep: Option<std::time::Duration>| keep.map(|keep| now.saturating_sub(span(keep)));
    let pruned = Pruned {
        events: events(inner, cut(retention.delivered), dry_run).await?,
        attempts: rows(inner, &ATTEMPTS, cut(retention.attempts), dry_run).await?,
        inbox: rows(inner, &INBOX, cut(retention.inbox), dry_run).await?,
        append_keys: rows(inner, &APPEND_KEYS, cut(retention.inbox), dry_run).await?,
        receipts: rows(inner, &RECEIPTS, cut(retention.attempts), dry_run).await?,
    };
    if !dry_run {
        yesterday(inner, now - DAY).await?;
    }
    Ok(pruned)
}

/// What does not add up must be looked at while everything is still there.
async fn check(inner: &Inner) -> Result<(), StoreError> {
    for row in audit::audit(inner).await? {
        if !row.differences.is_empty() {
            return Err(StoreError::new(
                StoreErrorKind::Conflict,
                "prune",
                format!("the counts of route {:?} do not agree: {}", row.route, row.differences.join("; ")),
            )
            .hint("nothing was deleted; `postroom audit` shows the counts"));
        }
    }
    Ok(())
}

async fn events(inner: &Inner, cut: Option<i64>, dry_run: bool) -> Result<u64, StoreError> {
    let Some(cut) = cut else { return Ok(0) };
    let (mut deleted, mut after) = (0, Some(0));
    while let Some(place) = after {
        let walked = if dry_run {
            inner.db.read("prune", move |conn| Box::pin(async move { Ok(walk(conn, place, cut).await?) })).await?
        } else {
            inner.db.write("prune", move |conn| Box::pin(async move { Ok(delete(conn, place, cut).await?) })).await?
        };
        deleted += walked.done.len() as u64;
        after = walked.next;
    }
    Ok(deleted)
}

/// One stretch of the log.
struct Walked {
    /// Numbers that nobody needs.
    done: Vec<i64>,
    /// Where the next stretch begins, if there is one.
    next: Option<i64>,
}

/// Finds what every route has passed and settled, what no delivery needs and what is old enough.
async fn walk(conn: &mut SqliteConnection, after: i64, cut: i64) -> Result<Walked, sqlx::Error> {
    let checkpoints = sqlx::query("select * from postroom_checkpoint").fetch_all(&mut *conn).await?;
    let positions = checkpoints.iter().map(Checkpoint::read).collect::<Result<Vec<_>, _>>()?;
    let last = positions.iter().map(|position| position.hwm).min().unwrap_or(i64::MAX);
    let unsettled: Vec<Ranges> = positions.into_iter().map(|position| position.unsettled).collect();
    let rows = sqlx::query(
        "select seq, appended_at, exists (select 1 from postroom_delivery d where d.seq = l.seq) as needed \
         from postroom_log l where seq > ?1 and seq <= ?2 order by seq limit ?3",
    )
    .bind(after)
    .bind(last)
    .bind(crate::events::signed(ROWS_AT_ONCE))
    .fetch_all(conn)
    .await?;
    let mut walked = Walked { done: Vec::new(), next: None };
    let mut young = 0;
    for row in &rows {
        let seq = row.try_get("seq")?;
        if row.try_get::<i64, _>("appended_at")? >= cut {
            young += 1;
        } else if !row.try_get::<bool, _>("needed")? && !unsettled.iter().any(|ranges| ranges.contains(seq)) {
            walked.done.push(seq);
        }
        walked.next = Some(seq);
    }
    // A single young row may be of a clock that ran ahead; a whole stretch of them is where the old ones end.
    if (rows.len() as u64) < ROWS_AT_ONCE || young == rows.len() {
        walked.next = None;
    }
    Ok(walked)
}

/// Deletes one stretch, and counts it as pruned in the same transaction, so that the audit still agrees.
async fn delete(conn: &mut SqliteConnection, after: i64, cut: i64) -> Result<Walked, sqlx::Error> {
    let walked = walk(conn, after, cut).await?;
    let deleted = sqlx::query("delete from postroom_log where seq in (select value from json_each(?1))")
        .bind(serde_json::json!(walked.done).to_string())
        .execute(&mut *conn)
        .await?
        .rows_affected();
    sqlx::query("update postroom_meta set value = value + ?1 where name = 'pruned'")
        .bind(crate::events::signed(deleted))
        .execute(conn)
        .await?;
    Ok(walked)
}

async fn rows(inner: &Inner, table: &'static Table, cut: Option<i64>, dry_run: bool) -> Result<u64, StoreError> {
    let Some(cut) = cut else { return Ok(0) };
    if dry_run {
        return inner
            .db
            .read("prune", move |conn| {
                Box::pin(async move {
                    Ok(crate::events::count(sqlx::query_scalar(table.count).bind(cut).fetch_one(conn).await?))
                })
            })
            .await;
    }
    let mut all = 0;
    loop {
        let deleted = inner
            .db
            .write("prune", move |conn| {
                Box::pin(async move { Ok(sqlx::query(table.delete).bind(cut).execute(conn).await?.rows_affected()) })
            })
            .await?;
        all += deleted;
        // Fewer than a full batch need not be the last: a row of a clock that ran ahead may stand among the oldest.
        if deleted == 0 {
            return Ok(all);
        }
    }
}

/// Sums of minutes and heartbeats of relays that have been gone for a day.
async fn yesterday(inner: &Inner, before: i64) -> Result<(), StoreError> {
    inner
        .db
        .write("prune", move |conn| {
            Box::pin(async move {
                sqlx::query("delete from postroom_stat where minute < ?1")
                    .bind(before / 60_000_000)
                    .execute(&mut *conn)
                    .await?;
                sqlx::query(
                    "delete from postroom_relay where alive_until < ?1 \
                     and not exists (select 1 from postroom_lane where holder = boot)",
                )
                .bind(before)
                .execute(conn)
                .await?;
                Ok(())
            })
        })
        .await
}
