//! An event as a row of the log, and back.
//!
//! Other languages insert here, and SQLite does not check that text is UTF-8. A row that cannot be read would stop every
//! route, so text is read with what is not UTF-8 replaced, everywhere.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use postroom_admin::view::EventRow;
use postroom_core::{
    Event, EventError, Failure, Filter, HEADER_BYTES_MAX, Limits, check_depth, check_header_bytes, stored_object,
};
use serde_json::Value;
use sqlx::Row;
use sqlx::sqlite::SqliteRow;

use crate::clock::timestamp;

/// An event of the log with what the log adds.
#[derive(Debug, Clone)]
pub(crate) struct Logged {
    pub(crate) seq: i64,
    pub(crate) appended_at: i64,
    /// Without its payload where that was left out.
    pub(crate) event: Arc<Event>,
    /// How large the payload is.
    payload_bytes: usize,
    /// Why headers or attributes cannot be read.
    invalid: Option<EventError>,
}

impl Logged {
    /// Why it cannot be sent, if it came into the table past the checks of an append. Of a payload that is over the limits, the
    /// event then has only the length.
    pub(crate) fn refuse(&mut self, limits: Limits) -> Option<Box<Failure>> {
        let too_large = limits.check_payload_bytes(self.payload_bytes).err();
        if too_large.is_some() {
            self.event = Arc::new(self.event.without_payload(self.payload_bytes));
        }
        let error = self.invalid.take().or(too_large).or_else(|| check_depth(&self.event).err());
        error.map(|error| Box::new(error.failure()))
    }
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

/// Reads a row of `load.sql`.
pub(crate) fn logged(row: &SqliteRow) -> Result<Logged, sqlx::Error> {
    let owned = |column| text(row, column).map(Cow::into_owned);
    let maybe_owned = |column| maybe_text(row, column).map(|text| text.map(Cow::into_owned));
    let mut event = Event {
        id: owned("id")?,
        event_type: owned("type")?,
        key: maybe_owned("key")?,
        aggregate_type: maybe_owned("aggregate_type")?,
        aggregate_id: maybe_owned("aggregate_id")?,
        tenant: maybe_owned("tenant")?,
        payload: Bytes::from(row.try_get::<Option<Vec<u8>>, _>("payload")?.unwrap_or_default()),
        content_type: owned("content_type")?,
        headers: BTreeMap::new(),
        attributes: BTreeMap::new(),
        correlation_id: maybe_owned("correlation_id")?,
        causation_id: maybe_owned("causation_id")?,
        schema_version: row.try_get("schema_version")?,
        occurred_at: timestamp(row.try_get("occurred_at")?),
        available_at: row.try_get::<Option<i64>, _>("available_at")?.map(timestamp),
    };
    let invalid = fill(&mut event, &text(row, "headers")?, &text(row, "attributes")?).err();
    let payload_bytes = usize::try_from(row.try_get::<i64, _>("payload_bytes")?).unwrap_or_default();
    let (seq, appended_at) = (row.try_get("seq")?, row.try_get("appended_at")?);
    Ok(Logged { seq, appended_at, event: Arc::new(event), payload_bytes, invalid })
}

/// Reads headers and attributes. What is no JSON object is left out; a header that is no text is written as JSON.
fn fill(event: &mut Event, headers: &str, attributes: &str) -> Result<(), EventError> {
    let word = |value| if let Value::String(text) = value { text } else { value.to_string() };
    event.headers = stored_object(headers)?.into_iter().map(|(name, value)| (name, word(value))).collect();
    event.attributes = stored_object(attributes)?.into_iter().collect();
    if headers.len() + attributes.len() > HEADER_BYTES_MAX { check_header_bytes(event) } else { Ok(()) }
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
