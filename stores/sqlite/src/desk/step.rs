//! One step of a replay: what comes next is found without a lock, then made due in one transaction that expects the
//! cursor it was found by.

use std::collections::BTreeMap;
use std::time::Instant;

use postroom_core::view::{ReplayKind, ReplayRow, ReplayState};
use postroom_core::{Pace, StoreError};
use sqlx::SqliteConnection;

use super::replays::{Replay, need};
use super::turns::make_room;
use super::{dead, settled};
use crate::clock::micros;
use crate::error::Fault;
use crate::events::signed;
use crate::store::Inner;

/// The next deliveries of a replay.
pub(super) struct Next {
    pub(super) some: Chosen,
    /// Where the replay then stands.
    pub(super) cursor: String,
    /// Whether there are no more.
    pub(super) last: bool,
}

/// Some deliveries.
pub(super) enum Chosen {
    /// Numbers of settled events, per route.
    Settled(BTreeMap<String, Vec<i64>>),
    /// Handles of dead letters.
    Dead(Vec<i64>),
}

pub(super) async fn step(inner: &Inner, id: &str, at_most: u64) -> Result<ReplayRow, StoreError> {
    let Replay { row, until } = need(inner, id).await?;
    let pace = Pace::new(row.rate, row.stepped_at, inner.clock.now());
    let allowed = pace.allowed(at_most);
    if row.state != ReplayState::Running || allowed == 0 {
        return Ok(row);
    }
    let (which, cursor) = (row.selection.clone(), row.cursor.clone());
    let next = inner
        .db
        .read("replay", move |conn| {
            Box::pin(async move {
                match row.what {
                    ReplayKind::Settled => settled::next(conn, &which, &until, &cursor, allowed).await,
                    ReplayKind::Dead => Ok(dead::next(conn, &which, &until, &cursor, allowed).await?),
                }
            })
        })
        .await?;
    let (began, now, cursor) = (Instant::now(), inner.now(), row.cursor);
    let name = id.to_owned();
    inner
        .db
        .write("replay", move |conn| Box::pin(async move { make(conn, &name, &cursor, &next, pace, now).await }))
        .await?;
    inner.wake.wake();
    let row = need(inner, id).await?.row;
    if row.state == ReplayState::Running {
        make_room(began.elapsed()).await;
    }
    Ok(row)
}

/// Makes them due and moves the replay on, unless it stands elsewhere by now or does not run.
async fn make(
    conn: &mut SqliteConnection,
    id: &str,
    cursor: &str,
    next: &Next,
    pace: Pace,
    now: i64,
) -> Result<(), Fault> {
    let there = sqlx::query("select 1 from postroom_replay where id = ?1 and cursor = ?2 and state = 'running'");
    if there.bind(id).bind(cursor).fetch_optional(&mut *conn).await?.is_none() {
        return Ok(());
    }
    let made = match &next.some {
        Chosen::Settled(numbers) => settled::make(conn, numbers, now).await?,
        Chosen::Dead(handles) => dead::make(conn, handles, now).await?,
    };
    let state = if next.last { ReplayState::Done } else { ReplayState::Running };
    sqlx::query(include_str!("../sql/replay_step.sql"))
        .bind(id)
        .bind(cursor)
        .bind(&next.cursor)
        .bind(signed(made))
        .bind(micros(pace.after(made)))
        .bind(state.as_str())
        .bind(next.last.then_some(now))
        .execute(conn)
        .await?;
    Ok(())
}
