//! Routes and relays: how they are doing, and stopping and starting routes.

use std::collections::BTreeMap;
use std::sync::Arc;

use postroom_admin::view::{LaneRow, RelayRow, RouteDetail, RouteStatus};
use postroom_core::{Pattern, RouteHealth, StoreError};
use sqlx::Row as _;
use sqlx::postgres::PgRow;

use super::due;
use super::lanes::{self, Lane};
use super::verify::number;
use crate::clock::{Time, timestamp};
use crate::database::Session;
use crate::error::Fault;
use crate::events::count;
use crate::routes::{self, Registered};
use crate::store::Inner;

const MINUTE: i64 = 60_000_000;

pub(super) async fn list(inner: &Arc<Inner>) -> Result<Vec<RouteDetail>, StoreError> {
    let shared = Arc::clone(inner);
    inner
        .db
        .read("routes", move |session| {
            Box::pin(async move {
                let now = shared.now(session).await?;
                let mut details = Vec::new();
                for route in routes::all(session).await? {
                    details.push(detail(session, &shared.name, route, now).await?);
                }
                Ok(details)
            })
        })
        .await
}

/// Reports whether nothing of the route is due or retrying in any lane, whichever relay owns it.
pub(crate) async fn is_drained(inner: &Arc<Inner>, route: &str) -> Result<bool, StoreError> {
    let (shared, route) = (Arc::clone(inner), route.to_owned());
    inner
        .db
        .read("routes", move |session| {
            Box::pin(async move {
                let now = shared.now(session).await?;
                let Some(route) = routes::find(session, &route).await? else { return Ok(true) };
                let status = detail(session, &shared.name, route, now).await?.status;
                Ok(status.due == Some(0) && status.retrying == 0)
            })
        })
        .await
}

async fn detail(session: &mut Session, store: &str, route: Registered, now: i64) -> Result<RouteDetail, Fault> {
    let lanes = lanes::of(session, &route.name).await?;
    let health = health(session, &route, &lanes, now).await?;
    let due = due::of(session, &route, &lanes, now).await?;
    let numbers = session.sql.query(include_str!("../sql/route_numbers.sql")).bind(route.name.clone());
    let numbers = numbers.bind(Time(now - MINUTE)).fetch_one(&mut *session.conn).await?;
    let delivered: u64 =
        lanes.iter().map(|lane| lane.counts.delivered + lane.counts.recovered + lane.counts.replayed).sum();
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
        rate_1m: delivered.saturating_sub(count(numbers.try_get("before")?)) as f64 / 60.0,
        delivered,
        retrying: count(numbers.try_get("retrying")?),
        blocked_keys: count(numbers.try_get("blocked_keys")?),
        dead: count(numbers.try_get("dead")?),
        message: health.message,
        consumers: health.consumers,
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
        lanes: lanes.into_iter().map(lane_row).collect(),
    })
}

fn lane_row(lane: Lane) -> LaneRow {
    LaneRow {
        lane: number(lane.number),
        unsettled: lane.unsettled(),
        holder: lane.relay.or(lane.holder),
        term: lane.term,
        hwm: lane.position.hwm,
        counts: lane.counts,
    }
}

/// What living relays say of it, an owner of its lanes first, else nobody's. Their rates add up.
async fn health(
    session: &mut Session,
    route: &Registered,
    lanes: &[Lane],
    now: i64,
) -> Result<RouteHealth, sqlx::Error> {
    let holders: Vec<String> = lanes.iter().filter_map(|lane| lane.holder.clone()).collect();
    let said: Vec<String> = session
        .sql
        .scalar(
            "select (routes -> $1)::text from postroom.relay \
             where source = '' and alive_until > $2 and seen_at - $2 <= alive_until - seen_at and routes ? $1 \
             order by boot = any($3) desc, started_at, boot",
        )
        .bind(route.name.clone())
        .bind(Time(now))
        .bind(holders)
        .fetch_all(&mut *session.conn)
        .await?;
    Ok(RouteHealth::of_relays(said.iter().map(String::as_str), route.pause.as_ref()))
}

pub(super) async fn relays(inner: &Arc<Inner>) -> Result<Vec<RelayRow>, StoreError> {
    let shared = Arc::clone(inner);
    inner
        .db
        .read("relays", move |session| {
            Box::pin(async move {
                let now = shared.now(session).await?;
                let relays = session.sql.query(
                    "select boot, name, version, started_at, seen_at, alive_until, routes::text as routes, \
                     (select count(*) from postroom.lane where holder = boot) as lanes \
                     from postroom.relay where source = '' order by started_at, boot",
                );
                let rows = relays.fetch_all(&mut *session.conn).await?;
                Ok(rows.iter().map(|row| relay_row(&shared.name, row, now)).collect::<Result<_, _>>()?)
            })
        })
        .await
}

fn relay_row(store: &str, row: &PgRow, now: i64) -> Result<RelayRow, sqlx::Error> {
    let routes: BTreeMap<String, serde_json::Value> =
        serde_json::from_str(row.try_get("routes")?).map_err(|e| sqlx::Error::Decode(e.into()))?;
    let (Time(seen_at), Time(alive_until)) = (row.try_get("seen_at")?, row.try_get("alive_until")?);
    Ok(RelayRow {
        store: store.to_owned(),
        relay: row.try_get("name")?,
        boot: row.try_get("boot")?,
        version: row.try_get("version")?,
        alive: alive_until > now && seen_at - now <= alive_until - seen_at,
        started_at: timestamp(row.try_get::<Time, _>("started_at")?.0),
        seen_at: timestamp(seen_at),
        lanes: count(row.try_get("lanes")?),
        routes: routes.into_keys().collect(),
    })
}
