//! How much a route is behind, from the store alone: exact while that is cheap, then estimated.

use std::collections::BTreeMap;

use sqlx::Row as _;
use sqlx::postgres::PgRow;

use super::events::wanted;
use super::lanes::Lane;
use crate::clock::Time;
use crate::database::Session;
use crate::events::{count, signed};
use crate::routes::Registered;

/// Up to how many due deliveries are counted one by one.
const EXACT_MAX: u64 = 10_000;
/// How many rows of each lane are looked at first: where that is all, it is all that is looked at.
const FIRST_OF_LANE: i64 = 100;

/// What a route should have tried by now.
pub(super) struct Due {
    /// `None` if none was found among the rows that were read, and there are more: then it is not known.
    pub(super) number: Option<u64>,
    /// Whether there were too many to count.
    pub(super) estimated: bool,
    /// Since when the oldest of them is due.
    oldest: Option<i64>,
}

impl Due {
    fn new(number: u64, estimated: bool, oldest: Option<i64>) -> Self {
        Self { number: (number > 0 || !estimated).then_some(number), estimated, oldest }
    }

    /// Returns the age of the oldest of them, in seconds: 0 if there is none, `None` if that is not known.
    pub(super) fn age_seconds(&self, now: i64) -> Option<f64> {
        let age = |at: i64| (now - at).max(0) as f64 / 1_000_000.0;
        self.number.map(|_| self.oldest.map_or(0.0, age))
    }
}

/// Counts what should have been tried by now: parked ones whose time has come, unsettled ones, and fresh ones.
pub(super) async fn of(
    session: &mut Session,
    route: &Registered,
    lanes: &[Lane],
    now: i64,
) -> Result<Due, sqlx::Error> {
    let parked = session.sql.query(include_str!("../sql/parked_due.sql")).bind(route.name.clone()).bind(Time(now));
    let parked = parked.fetch_one(&mut *session.conn).await?;
    let unsettled = oldest_unsettled(session, lanes).await?;
    let first = fresh(session, route, lanes, (FIRST_OF_LANE, i64::MAX)).await?;
    let mut seen = FreshRows::of(route, &first, now)?;
    let oldest = [parked.try_get::<Option<Time>, _>("oldest")?.map(|at| at.0), unsettled, seen.oldest];
    let full = signed(EXACT_MAX) + 1;
    if seen.lanes.values().any(|lane| lane.rows >= FIRST_OF_LANE) {
        let sample_rest = rest(session, lanes, &seen, &seen).await?;
        if seen.due + sample_rest > EXACT_MAX && behind(session, lanes, 2 * full).await? == 2 * full {
            // So many that reading them would only cost time.
            seen.due += sample_rest;
            seen.rows = seen.rows.max(EXACT_MAX + 1);
        } else {
            let sample = seen;
            seen = FreshRows::of(route, &fresh(session, route, lanes, (full, full)).await?, now)?;
            if seen.rows > EXACT_MAX {
                seen.due += rest(session, lanes, &seen, &sample).await?;
            }
        }
    }
    let number = count(parked.try_get("number")?) + lanes.iter().map(Lane::unsettled).sum::<u64>() + seen.due;
    let estimated = number > EXACT_MAX || seen.rows > EXACT_MAX;
    Ok(Due::new(number, estimated, oldest.into_iter().flatten().min()))
}

async fn oldest_unsettled(session: &mut Session, lanes: &[Lane]) -> Result<Option<i64>, sqlx::Error> {
    let first = lanes.iter().filter_map(|lane| Some((lane.number, lane.first_unsettled()?)));
    let (numbers, first): (Vec<i16>, Vec<i64>) = first.unzip();
    if numbers.is_empty() {
        return Ok(None);
    }
    let oldest = session.sql.scalar::<Option<Time>>(include_str!("../sql/oldest_unsettled.sql"));
    Ok(oldest.bind(numbers).bind(first).fetch_one(&mut *session.conn).await?.map(|at| at.0))
}

/// How many rows the lanes have yet to read, counted up to `max`.
async fn behind(session: &mut Session, lanes: &[Lane], max: i64) -> Result<i64, sqlx::Error> {
    let statement = session.sql.scalar(include_str!("../sql/behind.sql"));
    statement
        .bind(lanes.iter().map(|lane| lane.number).collect::<Vec<_>>())
        .bind(lanes.iter().map(|lane| lane.position.hwm).collect::<Vec<_>>())
        .bind(max)
        .fetch_one(&mut *session.conn)
        .await
}

/// Rows that are yet to be read: so many of each lane, so many of all.
async fn fresh(
    session: &mut Session,
    route: &Registered,
    lanes: &[Lane],
    (of_lane, of_all): (i64, i64),
) -> Result<Vec<PgRow>, sqlx::Error> {
    let pending = lanes.iter().flat_map(|lane| lane.position.pending.iter().map(|(x, lo)| (lane.number, *x, *lo)));
    let (mut of, mut xs, mut los) = (Vec::new(), Vec::new(), Vec::new());
    for (lane, x, lo) in pending {
        of.push(lane);
        xs.push(x);
        los.push(lo);
    }
    session
        .sql
        .query(include_str!("../sql/fresh.sql"))
        .bind(route.name.clone())
        .bind(lanes.iter().map(|lane| lane.number).collect::<Vec<_>>())
        .bind(lanes.iter().map(|lane| lane.position.hwm).collect::<Vec<_>>())
        .bind(of)
        .bind(xs)
        .bind(los)
        .bind(of_lane)
        .bind(of_all)
        .fetch_all(&mut *session.conn)
        .await
}

/// What was read of one lane after its position.
#[derive(Default)]
struct OfLane {
    rows: i64,
    first: i64,
    last: i64,
}

/// What was read of a route's fresh rows.
#[derive(Default)]
struct FreshRows {
    rows: u64,
    due: u64,
    oldest: Option<i64>,
    lanes: BTreeMap<i16, OfLane>,
}

impl FreshRows {
    fn of(route: &Registered, rows: &[PgRow], now: i64) -> Result<Self, sqlx::Error> {
        let mut seen = Self { rows: rows.len() as u64, ..Self::default() };
        for row in rows {
            if let Some(at) = due_since(route, row, now)? {
                seen.due += 1;
                seen.oldest = Some(seen.oldest.map_or(at, |oldest| oldest.min(at)));
            }
            if row.try_get("late")? {
                continue;
            }
            let (seq, lane): (i64, i16) = (row.try_get("seq")?, row.try_get("lane")?);
            let lane = seen.lanes.entry(lane).or_default();
            lane.first = if lane.rows == 0 { seq } else { lane.first };
            lane.rows += 1;
            lane.last = seq;
        }
        Ok(seen)
    }
}

/// How many more are due behind those that were counted: the rest of each lane is taken to be like its first rows.
async fn rest(session: &mut Session, lanes: &[Lane], seen: &FreshRows, sample: &FreshRows) -> Result<u64, sqlx::Error> {
    let drawn: i64 =
        session.sql.scalar("select last_value from postroom.log_seq").fetch_one(&mut *session.conn).await?;
    let mut rows = 0.0;
    for lane in lanes {
        let Some(first) = sample.lanes.get(&lane.number) else { continue };
        let read = seen.lanes.get(&lane.number).map_or(first.first - 1, |read| read.last);
        rows += (drawn - read).max(0) as f64 * first.rows as f64 / (first.last - first.first + 1) as f64;
    }
    let share = seen.due as f64 / seen.rows.max(1) as f64;
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is a number of rows")]
    Ok((rows * share) as u64)
}

/// Since when a fresh event should have been tried; `None` when it need not be yet.
fn due_since(route: &Registered, row: &PgRow, now: i64) -> Result<Option<i64>, sqlx::Error> {
    let Time(appended_at) = row.try_get("appended_at")?;
    let available_at = row.try_get::<Option<Time>, _>("available_at")?.map_or(appended_at, |at| at.0);
    let since = appended_at.max(available_at);
    let is_wanted = route.start_at.is_none_or(|start| appended_at >= start) && wanted(&route.filter, row)?;
    Ok((is_wanted && since <= now && !row.try_get::<bool, _>("blocked")?).then_some(since))
}
