//! Dead letters: listing them, discarding them, and those that a replay makes due again.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use postroom_core::view::{Affected, DeliveryRow};
use postroom_core::{Actor, DeliveryState, Selection, StoreError};
use sqlx::Row as _;
use sqlx::postgres::PgRow;

use super::settled::Until;
use super::step::{Chosen, Next};
use super::summary::Summary;
use super::{actions, lanes, selection, turns};
use crate::clock::{Time, timestamp};
use crate::database::Session;
use crate::events::signed;
use crate::release::release;
use crate::store::Inner;

/// A dead letter with its event, which is in the log or evacuated.
const FROM: &str = "from postroom.delivery d cross join lateral \
     (select * from postroom.event e where e.lane = d.lane and e.seq = d.seq limit 1) l where d.state = 'dead'";

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
        .read("dead", move |session| {
            Box::pin(async move {
                let mut rows = page(session, &store, &which, " and d.seq > ", after, limit).await?;
                // A page ends after all routes of its last position: the next one begins after that position.
                if let Some(last) = rows.last().map(|row| row.position).filter(|_| rows.len() == limit) {
                    rows.retain(|row| row.position < last);
                    rows.extend(page(session, &store, &which, " and d.seq = ", last, usize::MAX).await?);
                }
                Ok(rows)
            })
        })
        .await
}

async fn page(
    session: &mut Session,
    store: &str,
    which: &Selection,
    place: &str,
    position: i64,
    limit: usize,
) -> Result<Vec<DeliveryRow>, sqlx::Error> {
    let mut query = session.sql.builder(&format!(
        "select d.*, l.id, l.type, l.tenant, l.appended_at, coalesce(l.key, l.aggregate_id) as ordering_key {FROM}"
    ));
    query.push(place).push_bind(position);
    selection::on_delivery(&mut query, which);
    selection::on_log(&mut query, which);
    query.push(" order by d.seq, d.route limit ").push_bind(signed(limit as u64));
    let rows = query.build().persistent(false).fetch_all(&mut *session.conn).await?;
    rows.iter().map(|row| delivery_row(store, row)).collect()
}

fn delivery_row(store: &str, row: &PgRow) -> Result<DeliveryRow, sqlx::Error> {
    let time = |column| row.try_get::<Time, _>(column).map(|at| timestamp(at.0));
    Ok(DeliveryRow {
        store: store.to_owned(),
        route: row.try_get("route")?,
        position: row.try_get("seq")?,
        id: row.try_get("id")?,
        event_type: row.try_get("type")?,
        key: row.try_get("ordering_key")?,
        tenant: row.try_get("tenant")?,
        state: parse_state(row.try_get("state")?)?,
        attempts: attempts(row.try_get("attempts")?),
        code: row.try_get("code")?,
        error: row.try_get("error")?,
        due_at: row.try_get::<Option<Time>, _>("due")?.map(|at| timestamp(at.0)),
        appended_at: time("appended_at")?,
        since: time("since")?,
    })
}

/// The state of a word in the table.
pub(super) fn parse_state(word: &str) -> Result<DeliveryState, sqlx::Error> {
    DeliveryState::parse(word).ok_or_else(|| sqlx::Error::Decode(format!("{word:?} is no state of a delivery").into()))
}

/// A number of tries out of the table.
pub(super) fn attempts(n: i32) -> u32 {
    u32::try_from(n).unwrap_or(0)
}

/// Some dead letters, in order of their numbers.
#[derive(Default)]
struct Matched {
    handles: Vec<i64>,
    /// The lane of each.
    lanes: Vec<(String, i16)>,
    /// Per route, the keys that wait behind one of them.
    held: BTreeMap<String, BTreeSet<String>>,
}

/// Finds the dead letters of a selection, or those among some handles that still are; adds them to the summary.
async fn matched(
    session: &mut Session,
    which: &Selection,
    among: Option<&[i64]>,
    summary: &mut Summary,
) -> Result<Matched, sqlx::Error> {
    let mut query = session.sql.builder(&format!(
        "select d.handle, d.route, d.lane, d.key, d.blocks, l.occurred_at, l.appended_at, \
         coalesce(l.key, l.aggregate_id) as ordering_key {FROM}"
    ));
    if let Some(among) = among {
        query.push(" and d.handle = any(").push_bind(among.to_vec()).push(")");
    } else {
        selection::on_delivery(&mut query, which);
        selection::on_log(&mut query, which);
    }
    query.push(" order by d.seq, d.route");
    let mut matched = Matched::default();
    for row in &query.build().persistent(false).fetch_all(&mut *session.conn).await? {
        let route: String = row.try_get("route")?;
        matched.handles.push(row.try_get("handle")?);
        matched.lanes.push((route.clone(), row.try_get("lane")?));
        if let (true, Some(key)) = (row.try_get("blocks")?, row.try_get("key")?) {
            matched.held.entry(route.clone()).or_default().insert(key);
        }
        summary.add(&route, row)?;
    }
    Ok(matched)
}

pub(super) async fn count(
    inner: &Arc<Inner>,
    which: &Selection,
    inbox_window: Option<Duration>,
) -> Result<Affected, StoreError> {
    Ok(found(inner, which, inbox_window).await?.affected)
}

/// The dead letters of a selection, their sum, and when they were found.
struct Found {
    matched: Matched,
    affected: Affected,
    now: i64,
}

/// Finding them holds no lock.
async fn found(inner: &Arc<Inner>, which: &Selection, window: Option<Duration>) -> Result<Found, StoreError> {
    let (shared, which) = (Arc::clone(inner), which.clone());
    inner
        .db
        .read("dead", move |session| {
            Box::pin(async move {
                let now = shared.now(session).await?;
                let mut summary = Summary::new(window, now);
                let matched = matched(session, &which, None, &mut summary).await?;
                Ok(Found { matched, affected: summary.finish(), now })
            })
        })
        .await
}

/// Some dead letters, by their handles, and the lanes they are in.
#[derive(Default)]
pub(super) struct Letters {
    handles: Vec<i64>,
    lanes: BTreeSet<(String, i16)>,
}

/// When the last one died; a clock that was set back may be before that.
pub(super) async fn until(session: &mut Session, now: i64) -> Result<Until, sqlx::Error> {
    let last = session.sql.scalar("select max(since) from postroom.delivery where state = 'dead'");
    let last: Option<Time> = last.fetch_one(&mut *session.conn).await?;
    Ok(Until::from([(SINCE.to_owned(), vec![last.map_or(now, |last| last.0.max(now))])]))
}

/// Finds the next dead letters of a replay, at most so many, of those that had died by then.
/// Served by `delivery_dead`. The cursor is a number and a handle.
pub(super) async fn next(
    session: &mut Session,
    which: &Selection,
    until: &Until,
    cursor: &str,
    at_most: u64,
) -> Result<Next, sqlx::Error> {
    let (seq, handle) = cursor.split_once(' ').unwrap_or_default();
    let mut query =
        session.sql.builder(&format!("select d.seq, d.handle, d.route, d.lane {FROM} and (d.seq, d.handle) > ("));
    query.push_bind(seq.parse::<i64>().unwrap_or(0)).push(", ").push_bind(handle.parse::<i64>().unwrap_or(0));
    let since = until.get(SINCE).and_then(|since| since.first()).copied().unwrap_or(0);
    query.push(") and d.since <= ").push_bind(Time(since));
    selection::on_delivery(&mut query, which);
    selection::on_log(&mut query, which);
    query.push(" order by d.seq, d.handle limit ").push_bind(signed(at_most));
    let rows = query.build().persistent(false).fetch_all(&mut *session.conn).await?;
    let (mut letters, mut cursor) = (Letters::default(), cursor.to_owned());
    for row in &rows {
        let (seq, handle): (i64, i64) = (row.try_get("seq")?, row.try_get("handle")?);
        letters.handles.push(handle);
        letters.lanes.insert((row.try_get("route")?, row.try_get("lane")?));
        cursor = format!("{seq} {handle}");
    }
    Ok(Next { some: Chosen::Dead(letters), cursor, last: (rows.len() as u64) < at_most })
}

/// Makes those due that still are dead; returns how many those are.
pub(super) async fn make(session: &mut Session, letters: &Letters, now: i64) -> Result<u64, sqlx::Error> {
    lanes::lock(session, &letters.lanes).await?;
    let made = session.sql.query(include_str!("../sql/replay_dead.sql")).bind(letters.handles.clone()).bind(Time(now));
    Ok(made.execute(&mut *session.conn).await?.rows_affected())
}

pub(super) async fn discard(
    inner: &Arc<Inner>,
    which: &Selection,
    dry_run: bool,
    actor: &Actor,
) -> Result<Affected, StoreError> {
    // What changes meanwhile is left out when its turn comes.
    let Found { matched: found, affected, now } = found(inner, which, None).await?;
    if dry_run {
        return Ok(affected);
    }
    let number = actions::begin(inner, actor, "dead.discard", which.describe()).await?;
    let mut summary = Summary::new(None, now);
    let chunks = found.handles.chunks(turns::ROWS_AT_ONCE).zip(found.lanes.chunks(turns::ROWS_AT_ONCE));
    for (some, theirs) in chunks {
        let (some, theirs): (Vec<i64>, BTreeSet<_>) = (some.to_vec(), theirs.iter().cloned().collect());
        let (shared, which, before) = (Arc::clone(inner), which.clone(), summary.deliveries());
        summary = inner
            .db
            .write("dead.discard", move |session| {
                Box::pin(async move {
                    lanes::lock(session, &theirs).await?;
                    let matched = matched(session, &which, Some(&some), &mut summary).await?;
                    remove(session, &shared, &matched, now).await?;
                    actions::add(session, number, summary.deliveries() - before).await?;
                    Ok(summary)
                })
            })
            .await?;
        inner.wake.wake();
    }
    Ok(summary.finish())
}

/// Removes them, leaves a receipt that says so, and lets the keys go on that waited for one of them.
async fn remove(session: &mut Session, inner: &Inner, matched: &Matched, now: i64) -> Result<(), sqlx::Error> {
    let receipts = session.sql.made(&inner.ring.into_text(include_str!("../sql/discard_receipts.sql")));
    let receipts = session.sql.query_made(receipts.into()).bind(matched.handles.clone()).bind(Time(now));
    receipts.execute(&mut *session.conn).await?;
    let discard = session.sql.query(include_str!("../sql/discard.sql")).bind(matched.handles.clone());
    discard.execute(&mut *session.conn).await?;
    for (route, keys) in &matched.held {
        release(session, route, &keys.iter().cloned().collect::<Vec<_>>(), now).await?;
    }
    Ok(())
}
