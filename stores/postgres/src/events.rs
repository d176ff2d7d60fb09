//! An event as a row of the log, and back.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use postroom_admin::view::EventRow;
use postroom_core::{Event, JSON};
use serde_json::Value;
use sqlx::Row as _;
use sqlx::postgres::PgRow;

use crate::clock::{Time, timestamp};

/// What is read of an event everywhere, in this order; `l` is the log or what was evacuated of it.
pub(crate) const COLUMNS: &str = "l.lane, l.seq, l.tx, l.appended_at, l.available_at, l.occurred_at, l.schema_version, \
     l.id, l.type, l.key, l.aggregate_type, l.aggregate_id, l.tenant, l.content_type, l.headers::text, l.attributes::text, \
     l.correlation_id, l.causation_id, octet_length(l.payload)";

/// An event of the log with what the log adds.
#[derive(Debug, Clone)]
pub(crate) struct Logged {
    pub(crate) lane: i16,
    pub(crate) seq: i64,
    pub(crate) tx: i64,
    pub(crate) appended_at: i64,
    /// Without its payload until that is loaded, where `payload_bytes` says so.
    pub(crate) event: Arc<Event>,
    /// How large the payload is, if it was left out because it is large.
    pub(crate) missing: Option<usize>,
}

impl Logged {
    /// Reads [`COLUMNS`] and then the payload, which is null where it was left out.
    pub(crate) fn read(row: &PgRow) -> Result<Self, sqlx::Error> {
        let payload: Option<&[u8]> = row.try_get_unchecked(19)?;
        let size: i32 = row.try_get_unchecked(18)?;
        let event = Event {
            occurred_at: timestamp(row.try_get_unchecked::<Time, _>(5)?.0),
            available_at: row.try_get_unchecked::<Option<Time>, _>(4)?.map(|at| timestamp(at.0)),
            schema_version: row.try_get_unchecked(6)?,
            id: row.try_get_unchecked(7)?,
            event_type: row.try_get_unchecked(8)?,
            key: row.try_get_unchecked(9)?,
            aggregate_type: row.try_get_unchecked(10)?,
            aggregate_id: row.try_get_unchecked(11)?,
            tenant: row.try_get_unchecked(12)?,
            content_type: row.try_get_unchecked::<Option<String>, _>(13)?.unwrap_or_else(|| JSON.to_owned()),
            headers: headers(row.try_get_unchecked(14)?),
            attributes: attributes(row.try_get_unchecked(15)?),
            correlation_id: row.try_get_unchecked(16)?,
            causation_id: row.try_get_unchecked(17)?,
            payload: payload.map(Bytes::copy_from_slice).unwrap_or_default(),
        };
        Ok(Self {
            lane: row.try_get_unchecked(0)?,
            seq: row.try_get_unchecked(1)?,
            tx: row.try_get_unchecked(2)?,
            appended_at: row.try_get_unchecked::<Time, _>(3)?.0,
            missing: payload.is_none().then(|| usize::try_from(size).unwrap_or(0)),
            event: Arc::new(event),
        })
    }

    /// What it costs in memory and on the wire, roughly.
    pub(crate) fn bytes(&self) -> usize {
        self.missing.unwrap_or(self.event.payload.len()) + 256
    }
}

fn object(text: Option<&str>) -> serde_json::Map<String, Value> {
    match text.map(serde_json::from_str) {
        Some(Ok(Value::Object(map))) => map,
        _ => serde_json::Map::new(),
    }
}

/// Headers out of their column. What is no text is written as JSON.
pub(crate) fn headers(text: Option<&str>) -> BTreeMap<String, String> {
    let word = |value| if let Value::String(text) = value { text } else { value.to_string() };
    if text.is_none() {
        return BTreeMap::new();
    }
    object(text).into_iter().map(|(name, value)| (name, word(value))).collect()
}

/// Attributes out of their column.
pub(crate) fn attributes(text: Option<&str>) -> BTreeMap<String, Value> {
    if text.is_none() {
        return BTreeMap::new();
    }
    object(text).into_iter().collect()
}

/// Reads a row of `postroom.event` for a list.
pub(crate) fn event_row(store: &str, row: &PgRow) -> Result<EventRow, sqlx::Error> {
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
        occurred_at: timestamp(row.try_get::<Time, _>("occurred_at")?.0),
        available_at: row.try_get::<Option<Time>, _>("available_at")?.map(|at| timestamp(at.0)),
        appended_at: timestamp(row.try_get::<Time, _>("appended_at")?.0),
        payload_bytes: count(row.try_get::<i32, _>("payload_bytes")?.into()),
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
