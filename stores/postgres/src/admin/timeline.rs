//! Where is my event? Everything known of one, on every route.

use std::sync::Arc;

use postroom_admin::inbox;
use postroom_admin::view::{ArrivalRow, AttemptRow, RouteTimeline, Timeline, arrivals};
use postroom_core::{DeliveryState, Event, StoreError};
use serde_json::Value;
use sqlx::Row as _;
use sqlx::postgres::PgRow;

use super::verify::number;
use super::{backend, lanes};
use crate::clock::{Time, micros, timestamp};
use crate::database::Session;
use crate::error::Fault;
use crate::events::{COLUMNS, Logged, count, event_row};
use crate::routes::{self, Registered};
use crate::store::Inner;

pub(super) async fn of(inner: &Arc<Inner>, id: &str, with_payload: bool) -> Result<Option<Timeline>, StoreError> {
    let (shared, id) = (Arc::clone(inner), id.to_owned());
    inner
        .db
        .read("event", move |session| {
            Box::pin(async move {
                let now = shared.now(session).await?;
                timeline(session, &shared.name, &id, with_payload, now).await
            })
        })
        .await
}

async fn timeline(
    session: &mut Session,
    store: &str,
    id: &str,
    with_payload: bool,
    now: i64,
) -> Result<Option<Timeline>, Fault> {
    let rows = session.sql.query("select * from postroom.event l where l.id = $1 order by l.seq").bind(id.to_owned());
    let mut rows = rows.fetch_all(&mut *session.conn).await?;
    let Some(row) = rows.pop() else { return Ok(None) };
    let same_id_at = rows.iter().map(|row| row.try_get("seq")).collect::<Result<_, _>>()?;
    let Some(logged) = logged(session, &row, with_payload).await? else { return Ok(None) };
    let mut on_routes = Vec::new();
    for route in routes::all(session).await? {
        on_routes.push(on_route(session, route, &logged, now).await?);
    }
    let event = &logged.event;
    Ok(Some(Timeline {
        event: event_row(store, &row)?,
        lane: number(logged.lane),
        content_type: event.content_type.clone(),
        correlation_id: event.correlation().to_owned(),
        causation_id: event.causation_id.clone(),
        schema_version: event.schema_version,
        headers: event.headers.clone(),
        attributes: event.attributes.clone(),
        payload: with_payload.then(|| payload(event)),
        routes: on_routes,
        inbox: inbox::of_event(session, store, id).await.map_err(backend::fault)?,
        same_id_at,
    }))
}

/// The whole event; its payload only when it is asked for. `None` when its partition was truncated meanwhile.
async fn logged(session: &mut Session, row: &PgRow, with_payload: bool) -> Result<Option<Logged>, sqlx::Error> {
    let evacuated: bool = row.try_get("evacuated")?;
    let text = format!(
        "select {COLUMNS}, case when $3 then l.payload end from {} l where l.lane = $1 and l.seq = $2",
        if evacuated { "postroom.evacuated" } else { "postroom.log" }
    );
    let found = session.sql.query_made(session.sql.made(&text).into());
    let found = found.bind(row.try_get::<i16, _>("lane")?).bind(row.try_get::<i64, _>("seq")?).bind(with_payload);
    found.fetch_optional(&mut *session.conn).await?.as_ref().map(Logged::read).transpose()
}

/// JSON as it is, anything else as text.
fn payload(event: &Event) -> Value {
    let json = if event.is_json() { event.payload_as().ok() } else { None };
    json.unwrap_or_else(|| Value::String(String::from_utf8_lossy(&event.payload).into_owned()))
}

async fn on_route(session: &mut Session, route: Registered, logged: &Logged, now: i64) -> Result<RouteTimeline, Fault> {
    let arrivals = arrivals(receipts(session, &route.name, logged).await?);
    let last = arrivals.last().cloned();
    let parked = session
        .sql
        .query("select state, due, key, replayed_by from postroom.delivery where seq = $1 and route = $2 order by replay limit 1");
    let parked = parked.bind(logged.seq).bind(route.name.clone()).fetch_optional(&mut *session.conn).await?;
    let mut line = RouteTimeline {
        attempts: attempts(session, &route.name, logged.seq).await?,
        state: "delivered",
        delivered_at: last.as_ref().filter(|last| !last.discarded).map(|last| last.at),
        receipt: last.as_ref().and_then(|last| last.receipt.clone()),
        due_at: None,
        blocked_by: None,
        replay: None,
        arrivals,
        route: route.name.clone(),
    };
    if let Some(parked) = parked {
        line.state = state(parked.try_get("state")?)?.as_str();
        line.replay = parked.try_get("replayed_by")?;
        line.due_at = parked.try_get::<Option<Time>, _>("due")?.map(|at| timestamp(at.0));
        if line.state == "blocked" {
            line.blocked_by = blocker(session, &route.name, parked.try_get("key")?, logged.seq).await?;
        }
        return Ok(line);
    }
    let state = by_position(session, &route, logged, now, &mut line).await?;
    // A receipt covers a stretch of the lane; one that was committed late lies in it and is not meant. What the route does
    // not want may have been delivered before its filter was changed, and only then.
    let was_wanted = match &last {
        Some(last) if state == "filtered" => changed_since(session, &route.name, micros(last.at)).await?,
        _ => true,
    };
    if matches!(state, "due" | "blocked" | "delayed") || !was_wanted {
        return Ok(RouteTimeline { state, delivered_at: None, receipt: None, arrivals: Vec::new(), ..line });
    }
    line.state = match last {
        Some(last) if last.discarded => "discarded",
        Some(_) => "delivered",
        None => state,
    };
    Ok(line)
}

/// Whether the route's definition was changed after a time.
async fn changed_since(session: &mut Session, route: &str, at: i64) -> Result<bool, sqlx::Error> {
    let changed = session.sql.scalar(
        "select exists (select from postroom.audit \
         where source = '' and action = 'route.change' and subject = $1 and at >= $2)",
    );
    changed.bind(route.to_owned()).bind(Time(at)).fetch_one(&mut *session.conn).await
}

/// The state of an event that has no delivery of its own, by the position alone.
async fn by_position(
    session: &mut Session,
    route: &Registered,
    logged: &Logged,
    now: i64,
    line: &mut RouteTimeline,
) -> Result<&'static str, Fault> {
    let Logged { tx, seq, appended_at, event, .. } = logged;
    let lanes = lanes::of(session, &route.name).await?;
    let Some(lane) = lanes.iter().find(|at| at.number == logged.lane) else {
        return Err(routes::no_checkpoint(&route.name).into());
    };
    if lane.began_after(*tx, *seq) || route.start_at.is_some_and(|start| *appended_at < start) {
        return Ok("before_start");
    }
    if !route.filter.matches_parts(&event.event_type, event.aggregate_type.as_deref(), event.tenant.as_deref()) {
        return Ok("filtered");
    }
    if lane.is_settled(*tx, *seq) {
        return Ok("delivered");
    }
    if let Some(at) = event.available_at.filter(|at| micros(*at) > now) {
        line.due_at = Some(at);
        return Ok("delayed");
    }
    line.blocked_by = blocker(session, &route.name, event.ordering_key().map(str::to_owned), *seq).await?;
    Ok(if line.blocked_by.is_some() { "blocked" } else { "due" })
}

/// The id of the first event of the key that this one waits for.
async fn blocker(
    session: &mut Session,
    route: &str,
    key: Option<String>,
    seq: i64,
) -> Result<Option<String>, sqlx::Error> {
    let blocker = session.sql.scalar(include_str!("../sql/blocker.sql")).bind(route.to_owned()).bind(key).bind(seq);
    blocker.fetch_optional(&mut *session.conn).await
}

async fn attempts(session: &mut Session, route: &str, seq: i64) -> Result<Vec<AttemptRow>, sqlx::Error> {
    let rows = session.sql.query(
        "select attempt, replay, at, outcome, code, error, took_ms, handlers::text as handlers from postroom.attempt \
         where seq = $1 and route = $2 order by delivery, round, attempt",
    );
    let rows = rows.bind(seq).bind(route.to_owned()).fetch_all(&mut *session.conn).await?;
    let attempt = |row: &PgRow| {
        Ok(AttemptRow {
            attempt: u32::try_from(row.try_get::<i32, _>("attempt")?).unwrap_or(0),
            replay: row.try_get("replay")?,
            at: timestamp(row.try_get::<Time, _>("at")?.0),
            outcome: row.try_get("outcome")?,
            code: row.try_get("code")?,
            error: row.try_get("error")?,
            took_ms: count(row.try_get("took_ms")?),
            handlers: serde_json::from_str(row.try_get("handlers")?).map_err(|e| sqlx::Error::Decode(e.into()))?,
        })
    };
    rows.iter().map(attempt).collect()
}

/// The receipts that cover the event, newest first.
async fn receipts(session: &mut Session, route: &str, logged: &Logged) -> Result<Vec<ArrivalRow>, sqlx::Error> {
    let receipts = session.sql.query(include_str!("../sql/receipts.sql")).bind(route.to_owned());
    let rows = receipts.bind(logged.lane).bind(logged.seq).fetch_all(&mut *session.conn).await?;
    let arrival = |row: &PgRow| {
        Ok(ArrivalRow {
            at: timestamp(row.try_get::<Time, _>("at")?.0),
            discarded: row.try_get("discarded")?,
            receipt: row.try_get("coordinates")?,
            replay: row.try_get("replay")?,
        })
    };
    rows.iter().map(arrival).collect()
}

/// The state of a delivery of this name.
fn state(word: &str) -> Result<DeliveryState, sqlx::Error> {
    DeliveryState::parse(word).ok_or_else(|| sqlx::Error::Decode(format!("{word:?} is no state of a delivery").into()))
}
