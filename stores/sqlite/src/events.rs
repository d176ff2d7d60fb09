//! An event as a row of the log, and back.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use postroom_core::Event;
use postroom_core::view::EventRow;
use serde_json::Value;
use sqlx::Row;
use sqlx::sqlite::SqliteRow;

use crate::clock::timestamp;

/// An event of the log with what the log adds.
#[derive(Debug, Clone)]
pub(crate) struct Logged {
    pub(crate) seq: i64,
    pub(crate) appended_at: i64,
    pub(crate) event: Arc<Event>,
}

/// Reads a whole row of the log. Headers and attributes that are no JSON object are left out.
pub(crate) fn logged(row: &SqliteRow) -> Result<Logged, sqlx::Error> {
    let event = Event {
        id: row.try_get("id")?,
        event_type: row.try_get("type")?,
        key: row.try_get("key")?,
        aggregate_type: row.try_get("aggregate_type")?,
        aggregate_id: row.try_get("aggregate_id")?,
        tenant: row.try_get("tenant")?,
        payload: Bytes::from(row.try_get::<Vec<u8>, _>("payload")?),
        content_type: row.try_get("content_type")?,
        headers: headers(row)?,
        attributes: attributes(row)?,
        correlation_id: row.try_get("correlation_id")?,
        causation_id: row.try_get("causation_id")?,
        schema_version: row.try_get("schema_version")?,
        occurred_at: timestamp(row.try_get("occurred_at")?),
        available_at: row.try_get::<Option<i64>, _>("available_at")?.map(timestamp),
    };
    Ok(Logged { seq: row.try_get("seq")?, appended_at: row.try_get("appended_at")?, event: Arc::new(event) })
}

fn object(row: &SqliteRow, column: &str) -> Result<serde_json::Map<String, Value>, sqlx::Error> {
    let text: &str = row.try_get(column)?;
    Ok(match serde_json::from_str(text) {
        Ok(Value::Object(map)) => map,
        _ => serde_json::Map::new(),
    })
}

pub(crate) fn headers(row: &SqliteRow) -> Result<BTreeMap<String, String>, sqlx::Error> {
    let text = |value| if let Value::String(text) = value { text } else { value.to_string() };
    Ok(object(row, "headers")?.into_iter().map(|(name, value)| (name, text(value))).collect())
}

pub(crate) fn attributes(row: &SqliteRow) -> Result<BTreeMap<String, Value>, sqlx::Error> {
    Ok(object(row, "attributes")?.into_iter().collect())
}

/// Reads a row of the log for a list; needs `payload_bytes` instead of the payload.
pub(crate) fn event_row(store: &str, row: &SqliteRow) -> Result<EventRow, sqlx::Error> {
    let aggregate_id: Option<String> = row.try_get("aggregate_id")?;
    Ok(EventRow {
        store: store.to_owned(),
        position: row.try_get("seq")?,
        id: row.try_get("id")?,
        event_type: row.try_get("type")?,
        key: row.try_get::<Option<String>, _>("key")?.or_else(|| aggregate_id.clone()),
        aggregate_type: row.try_get("aggregate_type")?,
        aggregate_id,
        tenant: row.try_get("tenant")?,
        occurred_at: timestamp(row.try_get("occurred_at")?),
        available_at: row.try_get::<Option<i64>, _>("available_at")?.map(timestamp),
        appended_at: timestamp(row.try_get("appended_at")?),
        payload_bytes: count(row.try_get("payload_bytes")?),
    })
}

/// A count out of the tables.
pub(crate) fn count(n: i64) -> u64 {
    u64::try_from(n).unwrap_or(0)
}

/// A count into the tables.
pub(crate) fn signed(n: u64) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}
