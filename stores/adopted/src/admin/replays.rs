//! Replays of an adopted table: what they are about, how one begins, and one step of it. The next rows are found without a lock,
//! then made pending in one transaction that expects the cursor they were found by.

use std::time::Duration;

use postroom_admin::replays::{self, Counts, Progress, Replay};
use postroom_admin::run_write;
use postroom_admin::view::{Affected, ReplayKind, ReplayRow, ReplayState};
use postroom_admin::{Pace, ReplayOrder, Selection, check_selection};
use postroom_core::{Actor, StoreError, new_id};
use serde_json::json;

use super::dead::{self, Rows, wanted_route};
use super::query::{Query, number};
use super::tables::{Tables, run};
use crate::executor::Statement;
use crate::sql::operate;
use crate::store::{Inner, clock};

/// The rows that a replay is about.
fn rows(what: ReplayKind) -> Rows {
    match what {
        ReplayKind::Settled => Rows::Done,
        ReplayKind::Dead => Rows::Dead,
    }
}

pub(super) async fn preview(
    inner: &Inner,
    what: ReplayKind,
    which: &Selection,
    inbox_window: Option<Duration>,
) -> Result<Affected, StoreError> {
    check_selection(what, which)?;
    dead::count(inner, rows(what), which, inbox_window).await
}

pub(super) async fn start(inner: &Inner, order: &ReplayOrder, actor: &Actor) -> Result<ReplayRow, StoreError> {
    order.check()?;
    let query = Query::new(inner);
    // What is copied or inserted from now on stands behind this.
    let last = format!("select cast(max({}) as text) {}", query.position(), query.from());
    let found = query.fetch("replay", last).await?;
    let until: i64 = found.first().map(|row| number(row, 0)).unwrap_or_default();
    let (id, order, actor) = (new_id(), order.clone(), actor.clone());
    let name = id.clone();
    run_write(&Tables(inner), "replay", move |session| {
        Box::pin(async move {
            let now = session.now().await?;
            replays::insert(session, &id, &order, &until.to_string(), &actor, now).await
        })
    })
    .await?;
    replays::need(&Tables(inner), &name, Counts::Without).await.map(|replay| replay.row)
}

/// Makes the next rows of a running replay pending.
pub(super) async fn step(inner: &Inner, id: &str, at_most: u64) -> Result<ReplayRow, StoreError> {
    let replay = replays::need(&Tables(inner), id, Counts::Without).await?;
    let pace = Pace::new(replay.row.rate, replay.row.stepped_at, replay.now);
    let allowed = pace.allowed(at_most);
    if replay.row.state != ReplayState::Running || allowed == 0 {
        return Ok(replay.row);
    }
    // Where copies cannot be told from what there was, the count of the preview is the end.
    let left = replay.row.total.saturating_sub(replay.row.done);
    let allowed = if Query::new(inner).has_positions() { allowed } else { allowed.min(left) };
    let next = next(inner, &replay, usize::try_from(allowed).unwrap_or(usize::MAX)).await?;
    let last = next.is_empty() || (next.len() as u64) < allowed;
    let to = next.last().map_or_else(|| replay.row.cursor.clone(), |(position, row)| format!("{position} {row}"));
    let (statements, id) = (pending_again(inner, &next), id.to_owned());
    let (from, name) = (replay.row.cursor, id.clone());
    run_write(&Tables(inner), "replay", move |session| {
        Box::pin(async move {
            if !replays::stands_at(session, &id, &from).await? {
                return Ok(());
            }
            // Rows that somebody else changed meanwhile do not agree.
            let made = run(session, statements).await?.first().copied().unwrap_or(0);
            let now = session.now().await?;
            replays::advance(session, &id, &Progress { from: &from, to: &to, made, last }, pace, now).await
        })
    })
    .await?;
    inner.wake.wake();
    replays::need(&Tables(inner), &name, Counts::Without).await.map(|replay| replay.row)
}

/// The next rows behind the cursor, of those there were then.
async fn next(inner: &Inner, replay: &Replay, at_most: usize) -> Result<Vec<(i64, String)>, StoreError> {
    let ReplayRow { what, selection, cursor, created_at, .. } = &replay.row;
    if wanted_route(inner, selection).await?.is_none() {
        return Ok(Vec::new());
    }
    let mut query = Query::new(inner);
    query.and(rows(*what).condition(&query));
    query.select(selection);
    if query.has_positions() {
        let until = query.value(replay.until.clone());
        query.and(format!("{} <= cast({until} as bigint)", query.position()));
    }
    if *what == ReplayKind::Dead {
        let created_at = query.value(created_at.as_microsecond().to_string());
        query.and(format!("(s.since is null or s.since <= {})", query.writer.at_micros(&created_at)));
    }
    let after = cursor.split_once(' ').map(|(position, row)| (position.parse().unwrap_or(0), row.to_owned()));
    query.page(after.as_ref(), at_most).await
}

/// The statements that make rows pending again; the first brings those that are.
fn pending_again(inner: &Inner, rows: &[(i64, String)]) -> Vec<Statement> {
    if rows.is_empty() {
        return Vec::new();
    }
    let list: Vec<_> = rows.iter().map(|(_, row)| json!({"id": row, "after": "0", "attempts": "0"})).collect();
    let list = json!(list).to_string();
    let texts = operate::replayed(&inner.mapping, &inner.writer(), &inner.log).into_iter();
    texts.map(|text| Statement::new(text).bind(&inner.mapping_name).bind(clock()).bind(&list)).collect()
}
