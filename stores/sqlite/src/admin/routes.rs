//! Routes and relays: how they are doing, and stopping, starting and forgetting routes.

use std::collections::BTreeMap;

use postroom_admin::view::{LaneRow, RelayRow, RouteDetail, RouteStatus};
use postroom_core::{Pattern, RouteHealth, RouteSpec, StoreError};
use sqlx::sqlite::SqliteRow;
use sqlx::{Row, SqliteConnection};

use super::due;
use super::verify::counts;
use crate::clock::timestamp;
use crate::error::Fault;
use crate::events::count;
use crate::routes::{self, Registered};
use crate::source::checkpoint::Checkpoint;
use crate::store::Inner;

const MINUTE: i64 = 60_000_000;

pub(super) async fn register(inner: &Inner, routes: &[RouteSpec]) -> Result<Vec<String>, StoreError> {
    let (routes, now) = (routes.to_vec(), inner.now());
    inner
        .db
        .write("register", move |conn| {
            Box::pin(async move {
                let mut new = Vec::new();
                for route in routes {
                    if routes::register(conn, &route, now).await? {
                        new.push(route.name);
                    }
                }
                Ok(new)
            })
        })
        .await
}

pub(super) async fn list(inner: &Inner) -> Result<Vec<RouteDetail>, StoreError> {
    let (store, now) = (inner.name.clone(), inner.now());
    inner
        .db
        .read("routes", move |conn| {
            Box::pin(async move {
                let mut details = Vec::new();
                for route in routes::all(conn).await? {
                    details.push(detail(conn, &store, route, now).await?);
                }
                Ok(details)
            })
        })
        .await
}

/// Reports whether nothing of the route is due or retrying, whichever relay owns it.
pub(crate) async fn is_drained(inner: &Inner, route: &str) -> Result<bool, StoreError> {
    let (store, route, now) = (inner.name.clone(), route.to_owned(), inner.now());
    inner
        .db
        .read("routes", move |conn| {
            Box::pin(async move {
                let Some(route) = routes::find(conn, &route).await? else { return Ok(true) };
                let status = detail(conn, &store, route, now).await?.status;
                Ok(status.due == Some(0) && status.retrying == 0)
            })
        })
        .await
}

async fn detail(conn: &mut SqliteConnection, store: &str, route: Registered, now: i64) -> Result<RouteDetail, Fault> {
    let row = sqlx::query(
        "select c.*, l.holder, l.term as lane_term, (select name from postroom_relay where source = '' and boot = l.holder) as relay \
         from postroom_checkpoint c join postroom_lane l on l.route = c.route and l.lane = c.lane where c.route = ?1",
    )
    .bind(&route.name)
    .fetch_optional(&mut *conn)
    .await?;
    let Some(row) = row else { return Err(routes::no_checkpoint(&route.name).into()) };
    let position = Checkpoint::read(&row)?;
    let counts = counts(&row)?;
    let holder: Option<String> = row.try_get("holder")?;
    let health = health(conn, &route, holder.as_deref(), now).await?;
    let due = due::of(conn, &route, &position, now).await?;
    let numbers = sqlx::query(include_str!("../sql/route_numbers.sql"))
        .bind(&route.name)
        .bind(now - now.rem_euclid(MINUTE))
        .fetch_one(conn)
        .await?;
    let status = RouteStatus {
        store: store.to_owned(),
        route: route.name,
        to: route.to,
        state: health.state,
        since: health.since,
        next_try: health.next_try,
        due: due.number,
        due_estimated: due.estimated,
        oldest_due_seconds: due.age_seconds(now),
        rate: health.rate,
        rate_1m: rate(&numbers, now)?,
        delivered: counts.delivered + counts.recovered + counts.replayed,
        retrying: count(numbers.try_get("retrying")?),
        blocked_keys: count(numbers.try_get("blocked_keys")?),
        dead: count(numbers.try_get("dead")?),
        message: health.message,
        consumers: health.consumers,
    };
    let lane = LaneRow {
        lane: 0,
        holder: row.try_get::<Option<String>, _>("relay")?.or(holder),
        term: row.try_get("lane_term")?,
        hwm: position.hwm,
        unsettled: position.unsettled.len(),
        counts,
    };
    let words = |patterns: &[Pattern]| patterns.iter().map(ToString::to_string).collect();
    Ok(RouteDetail {
        status,
        types: words(&route.filter.types),
        aggregate_type: words(&route.filter.aggregate_type),
        tenant: words(&route.filter.tenant),
        start: route.start,
        on_failure: route.on_failure,
        on_dead: route.on_dead,
        registered_at: timestamp(route.since),
        paused_at: route.pause.as_ref().map(|pause| pause.at),
        pause_reason: route.pause.as_ref().and_then(|pause| pause.reason.clone()),
        paused_by: route.pause.map(|pause| pause.by),
        lanes: vec![lane],
    })
}

/// What live relays say of the route, its owner first, else nobody's. Their rates add up.
async fn health(
    conn: &mut SqliteConnection,
    route: &Registered,
    holder: Option<&str>,
    now: i64,
) -> Result<RouteHealth, sqlx::Error> {
    let said: Vec<String> = sqlx::query_scalar(
        "select json_extract(routes, ?1) from postroom_relay \
         where source = '' and alive_until > ?2 and seen_at - ?2 <= alive_until - seen_at and json_type(routes, ?1) is not null \
         order by boot is ?3 desc, started_at",
    )
    .bind(routes::path_of(&route.name))
    .bind(now)
    .bind(holder)
    .fetch_all(conn)
    .await?;
    Ok(RouteHealth::of_relays(said.iter().map(String::as_str), route.pause.as_ref()))
}

/// Deliveries per second over the last minute: this minute's, and of the one before what still counts.
fn rate(numbers: &SqliteRow, now: i64) -> Result<f64, sqlx::Error> {
    let (this, before): (i64, i64) = (numbers.try_get("this_minute")?, numbers.try_get("minute_before")?);
    let gone = (now % MINUTE) as f64 / MINUTE as f64;
    Ok((this as f64 + before as f64 * (1.0 - gone)) / 60.0)
}

pub(super) async fn relays(inner: &Inner) -> Result<Vec<RelayRow>, StoreError> {
    let (store, now) = (inner.name.clone(), inner.now());
    inner
        .db
        .read("relays", move |conn| {
            Box::pin(async move {
                let rows = sqlx::query(
                    "select r.*, (select count(*) from postroom_lane where holder = r.boot) as lanes \
                     from postroom_relay r where source = '' order by started_at, boot",
                )
                .fetch_all(conn)
                .await?;
                Ok(rows.iter().map(|row| relay_row(&store, row, now)).collect::<Result<_, _>>()?)
            })
        })
        .await
}

fn relay_row(store: &str, row: &SqliteRow, now: i64) -> Result<RelayRow, sqlx::Error> {
    let routes: BTreeMap<String, serde_json::Value> =
        serde_json::from_str(row.try_get("routes")?).map_err(|e| sqlx::Error::Decode(e.into()))?;
    let (seen_at, alive_until): (i64, i64) = (row.try_get("seen_at")?, row.try_get("alive_until")?);
    Ok(RelayRow {
        store: store.to_owned(),
        relay: row.try_get("name")?,
        boot: row.try_get("boot")?,
        version: row.try_get("version")?,
        alive: alive_until > now && seen_at - now <= alive_until - seen_at,
        started_at: timestamp(row.try_get("started_at")?),
        seen_at: timestamp(seen_at),
        lanes: count(row.try_get("lanes")?),
        routes: routes.into_keys().collect(),
    })
}
