//! An event as a row of the log, and back.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use postroom_admin::view::EventRow;
use postroom_core::{
    Event, EventError, Failure, HEADER_BYTES_MAX, JSON, Limits, check_depth, check_header_bytes, stored_object,
};
use serde_json::Value;
use sqlx::Row as _;
use sqlx::postgres::PgRow;

use crate::clock::{Time, timestamp};

/// What is read of an event everywhere, in this order; `l` is the log or what was evacuated of it. Headers and attributes that are
/// too long to be read are their length. (What is stored in 2 kB is never so long, however well it was compressed, and is not
/// written as text twice.)
pub(crate) const COLUMNS: &str = "l.lane, l.seq, l.tx, l.appended_at, l.available_at, l.occurred_at, l.schema_version, \
     l.id, l.type, l.key, l.aggregate_type, l.aggregate_id, l.tenant, l.content_type, \
     case when pg_column_size(l.headers) <= 2048 or octet_length(l.headers::text) <= 524288 then l.headers::text \
       else octet_length(l.headers::text)::text end as headers, \
     case when pg_column_size(l.attributes) <= 2048 or octet_length(l.attributes::text) <= 524288 then l.attributes::text \
       else octet_length(l.attributes::text)::text end as attributes, \
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
    /// Why it cannot be sent.
    pub(crate) refused: Option<Box<Failure>>,
}

impl Logged {
    /// Reads [`COLUMNS`] and then the payload, which is null where it was left out.
    pub(crate) fn read(row: &PgRow) -> Result<Self, sqlx::Error> {
        let payload: Option<&[u8]> = row.try_get_unchecked(19)?;
        let size: i32 = row.try_get_unchecked(18)?;
        let mut event = Event {
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
            headers: BTreeMap::new(),
            attributes: BTreeMap::new(),
            correlation_id: row.try_get_unchecked(16)?,
            causation_id: row.try_get_unchecked(17)?,
            payload: payload.map(Bytes::copy_from_slice).unwrap_or_default(),
        };
        let refused = fill(&mut event, row.try_get_unchecked(14)?, row.try_get_unchecked(15)?).err();
        Ok(Self {
            lane: row.try_get_unchecked(0)?,
            seq: row.try_get_unchecked(1)?,
            tx: row.try_get_unchecked(2)?,
            appended_at: row.try_get_unchecked::<Time, _>(3)?.0,
            missing: payload.is_none().then(|| usize::try_from(size).unwrap_or(0)),
            event: Arc::new(event),
            refused: refused.map(|error| Box::new(error.failure())),
        })
    }

    /// Whether its payload must still be loaded. Of one that is over the limits only the length is kept.
    pub(crate) fn must_load(&mut self, limits: Limits) -> bool {
        let Some(bytes) = self.missing else {
            self.check(limits);
            return false;
        };
        if self.refused.is_none() {
            self.refused = limits.check_payload_bytes(bytes).err().map(|error| Box::new(error.failure()));
        }
        if self.refused.is_some() {
            (self.event, self.missing) = (Arc::new(self.event.without_payload(bytes)), None);
        }
        self.missing.is_some()
    }

    /// Takes in a payload that was left out.
    pub(crate) fn loaded(&mut self, payload: Bytes, limits: Limits) {
        self.event = Arc::new(Event { payload, ..(*self.event).clone() });
        self.missing = None;
        self.check(limits);
    }

    /// Refuses what came into the table past the checks of an append.
    fn check(&mut self, limits: Limits) {
        if self.refused.is_none() {
            let checked = limits.check_payload_bytes(self.event.payload.len()).and_then(|()| check_depth(&self.event));
            self.refused = checked.err().map(|error| Box::new(error.failure()));
        }
    }

    /// What it costs in memory and on the wire, roughly.
    pub(crate) fn bytes(&self) -> usize {
        self.missing.unwrap_or(self.event.payload.len()) + 256
    }
}

/// Reads headers and attributes out of their columns. A header that is no text is written as JSON.
fn fill(event: &mut Event, headers: Option<&str>, attributes: Option<&str>) -> Result<(), EventError> {
    if let Some(text) = headers {
        let word = |value| if let Value::String(text) = value { text } else { value.to_string() };
        event.headers = stored_object(text)?.into_iter().map(|(name, value)| (name, word(value))).collect();
    }
    if let Some(text) = attributes {
        event.attributes = stored_object(text)?.into_iter().collect();
    }
    let length = |text: Option<&str>| text.map_or(0, str::len);
    if length(headers) + length(attributes) > HEADER_BYTES_MAX { check_header_bytes(event) } else { Ok(()) }
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
