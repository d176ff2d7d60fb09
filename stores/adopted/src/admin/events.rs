//! Rows as events: listing them, and everything known of one.

use std::collections::BTreeMap;
use std::time::Duration;

use postroom_admin::view::{AppendedRow, AttemptRow, EventRow, RouteTimeline, Timeline};
use postroom_admin::{Page, Selection};
use postroom_core::{JSON, StoreError, Timestamp};
use serde_json::Value;

use super::query::{Query, number, text};
use super::routes::Registered;
use super::tables::moment;
use crate::executor::{Row, Statement};
use crate::mapping::ColumnPath;
use crate::store::Inner;

/// Columns of [`event_row`].
fn columns(query: &Query<'_>) -> String {
    let event = &query.inner.mapping.event;
    let maybe = |place: &Option<ColumnPath>| {
        place.as_ref().map_or_else(|| "cast(null as text)".to_owned(), |place| query.writer.text(place))
    };
    let key = crate::sql::key(&query.inner.mapping, &query.writer);
    let available =
        query.inner.mapping.next_attempt.as_ref().map(|place| query.writer.micros(&query.writer.moment(place)));
    [
        format!("cast({} as text)", query.position()),
        query.writer.text(&event.id),
        query.writer.text(&event.event_type),
        key.unwrap_or_else(|| "cast(null as text)".to_owned()),
        maybe(&event.aggregate_type),
        maybe(&event.aggregate_id),
        maybe(&event.tenant),
        query.writer.micros(&query.occurred_at()),
        query.writer.micros(&query.appended_at()),
        available.unwrap_or_else(|| "cast(null as text)".to_owned()),
        format!("cast(coalesce(length({}), 0) as text)", query.writer.json_text(&event.payload)),
    ]
    .join(", ")
}

fn event_row(store: &str, row: &Row) -> EventRow {
    EventRow {
        store: store.to_owned(),
        position: number(row, 0),
        id: text(row, 1).unwrap_or_default(),
        event_type: text(row, 2).unwrap_or_default(),
        key: text(row, 3),
        aggregate_type: text(row, 4),
        aggregate_id: text(row, 5),
        tenant: text(row, 6),
        occurred_at: moment(number(row, 7)),
        available_at: text(row, 9).and_then(|micros| micros.parse().ok()).map(moment),
        appended_at: moment(number(row, 8)),
        payload_bytes: number(row, 10),
    }
}

pub(super) async fn list(inner: &Inner, which: &Selection, page: Page) -> Result<Vec<EventRow>, StoreError> {
    let mut query = Query::new(inner);
    query.select(which);
    let position = query.position();
    let (order, limit) = match page {
        Page::Newest { before, above, limit } => {
            if let Some(before) = before {
                let before = query.value(before.to_string());
                query.and(format!("{position} < cast({before} as bigint)"));
            }
            if above > 0 {
                let above = query.value(above.to_string());
                query.and(format!("{position} > cast({above} as bigint)"));
            }
            ("desc", limit)
        }
        Page::Oldest { after, limit } => {
            let after = query.value(after.to_string());
            query.and(format!("{position} > cast({after} as bigint)"));
            ("asc", limit)
        }
    };
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let statement = format!(
        "select {} {} order by {position} {order}, {} {order} limit {limit}",
        columns(&query),
        query.from(),
        query.row()
    );
    let rows = query.fetch("events", statement).await?;
    Ok(rows.iter().map(|row| event_row(&inner.name, row)).collect())
}

pub(super) async fn timeline(inner: &Inner, id: &str, with_payload: bool) -> Result<Option<Timeline>, StoreError> {
    let event = &inner.mapping.event;
    let mut query = Query::new(inner);
    query.select(&Selection { ids: vec![id.to_owned()], ..Selection::default() });
    let maybe = |place: &Option<ColumnPath>| {
        place.as_ref().map_or_else(|| "cast(null as text)".to_owned(), |place| query.writer.text(place))
    };
    let payload = if with_payload { query.writer.json_text(&event.payload) } else { "cast(null as text)".to_owned() };
    let headers = event.headers.as_ref().map_or_else(|| "cast(null as text)".to_owned(), |p| query.writer.json_text(p));
    let attributes: Vec<String> = event.attributes.iter().map(|(_, place)| query.writer.value(place)).collect();
    let mut all = vec![
        columns(&query),
        query.row(),
        query.state(),
        query.writer.micros(&query.next_attempt()),
        maybe(&event.correlation_id),
        maybe(&event.causation_id),
        maybe(&event.schema_version),
        headers,
        payload,
    ];
    all.extend(attributes);
    let statement = format!("select {} {} order by {} desc limit 100", all.join(", "), query.from(), query.position());
    let rows = query.fetch("event", statement).await?;
    let Some(row) = rows.first() else { return Ok(None) };
    let event_row = event_row(&inner.name, row);
    let is_open = text(row, 12).is_some_and(|state| state == "retrying" || state == "due");
    let row_id = text(row, 11).unwrap_or_default();
    let state: &'static str = match text(row, 12).as_deref() {
        Some("dead") => "dead",
        Some("delivered") => "delivered",
        Some("retrying") => "retrying",
        _ => "due",
    };
    let mut routes = Vec::new();
    for route in super::routes::registered(inner).await? {
        let (state, due_at) = if route.further {
            entry(inner, &route, &row_id, id).await?
        } else {
            (state, text(row, 13).filter(|_| is_open))
        };
        routes.push(RouteTimeline {
            attempts: attempts(inner, &row_id, route.further.then_some(route.name.as_str())).await?,
            route: route.name,
            state,
            delivered_at: None,
            receipt: None,
            due_at: due_at.and_then(|micros| micros.parse().ok()).map(moment),
            blocked_by: None,
            replay: None,
            arrivals: Vec::new(),
        });
    }
    let mut scope = BTreeMap::new();
    for (n, (name, _)) in event.attributes.iter().enumerate() {
        if let Some(value) = text(row, 19 + n).and_then(|json| serde_json::from_str::<Value>(&json).ok()) {
            scope.insert(name.clone(), value);
        }
    }
    Ok(Some(Timeline {
        lane: 0,
        content_type: JSON.to_owned(),
        correlation_id: text(row, 14).unwrap_or_else(|| event_row.id.clone()),
        causation_id: text(row, 15),
        schema_version: text(row, 16).and_then(|version| version.parse().ok()).unwrap_or(1),
        headers: text(row, 17).and_then(|json| serde_json::from_str(&json).ok()).unwrap_or_default(),
        attributes: scope,
        payload: text(row, 18).map(|payload| serde_json::from_str(&payload).unwrap_or(Value::String(payload))),
        routes,
        inbox: super::inbox::list(inner, None, Some(id), None, 100).await?,
        same_id_at: rows[1..].iter().map(|row| number(row, 0)).collect(),
        event: event_row,
    }))
}

/// Counts rows by intervals of the time at which they were written, as far as the table tells.
pub(super) async fn appended(
    inner: &Inner,
    from: Timestamp,
    interval: Duration,
) -> Result<Vec<AppendedRow>, StoreError> {
    let interval = i64::try_from(interval.as_micros()).unwrap_or(i64::MAX).max(1);
    let mut query = Query::new(inner);
    let (at, from) = (query.writer.whole_micros(&query.appended_at()), query.value(from.as_microsecond().to_string()));
    query.and(format!("{} >= {}", query.appended_at(), query.writer.at_micros(&from)));
    let statement = format!(
        "select cast({at} / {interval} as text), cast(count(*) as text) {} group by {at} / {interval}",
        query.from()
    );
    let rows = query.fetch("appended", statement).await?;
    let mut counts: Vec<AppendedRow> = rows
        .iter()
        .map(|row| AppendedRow {
            store: inner.name.clone(),
            at: moment(number::<i64>(row, 0).saturating_mul(interval)),
            appended: number(row, 1),
        })
        .collect();
    counts.sort_by_key(|row| row.at);
    Ok(counts)
}

/// The state of an event on a further route, and when it is tried.
async fn entry(
    inner: &Inner,
    route: &Registered,
    row: &str,
    id: &str,
) -> Result<(&'static str, Option<String>), StoreError> {
    let mut query = Query::settled_by(inner, route);
    let (wanted, id) = (query.value(row), query.value(id));
    query.and(format!("{} = {wanted} and {} = {id}", query.row(), query.event_id()));
    let now = query.now();
    let state = format!(
        "select case when {} then 'delivered' when s.state = 'dead' then 'dead' when s.due > {now} then 'retrying' else 'due' end, \
         {} {}",
        query.is_done(),
        query.writer.micros("s.due"),
        query.from()
    );
    let found = query.fetch("event", state).await?;
    let row = found.into_iter().next().unwrap_or_default();
    let state = match text(&row, 0).as_deref() {
        Some("dead") => "dead",
        Some("delivered") => "delivered",
        Some("retrying") => "retrying",
        _ => "due",
    };
    Ok((state, text(&row, 1)))
}

async fn attempts(inner: &Inner, row: &str, further: Option<&str>) -> Result<Vec<AttemptRow>, StoreError> {
    let writer = inner.writer();
    let statement = format!(
        "select cast(attempt as text), {}, outcome, code, error, cast(took_ms as text), cast(handlers as text) \
         from {} where mapping = $1 and row_id = $2 and coalesce(route, '') = $3 order by at limit 1000",
        writer.micros("at"),
        writer.own("adopted_attempt")
    );
    let statement = Statement::new(statement).bind(&inner.mapping_name).bind(row).bind(further.unwrap_or_default());
    let found = inner.executor.look("event", vec![statement]).await?;
    let attempt = |row: Row| AttemptRow {
        attempt: number(&row, 0),
        replay: None,
        at: moment(number(&row, 1)),
        outcome: text(&row, 2).unwrap_or_default(),
        code: text(&row, 3).unwrap_or_default(),
        error: text(&row, 4).unwrap_or_default(),
        took_ms: number(&row, 5),
        handlers: text(&row, 6).and_then(|json| serde_json::from_str(&json).ok()).unwrap_or_default(),
    };
    Ok(found.into_iter().flatten().map(attempt).collect())
}
