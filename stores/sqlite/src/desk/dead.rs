//! Dead letters: listing, making them due again, discarding them.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use postroom_core::view::{Affected, DeliveryRow};
use postroom_core::{Actor, DeliveryState, ReplayOptions, Selection, StoreError};
use serde_json::json;
use sqlx::sqlite::SqliteRow;
use sqlx::{QueryBuilder, Row, SqliteConnection};

use super::actions::{Action, record};
use super::replay::{Summary, step};
use super::selection;
use crate::clock::timestamp;
use crate::error::Fault;
use crate::events::{maybe_text, signed, text};
use crate::release::release;
use crate::store::Inner;

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

/// The dead letters of a selection.
struct Matched {
    /// In order of their numbers.
    handles: Vec<i64>,
    /// Keys that wait behind one of them.
    held: BTreeSet<(String, String)>,
    /// Per route, those that are part of its counts.
    counted: BTreeMap<String, i64>,
    affected: Affected,
}

async fn matched(
    conn: &mut SqliteConnection,
    which: &Selection,
    inbox_cut: Option<i64>,
) -> Result<Matched, sqlx::Error> {
    let mut query = QueryBuilder::new(
        "select d.handle, d.route, d.key, d.blocks, d.replay, l.occurred_at, l.appended_at, \
         coalesce(l.key, l.aggregate_id) as ordering_key \
         from postroom_delivery d join postroom_log l on l.seq = d.seq where d.state = 'dead'",
    );
    selection::on_delivery(&mut query, which);
    selection::on_log(&mut query, which);
    query.push(" order by d.seq, d.route");
    let mut summary = Summary::new(inbox_cut);
    let (mut handles, mut held, mut counted) = (Vec::new(), BTreeSet::new(), BTreeMap::new());
    for row in &query.build().fetch_all(conn).await? {
        let route: String = row.try_get("route")?;
        handles.push(row.try_get("handle")?);
        if let (true, Some(key)) = (row.try_get("blocks")?, maybe_text(row, "key")?) {
            held.insert((route.clone(), key.into_owned()));
        }
        if !row.try_get::<bool, _>("replay")? {
            *counted.entry(route.clone()).or_default() += 1;
        }
        summary.add(&route, row)?;
    }
    Ok(Matched { handles, held, counted, affected: summary.finish() })
}

pub(super) async fn replay(
    inner: &Inner,
    which: &Selection,
    how: ReplayOptions,
    actor: &Actor,
) -> Result<Affected, StoreError> {
    let (which, actor, now) = (which.clone(), actor.clone(), inner.now());
    let cut = super::replay::inbox_cut(how, now);
    if how.dry_run {
        return preview(inner, which, cut).await;
    }
    let affected = inner
        .db
        .write("replay_dead", move |conn| {
            Box::pin(async move {
                let matched = matched(conn, &which, cut).await?;
                sqlx::query(include_str!("../sql/replay_dead.sql"))
                    .bind(json!(matched.handles).to_string())
                    .bind(now)
                    .bind(step(how))
                    .execute(&mut *conn)
                    .await?;
                let action = Action::of(&actor, "dead.replay");
                record(conn, &action, &which.describe(), matched.affected.deliveries, now).await?;
                Ok(matched.affected)
            })
        })
        .await?;
    inner.wake.wake();
    Ok(affected)
}

pub(super) async fn discard(
    inner: &Inner,
    which: &Selection,
    dry_run: bool,
    actor: &Actor,
) -> Result<Affected, StoreError> {
    let (which, actor, now) = (which.clone(), actor.clone(), inner.now());
    if dry_run {
        return preview(inner, which, None).await;
    }
    let affected = inner
        .db
        .write("discard_dead", move |conn| {
            Box::pin(async move {
                let matched = matched(conn, &which, None).await?;
                remove(conn, &matched, now).await?;
                let action = Action::of(&actor, "dead.discard");
                record(conn, &action, &which.describe(), matched.affected.deliveries, now).await?;
                Ok(matched.affected)
            })
        })
        .await?;
    inner.wake.wake();
    Ok(affected)
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

async fn preview(inner: &Inner, which: Selection, cut: Option<i64>) -> Result<Affected, StoreError> {
    inner.db.read("dead", move |conn| Box::pin(async move { Ok(matched(conn, &which, cut).await?.affected) })).await
}
