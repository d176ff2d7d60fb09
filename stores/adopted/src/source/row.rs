//! A row of an adopted table as an event.

use std::collections::BTreeMap;

use bytes::Bytes;
use jiff::Timestamp;
use postroom_core::{
    Event, EventError, Failure, HEADER_BYTES_MAX, HEADERS_FIELD, ID_BYTES_MAX, JSON, JSON_DEPTH_MAX, KEY_BYTES_MAX,
    Limits, NAME_BYTES_MAX, json_depth,
};
use serde_json::Value;
use serde_json::value::RawValue;

use super::PendingRow;
use crate::executor::Row;
use crate::mapping::Mapping;
use crate::sql::{READ_FIXED, length_instead};

/// A row that is due.
#[derive(Debug)]
pub(crate) struct Due {
    /// Its id in the table.
    pub(crate) row: String,
    /// Failed tries so far; what is no number is none.
    pub(crate) attempts: u32,
    /// The same as the table spells it.
    pub(crate) was: String,
    /// Where it stands in the order of reading.
    pub(crate) cursor: String,
    /// How many claims of it did not run out, where rows are claimed in columns.
    pub(crate) excused: u32,
    /// The event, or why there is none in it.
    pub(crate) event: Result<Event, Unreadable>,
}

/// A row that holds no event.
#[derive(Debug)]
pub(crate) struct Unreadable {
    /// As much of the event as could be read; without an id if the row has none.
    pub(crate) event: Box<Event>,
    pub(crate) why: Box<Failure>,
}

impl Unreadable {
    /// The row with its event's id, and the failure that it is.
    pub(super) fn of(self, mut out: PendingRow) -> (PendingRow, Failure) {
        if !self.event.id.is_empty() {
            out.event_id = self.event.id;
        }
        (out, *self.why)
    }

    /// The event as its dead letter may tell it: with its ids, and without a payload that may be too large for one.
    pub(super) fn into_event(self) -> (Event, Failure) {
        (self.event.omit_payload(), *self.why)
    }
}

impl Due {
    /// How large its event is.
    pub(super) fn size(&self) -> usize {
        self.event.as_ref().map_or(0, Event::size)
    }

    /// Reads the columns of [`crate::sql::Takes`].
    pub(crate) fn read(mapping: &Mapping, limits: Limits, row: Row) -> Self {
        let mut columns = row.into_iter();
        let mut next = || columns.next().flatten();
        let fixed: [Option<String>; READ_FIXED] = [next(), next(), next(), next(), next()];
        let [row, was, beside, cursor, excused] = fixed.map(Option::unwrap_or_default);
        let event = event(mapping, limits, next);
        let attempts = beside.parse().or_else(|_| was.parse()).unwrap_or_default();
        let excused = excused.parse().unwrap_or_default();
        Self { row, attempts, was, cursor, excused, event }
    }
}

fn event(mapping: &Mapping, limits: Limits, next: impl FnMut() -> Option<String>) -> Result<Event, Unreadable> {
    let mut event = Event::new("").id("");
    match fill(&mut event, mapping, limits, next) {
        Ok(()) => Ok(event),
        Err(why) => Err(Unreadable { event: Box::new(event), why: Box::new(why) }),
    }
}

pub(super) fn unreadable(why: impl Into<String>) -> Failure {
    Failure::permanent("mapping.unreadable", why)
}

fn missing(what: &str, path: &crate::mapping::ColumnPath) -> Failure {
    unreadable(format!("there is no {what} at {path}"))
}

fn refused(error: &EventError) -> Failure {
    if error.is_about_size() { error.failure() } else { unreadable(error.to_string()) }
}

/// Reads everything of an event.
fn fill(
    event: &mut Event,
    mapping: &Mapping,
    limits: Limits,
    mut next: impl FnMut() -> Option<String>,
) -> Result<(), Failure> {
    let paths = &mapping.event;
    let mut too_long = None;
    let mut next = |field: &'static str, limit: usize| {
        let text = next()?;
        let Some(bytes) = length_instead(&text) else { return Some(text) };
        too_long.get_or_insert(EventError::TooLong { field, bytes, limit });
        None
    };
    let id = next("id", ID_BYTES_MAX).filter(|id| !id.is_empty());
    let has_id = id.is_some();
    event.id = id.unwrap_or_default();
    let event_type = next("type", NAME_BYTES_MAX).filter(|name| !name.is_empty());
    let payload = next("payload", limits.payload_bytes_max);
    JSON.clone_into(&mut event.content_type);
    // Only what stands in the row: the correlation of a task of ours has nothing to do with it.
    event.correlation_id = None;
    event.key = next("key", KEY_BYTES_MAX);
    event.aggregate_type = next("aggregate_type", NAME_BYTES_MAX);
    event.aggregate_id = next("aggregate_id", KEY_BYTES_MAX);
    event.tenant = next("tenant", NAME_BYTES_MAX);
    let mut short = |field| next(field, NAME_BYTES_MAX);
    let occurred_at = short("occurred_at").and_then(|micros| Timestamp::from_microsecond(micros.parse().ok()?).ok());
    event.occurred_at = occurred_at.unwrap_or(Timestamp::UNIX_EPOCH);
    event.correlation_id = short("correlation_id");
    event.causation_id = short("causation_id");
    event.schema_version = short("schema_version").and_then(|version| version.parse().ok()).unwrap_or(1);
    let mut too_deep = None;
    let headers = headers(next(HEADERS_FIELD, HEADER_BYTES_MAX));
    for (name, _) in &paths.attributes {
        let Some(text) = next(HEADERS_FIELD, HEADER_BYTES_MAX) else { continue };
        if let Ok(value) = serde_json::from_str::<Value>(&text) {
            event.attributes.insert(name.clone(), value);
        } else if json_depth(text.as_bytes()) > JSON_DEPTH_MAX {
            too_deep = Some(EventError::TooDeep { field: HEADERS_FIELD });
        }
    }
    // Last, as the dead letter of a row that holds no event tells all that could be read.
    if let Some(error) = too_long.or(too_deep) {
        if let EventError::TooLong { field: "payload", bytes, .. } = error {
            *event = event.without_payload(bytes);
        }
        event.event_type = event_type.unwrap_or_default();
        return Err(refused(&error));
    }
    if !has_id {
        return Err(missing("id", &paths.id));
    }
    event.event_type = event_type.ok_or_else(|| missing("type", &paths.event_type))?;
    let payload = payload.ok_or_else(|| missing("payload", &paths.payload))?;
    event.payload = without(payload, &paths.payload_without).map_err(unreadable)?;
    event.headers = headers.map_err(unreadable)?;
    limits.check(event).map_err(|error| refused(&error))
}

/// The payload without some keys of its object, the others byte for byte and in their order.
fn without(payload: String, keys: &[String]) -> Result<Bytes, String> {
    if keys.is_empty() {
        return Ok(Bytes::from(payload));
    }
    let object = Members::read(&payload)?;
    let mut text = String::with_capacity(payload.len());
    for (name, value) in object.0.iter().filter(|(name, _)| !keys.contains(name)) {
        text.push(if text.is_empty() { '{' } else { ',' });
        text.push_str(&Value::String(name.clone()).to_string());
        text.push(':');
        text.push_str(value.get());
    }
    text.push_str(if text.is_empty() { "{}" } else { "}" });
    Ok(Bytes::from(text))
}

/// The members of an object in their order.
struct Members<'a>(Vec<(String, &'a RawValue)>);

impl<'a> Members<'a> {
    fn read(text: &'a str) -> Result<Self, String> {
        serde_json::from_str(text).map_err(|_| "its payload is not a JSON object".to_owned())
    }
}

impl<'de: 'a, 'a> serde::Deserialize<'de> for Members<'a> {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl<'de> serde::de::Visitor<'de> for Visitor {
            type Value = Vec<(String, &'de RawValue)>;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: serde::de::MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(members)
            }
        }
        deserializer.deserialize_map(Visitor).map(Members)
    }
}

fn headers(text: Option<String>) -> Result<BTreeMap<String, String>, String> {
    let Some(text) = text else { return Ok(BTreeMap::new()) };
    let values: BTreeMap<String, Value> =
        serde_json::from_str(&text).map_err(|_| "its headers are not a JSON object".to_owned())?;
    let text = |value: Value| match value {
        Value::String(text) => text,
        other => other.to_string(),
    };
    Ok(values.into_iter().filter(|(_, value)| !value.is_null()).map(|(name, value)| (name, text(value))).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_payload_loses_the_named_keys_and_nothing_else() {
        let keys = ["outbox_status".to_owned(), "outbox_retry_count".to_owned()];
        let check =
            |text: &str| without(text.to_owned(), &keys).map(|bytes| String::from_utf8(bytes.to_vec()).unwrap());
        let text = r#"{"z": 1.50, "outbox_status":"pending","a":{"outbox_status": 1},"outbox_retry_count":0}"#;
        assert_eq!(check(text).unwrap(), r#"{"z":1.50,"a":{"outbox_status": 1}}"#);
        assert_eq!(check(r#"{"outbox_status":"pending"}"#).unwrap(), "{}");
        for bad in ["[1]", "7", "nonsense"] {
            assert_eq!(check(bad).unwrap_err(), "its payload is not a JSON object");
        }
        assert_eq!(without("[1, 2]".to_owned(), &[]).unwrap(), "[1, 2]");
    }
}
