//! One step of a replay: the next rows are found without a lock, then made pending in one transaction that expects the
//! cursor they were found by.

use postroom_core::view::{ReplayKind, ReplayRow, ReplayState};
use postroom_core::{Pace, StoreError};
use serde_json::json;

use super::dead::wanted_route;
use super::query::Query;
use super::replays::{Replay, need, rows};
use crate::ground::{Dialect, Statement};
use crate::sql::operate;
use crate::store::{Inner, clock};

pub(super) async fn step(inner: &Inner, id: &str, at_most: u64) -> Result<ReplayRow, StoreError> {
    let replay = need(inner, id).await?;
    let pace = Pace::new(replay.row.rate, replay.row.stepped_at, replay.now);
    let allowed = pace.allowed(at_most);
    if replay.row.state != ReplayState::Running || allowed == 0 {
        return Ok(replay.row);
    }
    // Where copies cannot be told from what there was, the count of the preview is the end.
    let left = replay.row.total.saturating_sub(replay.row.done);
    let allowed = if Query::new(inner).has_positions() { allowed } else { allowed.min(left) };
    let next = next(inner, &replay, usize::try_from(allowed).unwrap_or(usize::MAX)).await?;
    let (planned, last) = (next.len() as u64, next.is_empty() || (next.len() as u64) < allowed);
    let cursor = next.last().map_or_else(|| replay.row.cursor.clone(), |(position, row)| format!("{position} {row}"));
    let made = make(inner, &replay.row, &next, &cursor, last, pace).await?;
    if let Some(made) = made.filter(|made| *made < planned) {
        // Somebody else changed the others first.
        let text = "update {} set done = done - cast($2 as bigint) where id = $1";
        let text = text.replace("{}", &inner.writer().own("adopted_replay"));
        let correct = Statement::new(text).bind(id).bind((planned - made).to_string());
        inner.ground.run("replay", vec![correct]).await?;
    }
    inner.wake.wake();
    Ok(need(inner, id).await?.row)
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
        let until = query.value(replay.until.to_string());
        query.and(format!("{} <= cast({until} as bigint)", query.position()));
    }
    if *what == ReplayKind::Dead {
        let created_at = query.value(created_at.as_microsecond().to_string());
        query.and(format!("(s.since is null or s.since <= {})", query.writer.at_micros(&created_at)));
    }
    let after = cursor.split_once(' ').map(|(position, row)| (position.parse().unwrap_or(0), row.to_owned()));
    query.page(after.as_ref(), at_most).await
}

/// Makes them pending and moves the replay on; brings how many agreed, or nothing when the replay stands elsewhere by now
/// or does not run.
async fn make(
    inner: &Inner,
    row: &ReplayRow,
    next: &[(i64, String)],
    cursor: &str,
    last: bool,
    pace: Pace,
) -> Result<Option<u64>, StoreError> {
    let writer = inner.writer();
    let table = writer.own("adopted_replay");
    let list: Vec<_> = next.iter().map(|(_, row)| json!({"id": row, "after": "0", "attempts": "0"})).collect();
    let list = json!(list).to_string();
    // The second of two waits here, and finds that it came too late.
    let lock = if writer.dialect == Dialect::Postgres { " for update" } else { "" };
    let lock = format!("select id from {table} where id = $1 and cursor = $2 and state = 'running'{lock}");
    let mut statements = vec![Statement::new(lock).bind(&row.id).bind(&row.cursor)];
    if !next.is_empty() {
        let texts = operate::replayed(&inner.layout, &writer, &inner.log).into_iter();
        statements.extend(texts.map(|text| {
            let statement = Statement::new(text).bind(&inner.layout_name).bind(clock()).bind(&list);
            statement.bind(&row.id).bind(&row.cursor)
        }));
    }
    let (state, ended_at) = if last { ("done", writer.now("$6")) } else { ("running", "null".to_owned()) };
    let moved = format!(
        "update {table} set cursor = $3, done = done + cast($4 as bigint), stepped_at = {}, state = '{state}', \
         ended_at = {ended_at} where id = $1 and cursor = $2 and state = 'running' and $6 is not null",
        writer.at_micros("$5"),
    );
    let moved = Statement::new(moved).bind(&row.id).bind(&row.cursor).bind(cursor).bind(next.len().to_string());
    statements.push(moved.bind(pace.after(next.len() as u64).as_microsecond().to_string()).bind(clock()));
    let found = inner.ground.run("replay", statements).await?;
    let ours = found.first().is_some_and(|rows| !rows.is_empty());
    let made = if next.is_empty() { 0 } else { found.get(1).map_or(0, Vec::len) as u64 };
    Ok(ours.then_some(made))
}
