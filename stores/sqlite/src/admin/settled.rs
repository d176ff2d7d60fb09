//! Settled events that may be sent again: where they are, and the deliveries of their own that send them, which block
//! nobody and are part of no count.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

use postroom_admin::view::Affected;
use postroom_admin::{Selection, SettledDelivery, SettledStep, Summary};
use postroom_core::{Ranges, StoreError};
use serde_json::json;
use sqlx::sqlite::SqliteRow;
use sqlx::{QueryBuilder, Row, SqliteConnection};

use super::selection;
use crate::clock::timestamp;
use crate::error::Fault;
use crate::events::{maybe_text, wanted};
use crate::routes::{self, Registered};
use crate::source::checkpoint::Checkpoint;
use crate::store::Inner;

/// Events looked at per statement.
const ROWS_AT_ONCE: usize = 1_000;

/// How far each route had come.
type Until = BTreeMap<String, i64>;

pub(super) async fn count(
    inner: &Inner,
    which: &Selection,
    inbox_window: Option<Duration>,
) -> Result<Affected, StoreError> {
    let (which, mut summary) = (which.clone(), Summary::new(inbox_window, inner.clock.now()));
    inner
        .db
        .read("replay", move |conn| {
            Box::pin(async move {
                let mut walk = SettledScan::of_all(conn, which.route.as_deref(), 0).await?;
                while let Some(found) = walk.next(conn, &which).await? {
                    for (row, route) in &found.deliveries {
                        let row = &found.rows[*row];
                        let key = maybe_text(row, "ordering_key")?.map(Cow::into_owned);
                        let time = |column| row.try_get(column).map(timestamp);
                        summary.add(route, key, time("occurred_at")?, time("appended_at")?);
                    }
                }
                Ok(summary.finish())
            })
        })
        .await
}

/// How far the selected routes have come by now, as JSON.
pub(super) async fn until(conn: &mut SqliteConnection, route: Option<&str>) -> Result<String, Fault> {
    let walk = SettledScan::of_all(conn, route, 0).await?;
    let until: Until = walk.places.into_iter().map(|place| (place.route.name, place.hwm)).collect();
    Ok(json!(until).to_string())
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
    conn: &mut SqliteConnection,
    which: &Selection,
    until: &str,
    cursor: &str,
    at_most: u64,
) -> Result<SettledStep, Fault> {
    let from = Cursor::read(cursor);
    let until: Until = serde_json::from_str(until).map_err(|error| sqlx::Error::Decode(error.into()))?;
    let after = if from.route.is_some() { from.seq - 1 } else { from.seq };
    let mut walk = SettledScan::of(conn, &until, after).await?;
    let mut deliveries = Vec::new();
    while let Some(stretch) = walk.next(conn, which).await? {
        for (row, route) in &stretch.deliveries {
            let seq = stretch.rows[*row].try_get("seq")?;
            if from.is_past(seq, route) {
                continue;
            }
            deliveries.push(SettledDelivery { route: route.clone(), lane: 0, seq });
            if deliveries.len() as u64 == at_most {
                return Ok(SettledStep { deliveries, cursor: format!("{seq} {route}"), last: false });
            }
        }
    }
    Ok(SettledStep { deliveries, cursor: walk.after.to_string(), last: true })
}

/// Makes the deliveries that are not there yet; returns how many those are.
pub(super) async fn deliver(
    conn: &mut SqliteConnection,
    deliveries: &[SettledDelivery],
    replay: &str,
    now: i64,
) -> Result<u64, sqlx::Error> {
    let mut routes: BTreeMap<&str, Vec<i64>> = BTreeMap::new();
    for SettledDelivery { route, seq, .. } in deliveries {
        routes.entry(route).or_default().push(*seq);
    }
    let mut made = 0;
    for (route, numbers) in routes {
        let insert = sqlx::query(include_str!("../sql/replay.sql"));
        let insert = insert.bind(route).bind(json!(numbers).to_string()).bind(now).bind(replay);
        made += insert.execute(&mut *conn).await?.rows_affected();
    }
    Ok(made)
}

/// A walk through what routes have settled, in order of number.
struct SettledScan {
    places: Vec<Place>,
    /// Everything up to here has been looked at.
    after: i64,
}

/// A route, how far it has come, and what of that has no outcome.
struct Place {
    route: Registered,
    hwm: i64,
    unsettled: Ranges,
}

/// A part of the log.
struct LogPage {
    rows: Vec<SqliteRow>,
    /// What of it is to be sent again: the place of its row, and the route.
    deliveries: Vec<(usize, String)>,
}

impl SettledScan {
    /// Through everything that one route, or every route, has settled by now.
    async fn of_all(conn: &mut SqliteConnection, route: Option<&str>, after: i64) -> Result<Self, Fault> {
        let wanted = match route {
            Some(name) => vec![routes::need(conn, name, "replay").await?],
            None => routes::all(conn).await?,
        };
        let mut places = Vec::new();
        for route in wanted {
            let row = sqlx::query("select * from postroom_checkpoint where route = ?1 and lane = 0")
                .bind(&route.name)
                .fetch_optional(&mut *conn)
                .await?;
            let Some(row) = row else { return Err(routes::no_checkpoint(&route.name).into()) };
            let Checkpoint { hwm, unsettled, .. } = Checkpoint::read(&row)?;
            places.push(Place { route, hwm, unsettled });
        }
        Ok(Self { places, after })
    }

    /// Through what routes had seen then and have settled by now; those that are forgotten have none.
    async fn of(conn: &mut SqliteConnection, until: &Until, after: i64) -> Result<Self, Fault> {
        let mut walk = Self::of_all(conn, None, after).await?;
        walk.places.retain_mut(|place| match until.get(&place.route.name) {
            Some(hwm) => {
                place.hwm = place.hwm.min(*hwm);
                true
            }
            None => false,
        });
        Ok(walk)
    }

    async fn next(&mut self, conn: &mut SqliteConnection, which: &Selection) -> Result<Option<LogPage>, sqlx::Error> {
        let last = self.places.iter().map(|place| place.hwm).max().unwrap_or(0);
        let rows = settled(conn, which, self.after, last).await?;
        let Some(end) = rows.last() else { return Ok(None) };
        self.after = end.try_get("seq")?;
        let open = open(conn, &rows).await?;
        let mut deliveries = Vec::new();
        for (n, row) in rows.iter().enumerate() {
            let seq = row.try_get("seq")?;
            for Place { route, hwm, unsettled } in &self.places {
                let settled = seq <= *hwm && !unsettled.contains(seq);
                if settled && wanted(&route.filter, row)? && !open.contains(&(seq, route.name.clone())) {
                    deliveries.push((n, route.name.clone()));
                }
            }
        }
        Ok(Some(LogPage { rows, deliveries }))
    }
}

async fn settled(
    conn: &mut SqliteConnection,
    which: &Selection,
    after: i64,
    last: i64,
) -> Result<Vec<SqliteRow>, sqlx::Error> {
    let mut query = QueryBuilder::new(
        "select l.seq, l.type, l.aggregate_type, l.tenant, l.occurred_at, l.appended_at, \
         coalesce(l.key, l.aggregate_id) as ordering_key from postroom_log l where l.seq > ",
    );
    query.push_bind(after).push(" and l.seq <= ").push_bind(last);
    selection::on_log(&mut query, which);
    query.push(" order by l.seq limit ").push_bind(i64::try_from(ROWS_AT_ONCE).unwrap_or(i64::MAX));
    query.build().fetch_all(conn).await
}

/// Which of these numbers are already on their way, and to which routes.
async fn open(conn: &mut SqliteConnection, rows: &[SqliteRow]) -> Result<HashSet<(i64, String)>, sqlx::Error> {
    let numbers = rows.iter().map(|row| row.try_get("seq")).collect::<Result<Vec<i64>, _>>()?;
    let open =
        sqlx::query_as("select seq, route from postroom_delivery where seq in (select value from json_each(?1))")
            .bind(json!(numbers).to_string())
            .fetch_all(conn)
            .await?;
    Ok(open.into_iter().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_says_what_is_done_of_a_number_that_several_routes_want() {
        assert!(!Cursor::read("").is_past(1, "a"));
        assert!(Cursor::read("7").is_past(7, "z") && !Cursor::read("7").is_past(8, "a"));
        let half = Cursor::read("7 mailer");
        assert!(half.is_past(6, "z") && half.is_past(7, "billing") && half.is_past(7, "mailer"));
        assert!(!half.is_past(7, "search") && !half.is_past(8, "billing"));
    }
}
