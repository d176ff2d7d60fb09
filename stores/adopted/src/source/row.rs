//! A row of an adopted table as an event.

use std::collections::BTreeMap;

use bytes::Bytes;
use jiff::Timestamp;
use postroom_core::{Event, Failure, JSON, Limits};
use serde_json::Value;
use serde_json::value::RawValue;

use super::PendingRow;
use crate::executor::Row;
use crate::mapping::Mapping;
use crate::sql::READ_FIXED;

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
    pub(crate) why: String,
}

impl Unreadable {
    /// The row with its event's id, and the failure that it is.
    pub(super) fn of(self, mut out: PendingRow) -> (PendingRow, Failure) {
        if !self.event.id.is_empty() {
            out.event_id = self.event.id;
        }
        (out, Failure::permanent("mapping.unreadable", self.why))
    }
}

impl Unreadable {
    /// The event as its dead letter may tell it: with its ids, and without a payload that may be too large for one.
    pub(super) fn into_event(self) -> (Event, Failure) {
        (self.event.omit_payload(), Failure::permanent("mapping.unreadable", self.why))
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

fn event(mapping: &Mapping, limits: Limits, mut next: impl FnMut() -> Option<String>) -> Result<Event, Unreadable> {
    let id = next().filter(|id| !id.is_empty());
    let Some(id) = id else {
        let why = missing("id", &mapping.event.id);
        return Err(Unreadable { event: Box::new(Event::new("").id("")), why });
    };
    let mut event = Event::new("").id(id);
    match fill(&mut event, mapping, limits, next) {
        Ok(()) => Ok(event),
        Err(why) => Err(Unreadable { event: Box::new(event), why }),
    }
}

fn missing(what: &str, path: &crate::mapping::ColumnPath) -> String {
    format!("there is no {what} at {path}")
}

/// Reads everything of an event but its id.
fn fill(
    event: &mut Event,
    mapping: &Mapping,
    limits: Limits,
    mut next: impl FnMut() -> Option<String>,
) -> Result<(), String> {
    let paths = &mapping.event;
    let (event_type, payload) = (next().filter(|name| !name.is_empty()), next());
    JSON.clone_into(&mut event.content_type);
    // Only what stands in the row: the correlation of a task of ours has nothing to do with it.
    event.correlation_id = None;
    event.key = next();
    event.aggregate_type = next();
    event.aggregate_id = next();
    event.tenant = next();
    let occurred_at = next().and_then(|micros| Timestamp::from_microsecond(micros.parse().ok()?).ok());
    event.occurred_at = occurred_at.unwrap_or(Timestamp::UNIX_EPOCH);
    event.correlation_id = next();
    event.causation_id = next();
    event.schema_version = next().and_then(|version| version.parse().ok()).unwrap_or(1);
    let headers = headers(next());
    for (name, _) in &paths.attributes {
        if let Some(value) = next().and_then(|text| serde_json::from_str::<Value>(&text).ok()) {
            event.attributes.insert(name.clone(), value);
        }
    }
    // Last, as the dead letter of a row that holds no event tells all that could be read.
    event.event_type = event_type.ok_or_else(|| missing("type", &paths.event_type))?;
    let payload = payload.ok_or_else(|| missing("payload", &paths.payload))?;
    event.payload = without(payload, &paths.payload_without)?;
    event.headers = headers?;
    limits.check(event).map_err(|error| error.to_string())
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
