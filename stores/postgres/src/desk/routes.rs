//! Routes and relays: how they are doing, and stopping and starting routes.

use std::collections::BTreeMap;
use std::sync::Arc;

use postroom_core::view::{LaneRow, RelayRow, RouteDetail, RouteStatus};
use postroom_core::{Actor, Pattern, RouteHealth, RouteState, StoreError};
use sqlx::Row as _;
use sqlx::postgres::PgRow;

use super::actions::{Action, record};
use super::audit::number;
use super::due;
use super::lanes::{self, Lane};
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

async fn detail(session: &mut Session, store: &str, route: Registered, now: i64) -> Result<RouteDetail, Fault> {
    let lanes = lanes::of(session, &route.name).await?;
    let (state, note) = state(session, &route, &lanes, now).await?;
    let due = due::of(session, &route, &lanes, now).await?;
    let numbers = session.sql.query(include_str!("../sql/route_numbers.sql")).bind(route.name.clone());
    let numbers = numbers.bind(Time(now - MINUTE)).fetch_one(&mut *session.conn).await?;
    let delivered: u64 = lanes.iter().map(|lane| lane.counts.delivered + lane.counts.recovered).sum();
    let status = RouteStatus {
        store: store.to_owned(),
        route: route.name,
        to: route.to,
        state,
        due: due.number,
        due_estimated: due.estimated,
        oldest_due_seconds: due.oldest.map_or(0.0, |at| (now - at).max(0) as f64 / 1_000_000.0),
        rate: delivered.saturating_sub(count(numbers.try_get("before")?)) as f64 / 60.0,
        delivered,
        retrying: count(numbers.try_get("retrying")?),
        blocked_keys: count(numbers.try_get("blocked_keys")?),
        dead: count(numbers.try_get("dead")?),
        note,
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

/// What a living relay says of it, an owner of its lanes first, else nobody's.
async fn state(
    session: &mut Session,
    route: &Registered,
    lanes: &[Lane],
    now: i64,
) -> Result<(RouteState, String), sqlx::Error> {
    if let Some(who) = &route.paused_by {
        let RouteHealth { state, note } = RouteHealth::paused(who);
        return Ok((state, note));
    }
    let holders: Vec<String> = lanes.iter().filter_map(|lane| lane.holder.clone()).collect();
    let health: Option<String> = session
        .sql
        .scalar(
            "select (routes -> $1)::text from postroom.relay \
             where alive_until > $2 and seen_at - $2 <= alive_until - seen_at and routes ? $1 \
             order by boot = any($3) desc, started_at, boot limit 1",
        )
        .bind(route.name.clone())
        .bind(Time(now))
        .bind(holders)
        .fetch_optional(&mut *session.conn)
        .await?;
    Ok(match health.map(|text| serde_json::from_str::<RouteHealth>(&text)) {
        Some(Ok(health)) => (health.state, health.note),
        Some(Err(_)) => (RouteState::Running, "its relay is of another version".to_owned()),
        None => (RouteState::Orphan, "no live relay serves this route".to_owned()),
    })
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
                     from postroom.relay order by started_at, boot",
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

pub(super) async fn pause(inner: &Arc<Inner>, route: &str, actor: &Actor) -> Result<bool, StoreError> {
    set_paused(inner, route, actor, "route.pause", Some(actor.name.clone())).await
}

pub(super) async fn resume(inner: &Arc<Inner>, route: &str, actor: &Actor) -> Result<bool, StoreError> {
    set_paused(inner, route, actor, "route.resume", None).await
}

async fn set_paused(
    inner: &Arc<Inner>,
    route: &str,
    actor: &Actor,
    action: &'static str,
    by: Option<String>,
) -> Result<bool, StoreError> {
    let (shared, route, actor) = (Arc::clone(inner), route.to_owned(), actor.clone());
    let changed = inner
        .db
        .write("pause", move |session| {
            Box::pin(async move {
                routes::need(session, &route, "pause").await?;
                let now = shared.now(session).await?;
                let change = session.sql.query(
                    "update postroom.route set paused_by = $2 where name = $1 and (paused_by is null) <> ($2 is null)",
                );
                let changed = change.bind(route.clone()).bind(by).execute(&mut *session.conn).await?.rows_affected();
                if changed == 1 {
                    record(session, &Action::of(&actor, action), &route, 0, now).await?;
                }
                Ok(changed == 1)
            })
        })
        .await?;
    inner.wake.wake();
    Ok(changed)
}
