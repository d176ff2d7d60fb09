//! Replays: rows that say what is to be sent again. Doing it is [`super::step`].

use std::time::Duration;

use postroom_core::view::{Affected, ReplayKind, ReplayRow, ReplayState};
use postroom_core::{
    Actor, Pace, ReplayChange, ReplayOrder, Selection, StoreError, check_selection, new_id, no_replay,
};
use serde_json::json;
use sqlx::Row;
use sqlx::sqlite::SqliteRow;

use super::actions::{Action, record};
use super::dead;
use super::settled::{self, Until};
use crate::clock::{micros, timestamp};
use crate::events::{count, signed};
use crate::store::Inner;

pub(super) async fn preview(
    inner: &Inner,
    what: ReplayKind,
    which: &Selection,
    inbox_window: Option<Duration>,
) -> Result<Affected, StoreError> {
    check_selection(what, which)?;
    match what {
        ReplayKind::Settled => settled::count(inner, which, inbox_window).await,
        ReplayKind::Dead => dead::count(inner, which, inbox_window).await,
    }
}

pub(super) async fn start(inner: &Inner, order: &ReplayOrder, actor: &Actor) -> Result<ReplayRow, StoreError> {
    order.check()?;
    let (id, order, actor, now) = (new_id(), order.clone(), actor.clone(), inner.clock.now());
    let name = id.clone();
    inner
        .db
        .write("replay", move |conn| {
            Box::pin(async move {
                let until = match order.what {
                    ReplayKind::Settled => settled::until(conn, order.which.route.as_deref()).await?,
                    ReplayKind::Dead => dead::until(conn, micros(now)).await?,
                };
                sqlx::query(include_str!("../sql/replay_start.sql"))
                    .bind(&id)
                    .bind(order.what.as_str())
                    .bind(order.which.describe())
                    .bind(json!(until).to_string())
                    .bind(order.rate)
                    .bind(order.allow_duplicates)
                    .bind(&actor.name)
                    .bind(&actor.reason)
                    .bind(signed(order.total))
                    .bind(micros(now))
                    .bind(micros(Pace::begin(order.rate, now)))
                    .execute(&mut *conn)
                    .await?;
                let action = Action::of(&actor, order.what.action());
                record(conn, &action, &order.describe(&id), order.total, micros(now)).await?;
                Ok(())
            })
        })
        .await?;
    need(inner, &name).await.map(|replay| replay.row)
}

/// A replay, with how far its routes had come when it was asked for.
pub(super) struct Replay {
    pub(super) row: ReplayRow,
    pub(super) until: Until,
}

pub(super) async fn need(inner: &Inner, id: &str) -> Result<Replay, StoreError> {
    find(inner, id).await?.ok_or_else(|| no_replay(id))
}

async fn find(inner: &Inner, id: &str) -> Result<Option<Replay>, StoreError> {
    let (store, id) = (inner.name.clone(), id.to_owned());
    inner
        .db
        .read("replay", move |conn| {
            Box::pin(async move {
                let row = sqlx::query("select * from postroom_replay where id = ?1").bind(id).fetch_optional(conn);
                Ok(row.await?.as_ref().map(|row| read(&store, row)).transpose()?)
            })
        })
        .await
}

pub(super) async fn one(inner: &Inner, id: &str) -> Result<Option<ReplayRow>, StoreError> {
    Ok(find(inner, id).await?.map(|replay| replay.row))
}

pub(super) async fn list(
    inner: &Inner,
    state: Option<ReplayState>,
    limit: usize,
) -> Result<Vec<ReplayRow>, StoreError> {
    let store = inner.name.clone();
    inner
        .db
        .read("replays", move |conn| {
            Box::pin(async move {
                let text = match state {
                    Some(_) => "select * from postroom_replay where state = ?1 order by id desc limit ?2",
                    None => "select * from postroom_replay where ?1 is null order by id desc limit ?2",
                };
                let query = sqlx::query(text).bind(state.map(ReplayState::as_str)).bind(signed(limit as u64));
                let rows = query.fetch_all(conn).await?;
                Ok(rows.iter().map(|row| read(&store, row).map(|replay| replay.row)).collect::<Result<_, _>>()?)
            })
        })
        .await
}

/// Pauses, resumes or cancels; the state it is found in is the one that is changed.
pub(super) async fn change(inner: &Inner, id: &str, change: ReplayChange, actor: &Actor) -> Result<bool, StoreError> {
    let (store, id, actor, now) = (inner.name.clone(), id.to_owned(), actor.clone(), inner.clock.now());
    inner
        .db
        .write("replay", move |conn| {
            Box::pin(async move {
                let row =
                    sqlx::query("select * from postroom_replay where id = ?1").bind(&id).fetch_optional(&mut *conn);
                let row = row.await?.ok_or_else(|| no_replay(&id))?;
                let ReplayRow { state, rate, done, stepped_at, .. } = read(&store, &row)?.row;
                if !change.changes(&id, state)? {
                    return Ok(false);
                }
                // Time that passed while it was paused allows nothing.
                let stepped_at = if change == ReplayChange::Resume { Pace::begin(rate, now) } else { stepped_at };
                sqlx::query("update postroom_replay set state = ?2, stepped_at = ?3, ended_at = ?4 where id = ?1")
                    .bind(&id)
                    .bind(change.to().as_str())
                    .bind(micros(stepped_at))
                    .bind((change == ReplayChange::Cancel).then(|| micros(now)))
                    .execute(&mut *conn)
                    .await?;
                record(conn, &Action::of(&actor, change.action()), &id, done, micros(now)).await?;
                Ok(true)
            })
        })
        .await
}

fn read(store: &str, row: &SqliteRow) -> Result<Replay, sqlx::Error> {
    let word = |column| row.try_get::<&str, _>(column);
    let odd = |column: &str| sqlx::Error::Decode(format!("{column} of a replay cannot be read").into());
    let until = serde_json::from_str(word("until")?).map_err(|_| odd("until"))?;
    let row = ReplayRow {
        store: store.to_owned(),
        id: row.try_get("id")?,
        what: ReplayKind::parse(word("what")?).ok_or_else(|| odd("what"))?,
        state: ReplayState::parse(word("state")?).ok_or_else(|| odd("state"))?,
        total: count(row.try_get("total")?),
        done: count(row.try_get("done")?),
        rate: row.try_get("rate")?,
        selection: Selection::read(word("selection")?).map_err(|_| odd("selection"))?,
        allow_duplicates: row.try_get("allow_duplicates")?,
        actor: row.try_get("actor")?,
        reason: row.try_get("reason")?,
        cursor: row.try_get("cursor")?,
        created_at: timestamp(row.try_get("created_at")?),
        stepped_at: timestamp(row.try_get("stepped_at")?),
        ended_at: row.try_get::<Option<i64>, _>("ended_at")?.map(timestamp),
    };
    Ok(Replay { row, until })
}
