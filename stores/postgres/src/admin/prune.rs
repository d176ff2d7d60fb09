//! Retention: what is old and needed by nobody goes, in steps that each hold little for a short time; one at a time.

use std::sync::Arc;
use std::time::Duration;

use postroom_core::view::Pruned;
use postroom_core::{Retention, StoreError, StoreErrorKind};
use sqlx::Row as _;

use super::{minutes, partitions};
use crate::clock::{Time, span};
use crate::database::Session;
use crate::error::Fault;
use crate::events::count;
use crate::store::Inner;

const MINUTE: i64 = 60_000_000;
const DAY: i64 = 86_400_000_000;

/// A table of which old rows are deleted.
struct Table {
    name: &'static str,
    /// Which rows may go, of those called `t`; $1 is the time before which they are old.
    done: &'static str,
}

/// Failed tries; those of deliveries that are not done stay.
const ATTEMPTS: Table = Table {
    name: "attempt",
    done: "t.at < $1 and not exists (select from postroom.delivery d where d.handle = t.delivery)",
};
const INBOX: Table = Table { name: "inbox", done: "t.accepted_at < $1" };
/// Those that have ended, which are few.
const REPLAYS: Table = Table { name: "replay", done: "t.ended_at < $1" };
const APPEND_KEYS: Table = Table { name: "append_key", done: "t.at < $1" };
/// Old when they were evacuated, and kept for a delivery only.
const EVACUATED: Table = Table {
    name: "evacuated",
    done: "t.appended_at < $1 and not exists (select from postroom.delivery d where d.seq = t.seq)",
};

pub(super) async fn prune(inner: &Arc<Inner>, retention: &Retention, dry_run: bool) -> Result<Pruned, StoreError> {
    let shared = Arc::clone(inner);
    let now = inner.db.read("prune", move |session| Box::pin(async move { Ok(shared.now(session).await?) })).await?;
    let cut = |keep: Option<Duration>| keep.map(|keep| now.saturating_sub(span(keep)));
    if !dry_run {
        minutes::write_left(inner, now / MINUTE * MINUTE - 2 * MINUTE).await?;
        // The last but one again: a look that came late would have left it out.
        for end in [now / MINUTE * MINUTE - MINUTE, now / MINUTE * MINUTE] {
            minutes::write(inner, end).await?;
        }
        checkpoints(inner, now - 2 * MINUTE).await?;
        yesterday(inner, now - DAY).await?;
        rows(inner, &REPLAYS, cut(retention.attempts), false).await?;
    }
    let mut pruned = Pruned {
        attempts: rows(inner, &ATTEMPTS, cut(retention.attempts), dry_run).await?,
        inbox: rows(inner, &INBOX, cut(retention.inbox), dry_run).await?,
        append_keys: rows(inner, &APPEND_KEYS, cut(retention.inbox), dry_run).await?,
        events: rows(inner, &EVACUATED, cut(retention.delivered), dry_run).await?,
        receipts: 0,
    };
    // Only now: partitions that can never be old keep nothing else from going.
    for (what, keep) in [("delivered", retention.delivered), ("attempts", retention.attempts)] {
        fits(inner, what, keep)?;
    }
    if let Some(cut) = cut(retention.attempts) {
        pruned.receipts = partitions::receipts(inner, now, cut, dry_run).await?;
    }
    if let Some(cut) = cut(retention.delivered) {
        pruned.events += partitions::log(inner, now, cut, dry_run).await?;
    }
    Ok(pruned)
}

/// All partitions together must span more than is kept, or no partition would ever be old before its turn comes again.
fn fits(inner: &Inner, what: &str, keep: Option<Duration>) -> Result<(), StoreError> {
    let (partitions, segment) = (inner.partitioning.partitions, inner.partitioning.segment);
    let Some(keep) = keep.filter(|keep| span(*keep) >= (i64::from(partitions) - 2) * segment * 1_000_000) else {
        return Ok(());
    };
    let (seconds, most) = (keep.as_secs(), (i64::from(partitions) - 2) * segment);
    let message = format!(
        "retention of {what} is {seconds} s, but {partitions} partitions of {segment} s keep less than {most} s: \
         no partition could ever be truncated"
    );
    Err(StoreError::new(StoreErrorKind::Invalid, "prune", message)
        .hint("keep them for a shorter time, or make the store's tables anew with more partitions or longer segments"))
}

/// Whether nobody else applies retention to this store, until the transaction ends.
pub(super) async fn alone(session: &mut Session) -> Result<bool, sqlx::Error> {
    // A row, and not an advisory lock, which every user of the database could hold for ever.
    let row = session.sql.query("select from postroom.meta where name = 'lanes' for update skip locked");
    Ok(row.fetch_optional(&mut *session.conn).await?.is_some())
}

/// Deletes old rows of a table, some at a time.
async fn rows(inner: &Arc<Inner>, table: &Table, cut: Option<i64>, dry_run: bool) -> Result<u64, StoreError> {
    let Some(cut) = cut else { return Ok(0) };
    let Table { name, done } = table;
    if dry_run {
        let text = inner.db.sql.made(&format!("select count(*) from postroom.{name} t where {done}"));
        let count_them = move |session: &mut Session| session.sql.query_made(text.into()).bind(Time(cut));
        let counted = inner.db.write_long("prune", move |session| {
            Box::pin(async move { Ok(count_them(session).fetch_one(&mut *session.conn).await?.try_get(0)?) })
        });
        return counted.await.map(count);
    }
    let text: Arc<str> = inner
        .db
        .sql
        .made(&format!(
            "delete from postroom.{name} \
             where ctid = any(array(select t.ctid from postroom.{name} t where {done} limit 5000))"
        ))
        .into();
    let mut deleted = 0;
    loop {
        let text = Arc::clone(&text);
        let some = inner
            .db
            .write_long("prune", move |session| Box::pin(async move { delete(session, text, cut).await }))
            .await?;
        deleted += some;
        if some == 0 {
            return Ok(deleted);
        }
    }
}

async fn delete(session: &mut Session, text: Arc<str>, cut: i64) -> Result<u64, Fault> {
    if !alone(session).await? {
        return Ok(0);
    }
    // An operator who sends an evacuated event again must not find it gone afterwards.
    let quiet = session.sql.query("select from postroom.lane order by route, lane for share");
    quiet.execute(&mut *session.conn).await?;
    // Most of the time nothing is old: the indexes on time say so, where a walk through the table would be taken for cheap.
    session.sql.query("set local enable_seqscan = off").execute(&mut *session.conn).await?;
    let delete = session.sql.query_made(text).bind(Time(cut));
    Ok(delete.execute(&mut *session.conn).await?.rows_affected())
}

/// Deletes superseded checkpoints. Of each lane those younger than `cut` stay, and the newest before: rates are taken
/// from them.
async fn checkpoints(inner: &Arc<Inner>, cut: i64) -> Result<(), StoreError> {
    let kept = inner
        .db
        .read("prune", move |session| {
            Box::pin(async move {
                let kept = session.sql.query(include_str!("../sql/superseded.sql")).bind(Time(cut));
                let rows = kept.fetch_all(&mut *session.conn).await?;
                let mut kept = Kept::default();
                for row in &rows {
                    kept.routes.push(row.try_get("route")?);
                    kept.lanes.push(row.try_get("lane")?);
                    kept.terms.push(row.try_get("term")?);
                    kept.ids.push(row.try_get("id")?);
                }
                Ok(kept)
            })
        })
        .await?;
    let (mut after, kept) = (Some(0), Arc::new(kept));
    while let Some(place) = after {
        let kept = Arc::clone(&kept);
        after = inner
            .db
            .write("prune", move |session| Box::pin(async move { supersede(session, &kept, place).await }))
            .await?;
    }
    Ok(())
}

/// The checkpoints that stay, column by column.
#[derive(Default)]
struct Kept {
    routes: Vec<String>,
    lanes: Vec<i16>,
    terms: Vec<i64>,
    ids: Vec<i64>,
}

/// Deletes what is superseded of a stretch; says where the next one begins.
async fn supersede(session: &mut Session, kept: &Kept, after: i64) -> Result<Option<i64>, Fault> {
    if !alone(session).await? {
        return Ok(None);
    }
    let next = session.sql.scalar(include_str!("../sql/prune_checkpoints.sql")).bind(after);
    let next = next.bind(kept.routes.clone()).bind(kept.lanes.clone()).bind(kept.terms.clone()).bind(kept.ids.clone());
    Ok(next.fetch_one(&mut *session.conn).await?)
}

/// Sums of minutes and heartbeats of relays that have been gone for a day.
async fn yesterday(inner: &Arc<Inner>, before: i64) -> Result<(), StoreError> {
    inner
        .db
        .write("prune", move |session| {
            Box::pin(async move {
                if !alone(session).await? {
                    return Ok(());
                }
                let stat =
                    session.sql.query("delete from postroom.stat where source = '' and minute < $1").bind(Time(before));
                stat.execute(&mut *session.conn).await?;
                let relays = session.sql.query(
                    "delete from postroom.relay where source = '' and alive_until < $1 \
                     and not exists (select from postroom.lane where holder = boot)",
                );
                relays.bind(Time(before)).execute(&mut *session.conn).await?;
                Ok(())
            })
        })
        .await
}
