//! Routes and relays: how they are doing, and stopping, starting and forgetting routes.

use std::collections::BTreeMap;

use postroom_core::view::{LaneRow, RelayRow, RouteDetail, RouteStatus};
use postroom_core::{Actor, Pattern, RouteDefinition, RouteHealth, RouteState, StoreError};
use sqlx::sqlite::SqliteRow;
use sqlx::{Row, SqliteConnection};

use super::actions::{Action, record};
use super::audit::counts;
use super::due;
use crate::clock::timestamp;
use crate::error::Fault;
use crate::events::count;
use crate::routes::{self, Registered};
use crate::source::checkpoint::Checkpoint;
use crate::store::Inner;

const MINUTE: i64 = 60_000_000;

pub(super) async fn register(inner: &Inner, routes: &[RouteDefinition]) -> Result<Vec<String>, StoreError> {
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

async fn detail(conn: &mut SqliteConnection, store: &str, route: Registered, now: i64) -> Result<RouteDetail, Fault> {
    let row = sqlx::query(
        "select c.*, l.holder, l.term as lane_term, (select name from postroom_relay where boot = l.holder) as relay \
         from postroom_checkpoint c join postroom_lane l on l.route = c.route and l.lane = c.lane where c.route = ?1",
    )
    .bind(&route.name)
    .fetch_optional(&mut *conn)
    .await?;
    let Some(row) = row else { return Err(routes::no_checkpoint(&route.name).into()) };
    let position = Checkpoint::read(&row)?;
    let counts = counts(&row)?;
    let holder: Option<String> = row.try_get("holder")?;
    let (state, note) = state(conn, &route, holder.as_deref(), now).await?;
    let due = due::of(conn, &route, &position, now).await?;
    let numbers = sqlx::query(include_str!("../sql/route_numbers.sql"))
        .bind(&route.name)
        .bind(now / MINUTE)
        .fetch_one(conn)
        .await?;
    let status = RouteStatus {
        store: store.to_owned(),
        route: route.name,
        to: route.to,
        state,
        due: due.number,
        due_estimated: due.estimated,
        oldest_due_seconds: due.oldest.map_or(0.0, |at| (now - at).max(0) as f64 / 1_000_000.0),
        rate: rate(&numbers, now)?,
        delivered: counts.delivered + counts.recovered,
        retrying: count(numbers.try_get("retrying")?),
        blocked_keys: count(numbers.try_get("blocked_keys")?),
        dead: count(numbers.try_get("dead")?),
        note,
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
        paused_by: route.paused_by,
        lanes: vec![lane],
    })
}

/// Paused by an operator, else what a live relay says of it, its owner first, else nobody's.
async fn state(
    conn: &mut SqliteConnection,
    route: &Registered,
    holder: Option<&str>,
    now: i64,
) -> Result<(RouteState, String), sqlx::Error> {
    if let Some(who) = &route.paused_by {
        let RouteHealth { state, note } = RouteHealth::paused(who);
        return Ok((state, note));
    }
    let health: Option<String> = sqlx::query_scalar(
        "select json_extract(routes, ?1) from postroom_relay \
         where alive_until > ?2 and seen_at - ?2 <= alive_until - seen_at and json_type(routes, ?1) is not null \
         order by boot is ?3 desc, started_at limit 1",
    )
    .bind(routes::path_of(&route.name))
    .bind(now)
    .bind(holder)
    .fetch_optional(conn)
    .await?;
    Ok(match health.map(|text| serde_json::from_str::<RouteHealth>(&text)) {
        Some(Ok(health)) => (health.state, health.note),
        Some(Err(_)) => (RouteState::Running, "its relay is of another version".to_owned()),
        None => (RouteState::Orphan, "no live relay serves this route".to_owned()),
    })
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
                     from postroom_relay r order by started_at, boot",
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

pub(super) async fn pause(inner: &Inner, route: &str, actor: &Actor) -> Result<bool, StoreError> {
    set_paused(inner, route, actor, "route.pause", Some(actor.name.clone())).await
}

pub(super) async fn resume(inner: &Inner, route: &str, actor: &Actor) -> Result<bool, StoreError> {
    set_paused(inner, route, actor, "route.resume", None).await
}

async fn set_paused(
    inner: &Inner,
    route: &str,
    actor: &Actor,
    action: &'static str,
    by: Option<String>,
) -> Result<bool, StoreError> {
    let (route, actor, now) = (route.to_owned(), actor.clone(), inner.now());
    let changed = inner
        .db
        .write("pause", move |conn| {
            Box::pin(async move {
                routes::need(conn, &route, "pause").await?;
                let changed = sqlx::query(
                    "update postroom_route set paused_by = ?2 where name = ?1 and (paused_by is null) <> (?2 is null)",
                )
                .bind(&route)
                .bind(by)
                .execute(&mut *conn)
                .await?
                .rows_affected();
                if changed == 1 {
                    record(conn, &Action::of(&actor, action), &route, 0, now).await?;
                }
                Ok(changed == 1)
            })
        })
        .await?;
    inner.wake.wake();
    Ok(changed)
}
