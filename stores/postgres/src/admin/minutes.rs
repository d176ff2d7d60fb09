//! What routes did, minute by minute: computed from checkpoints and attempts while those are there, and written down before
//! they go.
//!
//! Who prunes writes a minute down when it has ended, and a relay that leaves writes the minute in which it does. Until then
//! a reader computes it. Those of a relay that was killed, and of which nobody else wrote the minutes, stay in its checkpoints
//! until somebody prunes, who writes them first.

use std::collections::BTreeMap;
use std::sync::Arc;

use postroom_admin::view::ThroughputRow;
use postroom_core::{StoreError, Timestamp};
use sqlx::Row as _;
use sqlx::postgres::PgRow;

use super::prune::alone;
use crate::clock::{Time, timestamp};
use crate::database::Session;
use crate::error::Fault;
use crate::events::count;
use crate::store::Inner;

const MINUTE: i64 = 60_000_000;

/// Writes what each route, or one route, did in the minute from $1 to $2. Writing it again replaces it.
const WRITE: &str = concat!(
    "insert into postroom.stat (route, minute, delivered, retried, dead) ",
    include_str!("../sql/minute.sql"),
    "on conflict (source, route, minute) do update set \
     delivered = excluded.delivered, retried = excluded.retried, dead = excluded.dead"
);

/// Writes down what each route did in the minute that ended at `end`.
pub(super) async fn write(inner: &Arc<Inner>, end: i64) -> Result<(), StoreError> {
    inner
        .db
        .write("prune", move |session| {
            Box::pin(async move {
                if alone(session).await? {
                    write_one(session, None, end).await?;
                }
                Ok(())
            })
        })
        .await
}

/// Minutes before $1 of which there are checkpoints and no sums: nobody pruned while, or since, a relay did this.
const UNWRITTEN: &str = "
    select distinct r.name as route, date_bin('1 minute', c.at, timestamptz 'epoch') + interval '1 minute' as ends
    from postroom.route r
    cross join lateral (
      select coalesce(max(s.minute) + interval '1 minute', '-infinity') as from_here
      from postroom.stat s where s.source = '' and s.route = r.name) w
    join postroom.checkpoint c on c.route = r.name and c.at >= w.from_here and c.at < $1
    order by ends desc
    limit 1440";

async fn unwritten(session: &mut Session, before: i64) -> Result<Vec<(String, i64)>, Fault> {
    let minutes = session.sql.query(UNWRITTEN).bind(Time(before));
    let minutes = minutes.fetch_all(&mut *session.conn).await?;
    let minute = |row: &PgRow| Ok((row.try_get("route")?, row.try_get::<Time, _>("ends")?.0));
    minutes.iter().map(minute).collect()
}

/// Writes down what is left of relays that were killed, before their checkpoints go.
pub(super) async fn write_left(inner: &Arc<Inner>, before: i64) -> Result<(), StoreError> {
    inner
        .db
        .write("prune", move |session| {
            Box::pin(async move {
                if alone(session).await? {
                    for (route, end) in unwritten(session, before).await? {
                        write_one(session, Some(&route), end).await?;
                    }
                }
                Ok(())
            })
        })
        .await
}

/// Writes down what a route has done in this minute and the one before.
pub(crate) async fn write_now(inner: &Arc<Inner>, route: &str) -> Result<(), StoreError> {
    let (shared, route) = (Arc::clone(inner), route.to_owned());
    inner
        .db
        .write("release", move |session| {
            Box::pin(async move {
                for end in last_two(shared.now(session).await?) {
                    write_one(session, Some(&route), end).await?;
                }
                Ok(())
            })
        })
        .await
}

async fn write_one(session: &mut Session, route: Option<&str>, end: i64) -> Result<(), Fault> {
    let stat = session.sql.query(WRITE).bind(Time(end - MINUTE)).bind(Time(end)).bind(route.map(str::to_owned));
    stat.execute(&mut *session.conn).await?;
    Ok(())
}

/// The ends of the minute before and of this one.
fn last_two(now: i64) -> [i64; 2] {
    let begun = now.div_euclid(MINUTE) * MINUTE;
    [begun, begun + MINUTE]
}

/// Lists what one route or every route did per minute since `from`, up to now.
pub(super) async fn list(
    inner: &Arc<Inner>,
    written: Vec<ThroughputRow>,
    route: Option<&str>,
    from: Timestamp,
) -> Result<Vec<ThroughputRow>, StoreError> {
    let (shared, route) = (Arc::clone(inner), route.map(str::to_owned));
    inner
        .db
        .read("throughput", move |session| {
            Box::pin(async move {
                let of = |row: &ThroughputRow| (row.route.clone(), row.minute);
                let mut rows: BTreeMap<_, _> = written.into_iter().map(|row| (of(&row), row)).collect();
                let now = shared.now(session).await?;
                // Of relays that were killed, route by route: what others did in that minute is written and their checkpoints gone.
                let left = unwritten(session, now.div_euclid(MINUTE) * MINUTE - MINUTE).await?;
                let left = left.into_iter().map(|(route, end)| (Some(route), end));
                let left = left.filter(|(left, _)| route.is_none() || *left == route);
                for (route, end) in last_two(now).map(|end| (route.clone(), end)).into_iter().chain(left) {
                    if timestamp(end) <= from {
                        continue;
                    }
                    let minute = session.sql.query(include_str!("../sql/minute.sql"));
                    let minute = minute.bind(Time(end - MINUTE)).bind(Time(end)).bind(route);
                    for row in minute.fetch_all(&mut *session.conn).await? {
                        let row = ThroughputRow {
                            store: shared.name.clone(),
                            route: row.try_get("route")?,
                            minute: timestamp(end - MINUTE),
                            delivered: count(row.try_get("delivered")?),
                            retried: count(row.try_get("retried")?),
                            dead: count(row.try_get("dead")?),
                        };
                        if row.delivered + row.retried + row.dead > 0 {
                            rows.insert(of(&row), row);
                        }
                    }
                }
                Ok(rows.into_values().collect())
            })
        })
        .await
}
