//! Replays: rows that say what is to be sent again. Doing it is [`super::step`].

use std::sync::Arc;
use std::time::Duration;

use postroom_core::view::{Affected, ReplayKind, ReplayRow, ReplayState};
use postroom_core::{
    Actor, Pace, ReplayChange, ReplayOrder, Selection, StoreError, check_selection, new_id, no_replay,
};
use serde_json::json;
use sqlx::Row as _;
use sqlx::postgres::PgRow;

use super::actions::{Action, record};
use super::dead;
use super::settled::{self, Until};
use crate::clock::{Time, micros, timestamp};
use crate::database::Session;
use crate::events::{count, signed};
use crate::sql::stored;
use crate::store::Inner;

pub(super) async fn preview(
    inner: &Arc<Inner>,
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

pub(super) async fn start(inner: &Arc<Inner>, order: &ReplayOrder, actor: &Actor) -> Result<ReplayRow, StoreError> {
    order.check()?;
    let (id, order, actor, shared) = (new_id(), order.clone(), actor.clone(), Arc::clone(inner));
    let name = id.clone();
    inner
        .db
        .write("replay", move |session| {
            Box::pin(async move {
                let now = shared.now(session).await?;
                let until = match order.what {
                    ReplayKind::Settled => {
                        settled::until(session, order.which.route.as_deref(), shared.ring.lanes).await?
                    }
                    ReplayKind::Dead => dead::until(session, now).await?,
                };
                let insert = session.sql.query(include_str!("../sql/replay_start.sql"));
                insert
                    .bind(id.clone())
                    .bind(order.what.as_str())
                    .bind(order.which.describe())
                    .bind(json!(until).to_string())
                    .bind(order.rate)
                    .bind(order.allow_duplicates)
                    .bind(stored(&actor.name))
                    .bind(actor.reason.as_deref().map(stored))
                    .bind(signed(order.total))
                    .bind(Time(now))
                    .bind(Time(micros(Pace::begin(order.rate, timestamp(now)))))
                    .execute(&mut *session.conn)
                    .await?;
                let action = Action::of(&actor, order.what.action());
                record(session, &action, &order.describe(&id), order.total, now).await?;
                Ok(())
            })
        })
        .await?;
    need(inner, &name).await.map(|replay| replay.row)
}

/// A replay, with how far its routes had come when it was asked for, and the time.
pub(super) struct Replay {
    pub(super) row: ReplayRow,
    pub(super) until: Until,
    pub(super) now: i64,
}

pub(super) async fn need(inner: &Arc<Inner>, id: &str) -> Result<Replay, StoreError> {
    find(inner, id).await?.ok_or_else(|| no_replay(id))
}

async fn find(inner: &Arc<Inner>, id: &str) -> Result<Option<Replay>, StoreError> {
    let (shared, id) = (Arc::clone(inner), id.to_owned());
    inner.db.read("replay", move |session| Box::pin(async move { Ok(find_in(session, &shared, &id).await?) })).await
}

async fn find_in(session: &mut Session, inner: &Inner, id: &str) -> Result<Option<Replay>, sqlx::Error> {
    let now = inner.now(session).await?;
    let row = session.sql.query(include_str!("../sql/replay_one.sql")).bind(id.to_owned());
    let row = row.fetch_optional(&mut *session.conn).await?;
    row.as_ref().map(|row| read(&inner.name, row, now)).transpose()
}

pub(super) async fn one(inner: &Arc<Inner>, id: &str) -> Result<Option<ReplayRow>, StoreError> {
    Ok(find(inner, id).await?.map(|replay| replay.row))
}

pub(super) async fn list(
    inner: &Arc<Inner>,
    state: Option<ReplayState>,
    limit: usize,
) -> Result<Vec<ReplayRow>, StoreError> {
    let store = inner.name.clone();
    let states = state.map_or(ReplayState::ALL.to_vec(), |state| vec![state]);
    inner
        .db
        .read("replays", move |session| {
            Box::pin(async move {
                let states: Vec<String> = states.iter().map(|state| state.as_str().to_owned()).collect();
                let query = session.sql.query(include_str!("../sql/replays.sql")).bind(states);
                let rows = query.bind(signed(limit as u64)).fetch_all(&mut *session.conn).await?;
                Ok(rows.iter().map(|row| Ok(read(&store, row, 0)?.row)).collect::<Result<_, sqlx::Error>>()?)
            })
        })
        .await
}

/// Pauses, resumes or cancels; the state it is found in is the one that is changed.
pub(super) async fn change(
    inner: &Arc<Inner>,
    id: &str,
    change: ReplayChange,
    actor: &Actor,
) -> Result<bool, StoreError> {
    let (shared, id, actor) = (Arc::clone(inner), id.to_owned(), actor.clone());
    inner
        .db
        .write("replay", move |session| {
            Box::pin(async move {
                let lock = session.sql.query("select 1 from postroom.replay where id = $1 for update");
                lock.bind(id.clone()).execute(&mut *session.conn).await?;
                let found = find_in(session, &shared, &id).await?;
                let Some(Replay { row, now, .. }) = found else { return Err(no_replay(&id).into()) };
                if !change.changes(&id, row.state)? {
                    return Ok(false);
                }
                // Time that passed while it was paused allows nothing.
                let resumed = change == ReplayChange::Resume;
                let stepped_at = if resumed { Pace::begin(row.rate, timestamp(now)) } else { row.stepped_at };
                let update = session
                    .sql
                    .query("update postroom.replay set state = $2, stepped_at = $3, ended_at = $4 where id = $1");
                update
                    .bind(id.clone())
                    .bind(change.to().as_str())
                    .bind(Time(micros(stepped_at)))
                    .bind((change == ReplayChange::Cancel).then_some(Time(now)))
                    .execute(&mut *session.conn)
                    .await?;
                record(session, &Action::of(&actor, change.action()), &id, row.done, now).await?;
                Ok(true)
            })
        })
        .await
}

fn read(store: &str, row: &PgRow, now: i64) -> Result<Replay, sqlx::Error> {
    let word = |column| row.try_get::<&str, _>(column);
    let time = |column| row.try_get::<Time, _>(column).map(|at| timestamp(at.0));
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
        created_at: time("created_at")?,
        stepped_at: time("stepped_at")?,
        ended_at: row.try_get::<Option<Time>, _>("ended_at")?.map(|at| timestamp(at.0)),
    };
    Ok(Replay { row, until, now })
}
