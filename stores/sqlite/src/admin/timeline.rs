//! Where is my event? Everything known of one, on every route.

use postroom_admin::inbox;
use postroom_admin::view::{ArrivalRow, AttemptRow, InboxRow, RouteTimeline, Timeline, arrivals};
use postroom_core::{DeliveryState, Event, StoreError, Timestamp};
use serde_json::Value;
use sqlx::sqlite::SqliteRow;
use sqlx::{Row, SqliteConnection};

use super::backend::{self, AdminSession};
use crate::clock::timestamp;
use crate::error::Fault;
use crate::events::{event_row, logged, maybe_text, text, wanted};
use crate::routes::{self, Registered};
use crate::source::checkpoint::{Checkpoint, parse_ranges};
use crate::store::Inner;

pub(super) async fn of(inner: &Inner, id: &str, with_payload: bool) -> Result<Option<Timeline>, StoreError> {
    let (store, id, now) = (inner.name.clone(), id.to_owned(), inner.now());
    inner
        .db
        .read("event", move |conn| Box::pin(async move { timeline(conn, &store, &id, with_payload, now).await }))
        .await
}

async fn timeline(
    conn: &mut SqliteConnection,
    store: &str,
    id: &str,
    with_payload: bool,
    now: i64,
) -> Result<Option<Timeline>, Fault> {
    let mut same: Vec<i64> = sqlx::query_scalar("select seq from postroom_log where id = ?1 order by seq")
        .bind(id)
        .fetch_all(&mut *conn)
        .await?;
    let Some(seq) = same.pop() else { return Ok(None) };
    let row = sqlx::query(include_str!("../sql/load.sql"))
        .bind(serde_json::json!([seq]).to_string())
        .bind(if with_payload { i64::MAX } else { -1 })
        .fetch_one(&mut *conn)
        .await?;
    let event = logged(&row)?.event;
    let mut on_routes = Vec::new();
    for route in routes::all(conn).await? {
        on_routes.push(on_route(conn, route, &row, now).await?);
    }
    Ok(Some(Timeline {
        event: event_row(store, &row)?,
        lane: row.try_get("lane")?,
        content_type: event.content_type.clone(),
        correlation_id: event.correlation().to_owned(),
        causation_id: event.causation_id.clone(),
        schema_version: event.schema_version,
        headers: event.headers.clone(),
        attributes: event.attributes.clone(),
        payload: with_payload.then(|| payload(&event)),
        routes: on_routes,
        inbox: accepted(conn, store, id).await?,
        same_id_at: same,
    }))
}

/// JSON as it is, anything else as text.
fn payload(event: &Event) -> Value {
    let json = if event.is_json() { event.payload_as().ok() } else { None };
    json.unwrap_or_else(|| Value::String(String::from_utf8_lossy(&event.payload).into_owned()))
}

async fn on_route(
    conn: &mut SqliteConnection,
    route: Registered,
    event: &SqliteRow,
    now: i64,
) -> Result<RouteTimeline, Fault> {
    let seq: i64 = event.try_get("seq")?;
    let arrivals = arrivals(receipts(conn, &route.name, seq).await?);
    let last = arrivals.last().cloned();
    let parked = sqlx::query("select * from postroom_delivery where seq = ?1 and route = ?2 order by replay limit 1")
        .bind(seq)
        .bind(&route.name)
        .fetch_optional(&mut *conn)
        .await?;
    let mut line = RouteTimeline {
        attempts: attempts(conn, &route.name, seq).await?,
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
        line.due_at = parked.try_get::<Option<i64>, _>("due")?.map(timestamp);
        if line.state == "blocked" {
            line.blocked_by = head(conn, &route.name, maybe_text(&parked, "key")?.as_deref(), seq).await?;
        }
        return Ok(line);
    }
    line.state = match last {
        Some(last) if last.discarded => "discarded",
        Some(_) => "delivered",
        None => without_receipt(conn, &route, event, now, &mut line).await?,
    };
    Ok(line)
}

/// The state of an event that has neither a delivery of its own nor a receipt.
async fn without_receipt(
    conn: &mut SqliteConnection,
    route: &Registered,
    event: &SqliteRow,
    now: i64,
    line: &mut RouteTimeline,
) -> Result<&'static str, Fault> {
    let seq: i64 = event.try_get("seq")?;
    let row = sqlx::query("select * from postroom_checkpoint where route = ?1 and lane = 0")
        .bind(&route.name)
        .fetch_optional(&mut *conn)
        .await?;
    let Some(row) = row else { return Err(routes::no_checkpoint(&route.name).into()) };
    let position = Checkpoint::read(&row)?;
    let appended_at: i64 = event.try_get("appended_at")?;
    if seq <= route.start_seq || route.start_at.is_some_and(|start| appended_at < start) {
        return Ok("before_start");
    }
    if !wanted(&route.filter, event)? {
        return Ok("filtered");
    }
    if seq <= position.hwm && !position.unsettled.contains(seq) {
        return Ok("delivered");
    }
    if let Some(at) = event.try_get::<Option<i64>, _>("available_at")?.filter(|at| *at > now) {
        line.due_at = Some(timestamp(at));
        return Ok("delayed");
    }
    let key = match maybe_text(event, "key")? {
        Some(key) => Some(key),
        None => maybe_text(event, "aggregate_id")?,
    };
    line.blocked_by = head(conn, &route.name, key.as_deref(), seq).await?;
    Ok(if line.blocked_by.is_some() { "blocked" } else { "due" })
}

/// The id of the first event of the key that this one waits for.
async fn head(
    conn: &mut SqliteConnection,
    route: &str,
    key: Option<&str>,
    seq: i64,
) -> Result<Option<String>, sqlx::Error> {
    let head = sqlx::query(
        "select l.id from postroom_delivery d join postroom_log l on l.seq = d.seq \
         where d.route = ?1 and d.key = ?2 and d.blocks = 1 and d.seq < ?3 order by d.seq limit 1",
    )
    .bind(route)
    .bind(key)
    .bind(seq)
    .fetch_optional(conn)
    .await?;
    head.map(|head| Ok(text(&head, "id")?.into_owned())).transpose()
}

async fn attempts(conn: &mut SqliteConnection, route: &str, seq: i64) -> Result<Vec<AttemptRow>, sqlx::Error> {
    let rows = sqlx::query("select * from postroom_attempt where seq = ?1 and route = ?2 order by rowid")
        .bind(seq)
        .bind(route)
        .fetch_all(conn)
        .await?;
    let attempt = |row: &SqliteRow| {
        Ok(AttemptRow {
            attempt: row.try_get("attempt")?,
            replay: row.try_get("replay")?,
            at: timestamp(row.try_get("at")?),
            outcome: row.try_get("outcome")?,
            code: row.try_get("code")?,
            error: row.try_get("error")?,
            took_ms: crate::events::count(row.try_get("took_ms")?),
            handlers: serde_json::from_str(row.try_get("handlers")?).map_err(|e| sqlx::Error::Decode(e.into()))?,
        })
    };
    rows.iter().map(attempt).collect()
}

/// The receipts that cover the number, newest first.
async fn receipts(conn: &mut SqliteConnection, route: &str, seq: i64) -> Result<Vec<ArrivalRow>, sqlx::Error> {
    let rows = sqlx::query(include_str!("../sql/receipts.sql")).bind(route).bind(seq).fetch_all(conn).await?;
    let mut arrivals = Vec::new();
    for row in &rows {
        if !parse_ranges(row.try_get("ranges")?)?.contains(seq) {
            continue;
        }
        let coordinates: Value =
            serde_json::from_str(row.try_get("coordinates")?).map_err(|e| sqlx::Error::Decode(e.into()))?;
        arrivals.push(ArrivalRow {
            at: timestamp(row.try_get("at")?),
            discarded: row.try_get("discarded")?,
            receipt: coordinates.get(seq.to_string()).and_then(Value::as_str).map(str::to_owned),
            replay: row.try_get("replay")?,
        });
    }
    Ok(arrivals)
}

/// Who accepted the event.
async fn accepted(conn: &mut SqliteConnection, store: &str, id: &str) -> Result<Vec<InboxRow>, Fault> {
    let mut session = AdminSession::new(conn, Timestamp::UNIX_EPOCH);
    inbox::of_event(&mut session, store, id).await.map_err(backend::fault)
}

/// The state of a delivery of this name.
fn state(word: &str) -> Result<DeliveryState, sqlx::Error> {
    DeliveryState::parse(word).ok_or_else(|| sqlx::Error::Decode(format!("{word:?} is no state of a delivery").into()))
}
