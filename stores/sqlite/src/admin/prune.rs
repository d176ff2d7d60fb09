//! Retention: deletes in small batches what is old enough and needed by nobody; never when the counts disagree.

use postroom_core::view::Pruned;
use postroom_core::{Ranges, Retention, StoreError, StoreErrorKind};
use sqlx::{Row, SqliteConnection};

use super::verify;
use crate::clock::span;
use crate::source::checkpoint::Checkpoint;
use crate::store::Inner;

/// Rows looked at or deleted per transaction: producers wait for no more than that.
const ROWS_AT_ONCE: u64 = 1_000;
const DAY: i64 = 86_400_000_000;

/// A table that grows at its end in order of time, so that its oldest rows are its first ones.
struct Table {
    name: &'static str,
    time: &'static str,
    /// What else a row must be to go.
    done: &'static str,
}

/// Failed tries; those of deliveries that are not done stay.
const ATTEMPTS: Table = Table {
    name: "postroom_attempt",
    time: "at",
    done: "not exists (select 1 from postroom_delivery d where d.handle = t.delivery)",
};
const RECEIPTS: Table = Table { name: "postroom_receipt", time: "at", done: "true" };
const INBOX: Table = Table { name: "postroom_inbox", time: "accepted_at", done: "true" };
const APPEND_KEYS: Table = Table { name: "postroom_append_key", time: "at", done: "true" };

pub(super) async fn prune(inner: &Inner, retention: &Retention, dry_run: bool) -> Result<Pruned, StoreError> {
    let now = inner.now();
    let cut = |keep: Option<std::time::Duration>| keep.map(|keep| now.saturating_sub(span(keep)));
    let mut work = PruneRun { inner, dry_run, checked: false };
    if dry_run {
        work.check().await?;
    }
    let pruned = Pruned {
        events: work.events(cut(retention.delivered)).await?,
        attempts: work.rows(&ATTEMPTS, cut(retention.attempts)).await?,
        inbox: work.rows(&INBOX, cut(retention.inbox)).await?,
        append_keys: work.rows(&APPEND_KEYS, cut(retention.inbox)).await?,
        receipts: work.rows(&RECEIPTS, cut(retention.attempts)).await?,
    };
    if !dry_run {
        yesterday(inner, now - DAY).await?;
        if let Some(cut) = cut(retention.attempts) {
            replays(inner, cut).await?;
        }
    }
    Ok(pruned)
}

/// One run. Looks without a lock, and takes one only where there is something to delete.
struct PruneRun<'w> {
    inner: &'w Inner,
    dry_run: bool,
    checked: bool,
}

impl PruneRun<'_> {
    /// What does not add up must be looked at while everything is still there. Counting walks the whole log, so it is
    /// done once there is something to delete, not every minute.
    async fn check(&mut self) -> Result<(), StoreError> {
        if self.checked {
            return Ok(());
        }
        for row in verify::verify(self.inner).await? {
            if !row.differences.is_empty() {
                return Err(StoreError::new(
                    StoreErrorKind::Conflict,
                    "prune",
                    format!("the counts of route {:?} do not agree: {}", row.route, row.differences.join("; ")),
                )
                .hint("nothing was deleted; `postroom verify` shows the counts"));
            }
        }
        self.checked = true;
        Ok(())
    }

    async fn events(&mut self, cut: Option<i64>) -> Result<u64, StoreError> {
        let Some(cut) = cut else { return Ok(0) };
        let (db, times) = (&self.inner.db, (cut, self.inner.now()));
        let (mut deleted, mut after) = (0, Some(0));
        while let Some(place) = after {
            let mut walked =
                db.read("prune", move |conn| Box::pin(async move { Ok(walk(conn, place, times).await?) })).await?;
            if !walked.done.is_empty() && !self.dry_run {
                self.check().await?;
                walked = db
                    .write("prune", move |conn| Box::pin(async move { Ok(delete(conn, place, times).await?) }))
                    .await?;
            }
            deleted += walked.done.len() as u64;
            after = walked.next;
        }
        Ok(deleted)
    }

    async fn rows(&mut self, table: &'static Table, cut: Option<i64>) -> Result<u64, StoreError> {
        let Some(cut) = cut else { return Ok(0) };
        let (db, times) = (&self.inner.db, (cut, self.inner.now()));
        let (mut deleted, mut after) = (0, Some(0));
        while let Some(place) = after {
            let found = db
                .read("prune", move |conn| Box::pin(async move { Ok(stretch(conn, table, place, times).await?) }))
                .await?;
            if found.done > 0 && self.dry_run {
                deleted += found.done;
            } else if found.done > 0 {
                self.check().await?;
                let last = found.last;
                deleted += db
                    .write("prune", move |conn| {
                        Box::pin(async move { Ok(delete_rows(conn, table, (place, last), cut).await?) })
                    })
                    .await?;
            }
            after = found.more.then_some(found.last);
        }
        Ok(deleted)
    }
}

/// One stretch of the log.
struct Walked {
    /// Numbers that nobody needs.
    done: Vec<i64>,
    /// Where the next stretch begins, if there is one.
    next: Option<i64>,
}

/// Finds what every route has passed and settled, what no delivery needs and what is old enough.
async fn walk(conn: &mut SqliteConnection, after: i64, (cut, now): (i64, i64)) -> Result<Walked, sqlx::Error> {
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
    let (mut young, mut ahead) = (0, 0);
    for row in &rows {
        let seq = row.try_get("seq")?;
        let appended_at = row.try_get::<i64, _>("appended_at")?;
        if appended_at > now {
            ahead += 1;
        } else if appended_at >= cut {
            young += 1;
        } else if !row.try_get::<bool, _>("needed")? && !unsettled.iter().any(|ranges| ranges.contains(seq)) {
            walked.done.push(seq);
        }
        walked.next = Some(seq);
    }
    // A single young row may be of a clock that ran ahead; a whole stretch of them is where the old ones end. Rows that lie ahead of
    // the clock of now say nothing about those behind them.
    if (rows.len() as u64) < ROWS_AT_ONCE || young > 0 && young + ahead == rows.len() {
        walked.next = None;
    }
    Ok(walked)
}

/// Deletes one stretch, and counts it as pruned in the same transaction, so that the verification still agrees.
async fn delete(conn: &mut SqliteConnection, after: i64, times: (i64, i64)) -> Result<Walked, sqlx::Error> {
    let walked = walk(conn, after, times).await?;
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

/// One stretch of another table.
struct TablePage {
    /// How many of its rows may go.
    done: u64,
    last: i64,
    more: bool,
}

/// Looks at the next rows of a table, by rowid.
async fn stretch(
    conn: &mut SqliteConnection,
    table: &Table,
    after: i64,
    (cut, now): (i64, i64),
) -> Result<TablePage, sqlx::Error> {
    let Table { name, time, done } = table;
    let sql = format!(
        "select count(*) as looked, coalesce(max(n), 0) as last, coalesce(sum({time} < ?1), 0) as old, \
         coalesce(sum({time} between ?1 and ?4), 0) as young, \
         coalesce(sum({time} < ?1 and {done}), 0) as done \
         from (select rowid as n, * from {name} where rowid > ?2 order by rowid limit ?3) t"
    );
    let row = sqlx::query(sqlx::AssertSqlSafe(sql))
        .bind(cut)
        .bind(after)
        .bind(crate::events::signed(ROWS_AT_ONCE))
        .bind(now)
        .fetch_one(conn)
        .await?;
    let number = |column| row.try_get(column).map(crate::events::count);
    // As with events: where a whole stretch is young, the old ones end.
    let more = number("looked")? == ROWS_AT_ONCE && (number("old")? > 0 || number("young")? == 0);
    Ok(TablePage { done: number("done")?, last: row.try_get("last")?, more })
}

/// Deletes what may go of a stretch, which is a range of the table's primary key.
async fn delete_rows(
    conn: &mut SqliteConnection,
    table: &Table,
    (after, last): (i64, i64),
    cut: i64,
) -> Result<u64, sqlx::Error> {
    let Table { name, time, done } = table;
    let sql = format!("delete from {name} as t where t.rowid > ?2 and t.rowid <= ?3 and t.{time} < ?1 and {done}");
    let deleted = sqlx::query(sqlx::AssertSqlSafe(sql)).bind(cut).bind(after).bind(last).execute(conn).await?;
    Ok(deleted.rows_affected())
}

/// Sums of minutes and heartbeats of relays that have been gone for a day.
async fn yesterday(inner: &Inner, before: i64) -> Result<(), StoreError> {
    inner
        .db
        .write("prune", move |conn| {
            Box::pin(async move {
                sqlx::query("delete from postroom_stat where source = '' and minute < ?1")
                    .bind(before)
                    .execute(&mut *conn)
                    .await?;
                sqlx::query(
                    "delete from postroom_relay where source = '' and alive_until < ?1 \
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

/// Replays that have ended, which are few.
async fn replays(inner: &Inner, before: i64) -> Result<(), StoreError> {
    inner
        .db
        .write("prune", move |conn| {
            Box::pin(async move {
                sqlx::query("delete from postroom_replay where source = '' and ended_at < ?1")
                    .bind(before)
                    .execute(conn)
                    .await?;
                Ok(())
            })
        })
        .await
}
