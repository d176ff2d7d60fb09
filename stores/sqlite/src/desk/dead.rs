//! Dead letters: listing them, discarding them, and those that a replay makes due again.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use postroom_core::view::{Affected, DeliveryRow};
use postroom_core::{Actor, DeliveryState, Selection, StoreError};
use serde_json::json;
use sqlx::sqlite::SqliteRow;
use sqlx::{QueryBuilder, Row, SqliteConnection};

use super::actions;
use super::selection;
use super::settled::Until;
use super::step::{Chosen, Next};
use super::summary::Summary;
use super::turns::{self, Turns};
use crate::clock::timestamp;
use crate::error::Fault;
use crate::events::{maybe_text, signed, text};
use crate::release::release;
use crate::store::Inner;

/// What a replay of dead letters remembers of when it was asked for.
const SINCE: &str = "since";

pub(super) async fn list(
    inner: &Inner,
    which: &Selection,
    after: i64,
    limit: usize,
) -> Result<Vec<DeliveryRow>, StoreError> {
    let (store, which) = (inner.name.clone(), which.clone());
    inner
        .db
        .read("dead", move |conn| {
            Box::pin(async move {
                let mut rows = page(conn, &store, &which, " and d.seq > ", after, limit).await?;
                // A page ends after all routes of its last position: the next one begins after that position.
                if let Some(last) = rows.last().map(|row| row.position).filter(|_| rows.len() == limit) {
                    rows.retain(|row| row.position < last);
                    rows.extend(page(conn, &store, &which, " and d.seq = ", last, usize::MAX).await?);
                }
                Ok(rows)
            })
        })
        .await
}

async fn page(
    conn: &mut SqliteConnection,
    store: &str,
    which: &Selection,
    place: &str,
    position: i64,
    limit: usize,
) -> Result<Vec<DeliveryRow>, sqlx::Error> {
    let mut query = QueryBuilder::new(
        "select d.*, l.id, l.type, l.tenant, l.appended_at, coalesce(l.key, l.aggregate_id) as ordering_key \
         from postroom_delivery d join postroom_log l on l.seq = d.seq where d.state = 'dead'",
    );
    query.push(place).push_bind(position);
    selection::on_delivery(&mut query, which);
    selection::on_log(&mut query, which);
    query.push(" order by d.seq, d.route limit ").push_bind(signed(limit as u64));
    let rows = query.build().fetch_all(conn).await?;
    rows.iter().map(|row| delivery_row(store, row)).collect()
}

fn delivery_row(store: &str, row: &SqliteRow) -> Result<DeliveryRow, sqlx::Error> {
    Ok(DeliveryRow {
        store: store.to_owned(),
        route: row.try_get("route")?,
        position: row.try_get("seq")?,
        id: text(row, "id")?.into_owned(),
        event_type: text(row, "type")?.into_owned(),
        key: maybe_text(row, "ordering_key")?.map(Cow::into_owned),
        tenant: maybe_text(row, "tenant")?.map(Cow::into_owned),
        state: parse_state(row.try_get("state")?)?,
        attempts: row.try_get("attempts")?,
        code: row.try_get("code")?,
        error: row.try_get("error")?,
        due_at: row.try_get::<Option<i64>, _>("due")?.map(timestamp),
        appended_at: timestamp(row.try_get("appended_at")?),
        since: timestamp(row.try_get("since")?),
    })
}

/// The state of a word in the table.
pub(super) fn parse_state(word: &str) -> Result<DeliveryState, sqlx::Error> {
    DeliveryState::parse(word).ok_or_else(|| sqlx::Error::Decode(format!("{word:?} is no state of a delivery").into()))
}

/// Some dead letters.
struct Matched {
    /// In order of their numbers.
    handles: Vec<i64>,
    /// Keys that wait behind one of them.
    held: BTreeSet<(String, String)>,
    /// Per route, those that are part of its counts.
    counted: BTreeMap<String, i64>,
}

/// Finds the dead letters of a selection, or those among some handles that still are; adds them to the summary.
async fn matched(
    conn: &mut SqliteConnection,
    which: &Selection,
    among: Option<&[i64]>,
    summary: &mut Summary,
) -> Result<Matched, sqlx::Error> {
    let mut query = QueryBuilder::new(
        "select d.handle, d.route, d.key, d.blocks, d.replay, l.occurred_at, l.appended_at, \
         coalesce(l.key, l.aggregate_id) as ordering_key \
         from postroom_delivery d join postroom_log l on l.seq = d.seq where d.state = 'dead'",
    );
    if let Some(among) = among {
        query.push(" and d.handle in (select value from json_each(").push_bind(json!(among).to_string()).push("))");
    } else {
        selection::on_delivery(&mut query, which);
        selection::on_log(&mut query, which);
    }
    query.push(" order by d.seq, d.route");
    let mut matched = Matched { handles: Vec::new(), held: BTreeSet::new(), counted: BTreeMap::new() };
    for row in &query.build().fetch_all(conn).await? {
        let route: String = row.try_get("route")?;
        matched.handles.push(row.try_get("handle")?);
        if let (true, Some(key)) = (row.try_get("blocks")?, maybe_text(row, "key")?) {
            matched.held.insert((route.clone(), key.into_owned()));
        }
        if !row.try_get::<bool, _>("replay")? {
            *matched.counted.entry(route.clone()).or_default() += 1;
        }
        summary.add(&route, row)?;
    }
    Ok(matched)
}

pub(super) async fn count(
    inner: &Inner,
    which: &Selection,
    inbox_window: Option<Duration>,
) -> Result<Affected, StoreError> {
    found(inner, which, Summary::new(inbox_window, inner.now())).await.map(|(_, affected)| affected)
}

/// The dead letters of a selection, and their sum. Finding them holds no lock.
async fn found(inner: &Inner, which: &Selection, mut summary: Summary) -> Result<(Vec<i64>, Affected), StoreError> {
    let which = which.clone();
    inner
        .db
        .read("dead", move |conn| {
            Box::pin(async move {
                let found = matched(conn, &which, None, &mut summary).await?.handles;
                Ok((found, summary.finish()))
            })
        })
        .await
}

/// When the last one died; a clock that was set back may be before that.
pub(super) async fn until(conn: &mut SqliteConnection, now: i64) -> Result<Until, sqlx::Error> {
    let last: Option<i64> =
        sqlx::query_scalar("select max(since) from postroom_delivery where state = 'dead'").fetch_one(conn).await?;
    Ok(Until::from([(SINCE.to_owned(), last.map_or(now, |last| last.max(now)))]))
}

/// Finds the next dead letters of a replay, at most so many, of those that had died by then.
/// Served by `postroom_delivery_dead`. The cursor is a number and a handle.
pub(super) async fn next(
    conn: &mut SqliteConnection,
    which: &Selection,
    until: &Until,
    cursor: &str,
    at_most: u64,
) -> Result<Next, sqlx::Error> {
    let (seq, handle) = cursor.split_once(' ').unwrap_or_default();
    let mut query = QueryBuilder::new(
        "select d.seq, d.handle from postroom_delivery d join postroom_log l on l.seq = d.seq \
         where d.state = 'dead' and (d.seq, d.handle) > (",
    );
    query.push_bind(seq.parse::<i64>().unwrap_or(0)).push(", ").push_bind(handle.parse::<i64>().unwrap_or(0));
    query.push(") and d.since <= ").push_bind(until.get(SINCE).copied().unwrap_or(0));
    selection::on_delivery(&mut query, which);
    selection::on_log(&mut query, which);
    query.push(" order by d.seq, d.handle limit ").push_bind(signed(at_most));
    let found: Vec<(i64, i64)> = query.build_query_as().fetch_all(conn).await?;
    let cursor = found.last().map_or_else(|| cursor.to_owned(), |(seq, handle)| format!("{seq} {handle}"));
    let last = (found.len() as u64) < at_most;
    Ok(Next { some: Chosen::Dead(found.into_iter().map(|(_, handle)| handle).collect()), cursor, last })
}

/// Makes those due that still are dead; returns how many those are.
pub(super) async fn make(conn: &mut SqliteConnection, handles: &[i64], now: i64) -> Result<u64, sqlx::Error> {
    let made = sqlx::query(include_str!("../sql/replay_dead.sql")).bind(json!(handles).to_string()).bind(now);
    Ok(made.execute(conn).await?.rows_affected())
}

pub(super) async fn discard(
    inner: &Inner,
    which: &Selection,
    dry_run: bool,
    actor: &Actor,
) -> Result<Affected, StoreError> {
    let now = inner.now();
    // What changes meanwhile is left out when its turn comes.
    let (found, preview) = found(inner, which, Summary::new(None, now)).await?;
    if dry_run {
        return Ok(preview);
    }
    let number = actions::begin(inner, actor, "dead.discard", which.describe()).await?;
    let (mut turns, mut summary) = (Turns::new(), Summary::new(None, now));
    for some in found.chunks(turns::ROWS_AT_ONCE) {
        turns.next().await;
        let (some, which, before) = (some.to_vec(), which.clone(), summary.deliveries());
        summary = inner
            .db
            .write("dead.discard", move |conn| {
                Box::pin(async move {
                    let matched = matched(conn, &which, Some(&some), &mut summary).await?;
                    remove(conn, &matched, now).await?;
                    actions::add(conn, number, summary.deliveries() - before).await?;
                    Ok(summary)
                })
            })
            .await?;
        inner.wake.wake();
    }
    Ok(summary.finish())
}

/// Removes them, leaves a receipt that says so, and lets the keys go on that waited for one of them.
async fn remove(conn: &mut SqliteConnection, matched: &Matched, now: i64) -> Result<(), Fault> {
    let handles = json!(matched.handles).to_string();
    sqlx::query(include_str!("../sql/discard_receipts.sql")).bind(&handles).bind(now).execute(&mut *conn).await?;
    sqlx::query("delete from postroom_delivery where handle in (select value from json_each(?1))")
        .bind(&handles)
        .execute(&mut *conn)
        .await?;
    for (route, discarded) in &matched.counted {
        sqlx::query("update postroom_checkpoint set discarded = discarded + ?2 where route = ?1 and lane = 0")
            .bind(route)
            .bind(discarded)
            .execute(&mut *conn)
            .await?;
    }
    for (route, key) in &matched.held {
        release(conn, route, key, now).await?;
    }
    Ok(())
}
