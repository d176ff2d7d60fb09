//! Replays of an adopted table: what they are about, how one begins, and one step of it. The next rows are found without a lock,
//! then made pending in one transaction that expects the cursor they were found by.

use std::time::Duration;

use postroom_admin::replays::{self, Counts, Progress, Replay};
use postroom_admin::run_write;
use postroom_admin::view::{Affected, ReplayKind, ReplayRow, ReplayState};
use postroom_admin::{Pace, ReplayOrder, Selection, check_selection};
use postroom_core::{Actor, StoreError, StoreErrorKind, new_id};
use serde_json::json;

use super::dead::{self, Rows, wanted_routes};
use super::query::{Query, number};
use super::routes::Registered;
use super::tables::{Tables, run};
use crate::executor::Statement;
use crate::sql::{further, operate};
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
    one_route(inner, which).await?;
    dead::count(inner, rows(what), which, inbox_window).await
}

pub(super) async fn start(inner: &Inner, order: &ReplayOrder, actor: &Actor) -> Result<ReplayRow, StoreError> {
    order.check()?;
    let route = one_route(inner, &order.which).await?;
    let query = match (order.what, &route) {
        (ReplayKind::Dead, Some(route)) => Query::of(inner, route),
        _ => Query::new(inner),
    };
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
    let route = one_route(inner, &replay.row.selection).await?;
    let next = match &route {
        Some(route) => next(inner, route, &replay, usize::try_from(allowed).unwrap_or(usize::MAX)).await?,
        None => Vec::new(),
    };
    let last = next.is_empty() || (next.len() as u64) < allowed;
    let to = next.last().map_or_else(|| replay.row.cursor.clone(), |(position, row)| format!("{position} {row}"));
    let statements = route.map(|route| made_due(inner, &route, replay.row.what, &next)).unwrap_or_default();
    let id = id.to_owned();
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
async fn next(
    inner: &Inner,
    route: &Registered,
    replay: &Replay,
    at_most: usize,
) -> Result<Vec<(i64, String)>, StoreError> {
    let ReplayRow { what, selection, cursor, created_at, .. } = &replay.row;
    let mut query = rows(*what).query(inner, route);
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

/// The one route of a table that a replay is about; nothing where the table has no such route. Positions of one route say nothing
/// of another.
async fn one_route(inner: &Inner, which: &Selection) -> Result<Option<Registered>, StoreError> {
    let routes = wanted_routes(inner, which).await?;
    if routes.len() > 1 && routes.iter().any(|route| route.further) {
        let names: Vec<&str> = routes.iter().map(|route| route.name.as_str()).collect();
        let message = format!("{} has {} routes: {}", inner.mapping_name, names.len(), names.join(", "));
        return Err(StoreError::new(StoreErrorKind::Invalid, "replay", message)
            .hint("say with --route which of them is to deliver again"));
    }
    Ok(routes.into_iter().next())
}

/// The statements that make rows due for a route; the first brings those that are.
fn made_due(inner: &Inner, route: &Registered, what: ReplayKind, rows: &[(i64, String)]) -> Vec<Statement> {
    if rows.is_empty() {
        return Vec::new();
    }
    let list: Vec<_> = rows.iter().map(|(_, row)| json!({"id": row, "after": "0", "attempts": "0"})).collect();
    let list = json!(list).to_string();
    let (mapping, writer) = (&inner.mapping, inner.writer());
    let texts = match (route.further, what) {
        (true, ReplayKind::Settled) => vec![further::replayed(mapping, &writer, inner.limits)],
        (true, ReplayKind::Dead) => vec![further::revived(&writer)],
        (false, _) => {
            let mut texts = operate::replayed(mapping, &writer, &inner.log);
            // Pending again for this route alone.
            texts.extend(mapping.may_have_several().then(|| further::spared(mapping, &writer)));
            texts
        }
    };
    let bound = |text| Statement::new(text).bind(&inner.mapping_name).bind(clock()).bind(&list);
    let replays_settled = route.further && what == ReplayKind::Settled;
    texts.into_iter().map(bound).map(|made| if replays_settled { made.bind(&route.name) } else { made }).collect()
}
