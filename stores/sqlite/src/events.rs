//! An event as a row of the log, and back.
//!
//! Other languages insert here, and SQLite does not check that text is UTF-8. A row that cannot be read would stop every
//! route, so text is read with what is not UTF-8 replaced, everywhere.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use postroom_admin::view::EventRow;
use postroom_core::{Event, Filter};
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

/// Text of the log; what is not UTF-8 in it is replaced.
pub(crate) fn text<'r>(row: &'r SqliteRow, column: &str) -> Result<Cow<'r, str>, sqlx::Error> {
    row.try_get::<&[u8], _>(column).map(String::from_utf8_lossy)
}

/// The same for a column that may be null.
pub(crate) fn maybe_text<'r>(row: &'r SqliteRow, column: &str) -> Result<Option<Cow<'r, str>>, sqlx::Error> {
    Ok(row.try_get::<Option<&[u8]>, _>(column)?.map(String::from_utf8_lossy))
}

/// Whether a filter wants the event of a row with `type`, `aggregate_type` and `tenant`.
pub(crate) fn wanted(filter: &Filter, row: &SqliteRow) -> Result<bool, sqlx::Error> {
    let (aggregate_type, tenant) = (maybe_text(row, "aggregate_type")?, maybe_text(row, "tenant")?);
    Ok(filter.matches_parts(&text(row, "type")?, aggregate_type.as_deref(), tenant.as_deref()))
}

/// Reads a whole row of the log. Headers and attributes that are no JSON object are left out.
pub(crate) fn logged(row: &SqliteRow) -> Result<Logged, sqlx::Error> {
    let owned = |column| text(row, column).map(Cow::into_owned);
    let maybe_owned = |column| maybe_text(row, column).map(|text| text.map(Cow::into_owned));
    let event = Event {
        id: owned("id")?,
        event_type: owned("type")?,
        key: maybe_owned("key")?,
        aggregate_type: maybe_owned("aggregate_type")?,
        aggregate_id: maybe_owned("aggregate_id")?,
        tenant: maybe_owned("tenant")?,
        payload: Bytes::from(row.try_get::<Vec<u8>, _>("payload")?),
        content_type: owned("content_type")?,
        headers: headers(row)?,
        attributes: attributes(row)?,
        correlation_id: maybe_owned("correlation_id")?,
        causation_id: maybe_owned("causation_id")?,
        schema_version: row.try_get("schema_version")?,
        occurred_at: timestamp(row.try_get("occurred_at")?),
        available_at: row.try_get::<Option<i64>, _>("available_at")?.map(timestamp),
    };
    Ok(Logged { seq: row.try_get("seq")?, appended_at: row.try_get("appended_at")?, event: Arc::new(event) })
}

fn object(row: &SqliteRow, column: &str) -> Result<serde_json::Map<String, Value>, sqlx::Error> {
    Ok(match serde_json::from_str(&text(row, column)?) {
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
    let owned = |column| text(row, column).map(Cow::into_owned);
    let maybe_owned = |column| maybe_text(row, column).map(|text| text.map(Cow::into_owned));
    let aggregate_id = maybe_owned("aggregate_id")?;
    Ok(EventRow {
        store: store.to_owned(),
        position: row.try_get("seq")?,
        id: owned("id")?,
        event_type: owned("type")?,
        key: maybe_owned("key")?.or_else(|| aggregate_id.clone()),
        aggregate_type: maybe_owned("aggregate_type")?,
        aggregate_id,
        tenant: maybe_owned("tenant")?,
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
