//! Settled events that may be sent again: where they are, and the deliveries of their own that send them, which block
//! nobody and are part of no count.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use postroom_admin::view::Affected;
use postroom_admin::{Selection, SettledDelivery, SettledStep, Summary};
use postroom_core::StoreError;
use sqlx::Row as _;
use sqlx::postgres::PgRow;

use super::events::wanted;
use super::lanes::{self, Lane};
use super::selection;
use crate::clock::{Time, timestamp};
use crate::database::Session;
use crate::error::Fault;
use crate::events::signed;
use crate::routes::{self, Registered};
use crate::store::Inner;

/// Numbers looked at per statement when everything is counted.
const WINDOW: i64 = 20_000;
/// The same when only a few are wanted, and how many of them a step looks at before it makes do with what it has.
const SMALL_WINDOW: i64 = 4_000;
const WINDOWS_MAX: usize = 50;

/// How far each lane of each route had come.
type Until = BTreeMap<String, Vec<i64>>;

pub(super) async fn count(
    inner: &Arc<Inner>,
    which: &Selection,
    inbox_window: Option<Duration>,
) -> Result<Affected, StoreError> {
    let (shared, name) = (Arc::clone(inner), which.route.clone());
    let (mut walk, now) = inner
        .db
        .read("replay", move |session| {
            Box::pin(async move {
                let walk = SettledScan::of_all(session, name.as_deref(), shared.partitioning.lanes).await?;
                Ok((walk, shared.now(session).await?))
            })
        })
        .await?;
    walk.window = WINDOW;
    let mut summary = Summary::new(inbox_window, timestamp(now));
    while walk.after < walk.last {
        let which = which.clone();
        (walk, summary) = inner
            .db
            .read("replay", move |session| {
                Box::pin(async move {
                    let found = walk.next(session, &which).await?;
                    for (row, route) in &found.deliveries {
                        let row = &found.rows[*row];
                        let time = |column| row.try_get::<Time, _>(column).map(|at| timestamp(at.0));
                        summary.add(route, row.try_get("ordering_key")?, time("occurred_at")?, time("appended_at")?);
                    }
                    Ok((walk, summary))
                })
            })
            .await?;
    }
    Ok(summary.finish())
}

/// How far the selected routes have come by now, as JSON.
pub(super) async fn until(session: &mut Session, route: Option<&str>, lanes: i16) -> Result<String, Fault> {
    let walk = SettledScan::of_all(session, route, lanes).await?;
    let reached = |place: Place| (place.route.name, place.lanes.into_iter().map(|lane| lane.position.hwm).collect());
    let until: Until = walk.places.into_iter().map(reached).collect();
    Ok(serde_json::json!(until).to_string())
}

/// Where a replay of settled events has got to: everything before `seq`, and at `seq` the routes up to `route`; all of
/// them when it is none.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Cursor {
    seq: i64,
    route: Option<String>,
}

impl Cursor {
    fn read(text: &str) -> Self {
        let (seq, route) = text.split_once(' ').map_or((text, None), |(seq, route)| (seq, Some(route.to_owned())));
        Self { seq: seq.parse().unwrap_or(0), route }
    }

    fn is_past(&self, seq: i64, route: &str) -> bool {
        seq < self.seq || seq == self.seq && self.route.as_deref().is_none_or(|done| route <= done)
    }
}

/// Finds the next deliveries of a replay, at most so many. Looks without a lock; what changes meanwhile is left out when
/// they are made.
pub(super) async fn next(
    session: &mut Session,
    lanes: i16,
    which: &Selection,
    until: &str,
    cursor: &str,
    at_most: u64,
) -> Result<SettledStep, Fault> {
    let from = Cursor::read(cursor);
    let until: Until = serde_json::from_str(until).map_err(|error| sqlx::Error::Decode(error.into()))?;
    let mut walk = SettledScan::of(session, &until, lanes).await?;
    walk.after = if from.route.is_some() { from.seq - 1 } else { from.seq };
    let mut deliveries = Vec::new();
    for _ in 0..WINDOWS_MAX {
        let stretch = walk.next(session, which).await?;
        for (row, route) in &stretch.deliveries {
            let row = &stretch.rows[*row];
            let seq = row.try_get("seq")?;
            if from.is_past(seq, route) {
                continue;
            }
            deliveries.push(SettledDelivery { route: route.clone(), lane: row.try_get("lane")?, seq });
            if deliveries.len() as u64 == at_most {
                return Ok(SettledStep { deliveries, cursor: format!("{seq} {route}"), last: false });
            }
        }
        if walk.after >= walk.last {
            break;
        }
    }
    let last = walk.after >= walk.last;
    Ok(SettledStep { deliveries, cursor: walk.after.to_string(), last })
}

/// Makes the deliveries that are not there yet; returns how many those are.
pub(super) async fn deliver(
    session: &mut Session,
    deliveries: &[SettledDelivery],
    replay: &str,
    now: i64,
) -> Result<u64, sqlx::Error> {
    lanes::lock(session, &deliveries.iter().map(|one| (one.route.clone(), one.lane)).collect()).await?;
    let mut routes: BTreeMap<&str, (Vec<i16>, Vec<i64>)> = BTreeMap::new();
    for SettledDelivery { route, lane, seq } in deliveries {
        let (lanes, numbers) = routes.entry(route).or_default();
        lanes.push(*lane);
        numbers.push(*seq);
    }
    let mut made = 0;
    for (route, (lanes, numbers)) in routes {
        let insert = session.sql.query(include_str!("../sql/replay.sql")).bind(route.to_owned());
        let insert = insert.bind(lanes).bind(numbers).bind(Time(now)).bind(replay.to_owned());
        made += insert.execute(&mut *session.conn).await?.rows_affected();
    }
    Ok(made)
}

/// A walk through what routes have settled, in order of number.
struct SettledScan {
    places: Vec<Place>,
    /// How many lanes the log has.
    lanes: i16,
    /// Everything up to here has been looked at, and nothing after `last` is looked for.
    after: i64,
    last: i64,
    /// Numbers looked at together.
    window: i64,
}

/// A route with its lanes.
struct Place {
    route: Registered,
    lanes: Vec<Lane>,
}

/// A part of the log.
struct LogPage {
    rows: Vec<PgRow>,
    /// What of it is to be sent again: the place of its row, and the route.
    deliveries: Vec<(usize, String)>,
}

impl SettledScan {
    /// Through everything that one route, or every route, has settled by now.
    async fn of_all(session: &mut Session, route: Option<&str>, lanes: i16) -> Result<Self, Fault> {
        let routes = match route {
            Some(name) => vec![routes::need(session, name, "replay").await?],
            None => routes::all(session).await?,
        };
        let mut places = Vec::new();
        for route in routes {
            let lanes = lanes::of(session, &route.name).await?;
            places.push(Place { route, lanes });
        }
        let all = places.iter().flat_map(|place| &place.lanes);
        let last = all.map(|lane| lane.position.hwm).max().unwrap_or(0);
        Ok(Self { places, lanes, after: 0, last, window: SMALL_WINDOW })
    }

    /// Through what routes had seen then and have settled by now; those that are forgotten have none.
    async fn of(session: &mut Session, until: &Until, lanes: i16) -> Result<Self, Fault> {
        let mut walk = Self::of_all(session, None, lanes).await?;
        walk.places.retain_mut(|place| {
            let Some(reached) = until.get(&place.route.name) else { return false };
            for (lane, hwm) in place.lanes.iter_mut().zip(reached) {
                lane.position.hwm = lane.position.hwm.min(*hwm);
            }
            true
        });
        let all = walk.places.iter().flat_map(|place| &place.lanes);
        walk.last = all.map(|lane| lane.position.hwm).max().unwrap_or(0);
        Ok(walk)
    }

    async fn next(&mut self, session: &mut Session, which: &Selection) -> Result<LogPage, sqlx::Error> {
        let rows = self.look(session, which).await?;
        let open = open(session, &rows).await?;
        let mut deliveries = Vec::new();
        for (n, row) in rows.iter().enumerate() {
            let (seq, tx, number): (i64, i64, i16) = (row.try_get("seq")?, row.try_get("tx")?, row.try_get("lane")?);
            for Place { route, lanes } in &self.places {
                let settled = lanes.iter().any(|lane| lane.number == number && lane.is_settled(tx, seq));
                if settled && wanted(&route.filter, row)? && !open.contains(&(seq, route.name.clone())) {
                    deliveries.push((n, route.name.clone()));
                }
            }
        }
        Ok(LogPage { rows, deliveries })
    }

    /// The next events that are selected, of a window of numbers; or of all, when the indexes find them.
    async fn look(&mut self, session: &mut Session, which: &Selection) -> Result<Vec<PgRow>, sqlx::Error> {
        let narrow = selection::is_narrow(which);
        let end = if narrow { self.last } else { self.last.min(self.after.saturating_add(self.window)) };
        let mut query = session.sql.builder(
            "select l.lane, l.seq, l.tx, l.type, l.aggregate_type, l.tenant, l.occurred_at, l.appended_at, \
             coalesce(l.key, l.aggregate_id) as ordering_key from postroom.event l where l.seq > ",
        );
        query.push_bind(self.after).push(" and l.seq <= ").push_bind(end);
        selection::on_log(&mut query, which);
        if narrow {
            query.push(" order by l.seq limit ").push_bind(self.window);
        } else {
            query.push(" and l.lane = any(").push_bind((0..self.lanes).collect::<Vec<_>>()).push(") order by l.seq");
        }
        let rows = query.build().persistent(false).fetch_all(&mut *session.conn).await?;
        let full = narrow && signed(rows.len() as u64) == self.window;
        self.after = match rows.last().filter(|_| full) {
            Some(row) => row.try_get("seq")?,
            None if rows.is_empty() && end < self.last => self.before_next(session, end).await?,
            None => end,
        };
        Ok(rows)
    }

    /// Numbers have gaps, small ones by rollbacks and large ones by retention: how far there is nothing after `end`.
    async fn before_next(&self, session: &mut Session, end: i64) -> Result<i64, sqlx::Error> {
        let next = session.sql.scalar(include_str!("../sql/after.sql")).bind(i32::from(self.lanes)).bind(end);
        let next: Option<i64> = next.fetch_one(&mut *session.conn).await?;
        Ok(next.map_or(self.last, |next| (next - 1).min(self.last)))
    }
}

/// Which of these numbers are already on their way, and to which routes.
async fn open(session: &mut Session, rows: &[PgRow]) -> Result<HashSet<(i64, String)>, sqlx::Error> {
    let numbers = rows.iter().map(|row| row.try_get("seq")).collect::<Result<Vec<i64>, _>>()?;
    let open = session.sql.query("select seq, route from postroom.delivery where seq = any($1)").bind(numbers);
    let rows = open.fetch_all(&mut *session.conn).await?;
    rows.iter().map(|row| Ok((row.try_get(0)?, row.try_get(1)?))).collect()
}
