//! The event: what an application says happened, with everything a route may need of it.
//!
//! Builds and checks events. How they look on the wire is [`crate::envelope`]; where they are kept is a store's business.

use std::collections::BTreeMap;

use bytes::Bytes;
use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::{correlation, trace};

/// Content type of a JSON payload, which nearly every event has.
pub const JSON: &str = "application/json";

/// Event: a fact that an application appends to the outbox.
///
/// Two events of one `id` are two events in the log; consumers that accept by id see one.
#[derive(Debug, Clone, PartialEq)]
pub struct Event {
    /// Unique id of the event; a time-ordered UUIDv7 unless set. At most 64 bytes.
    pub id: String,
    /// Event type, for instance `order.placed`.
    pub event_type: String,
    /// Ordering key, if it is not the aggregate id; see [`Event::ordering_key`].
    pub key: Option<String>,
    /// Aggregate type: the kind of entity that the event is about, for instance `order`.
    pub aggregate_type: Option<String>,
    /// Aggregate id: the entity that the event is about. The ordering key unless `key` is set.
    pub aggregate_id: Option<String>,
    /// Tenant that the event belongs to.
    pub tenant: Option<String>,
    /// Payload, byte for byte as it was appended.
    pub payload: Bytes,
    /// Content type of the payload; [`JSON`] by default.
    pub content_type: String,
    /// Headers that are delivered with the event; `traceparent` is one of them.
    pub headers: BTreeMap<String, String>,
    /// Attributes: free fields such as `station_id` or `group_id`.
    pub attributes: BTreeMap<String, Value>,
    /// Correlation id, shared by all events of one request; defaults to that of the task, else to `id`.
    pub correlation_id: Option<String>,
    /// Id of the event that caused this one.
    pub causation_id: Option<String>,
    /// Version of the payload's schema.
    pub schema_version: i32,
    /// Time at which the event occurred.
    pub occurred_at: Timestamp,
    /// Time before which the event is not delivered; `None` means at once.
    pub available_at: Option<Timestamp>,
}

/// Smaller payloads are never left out of a dead letter, in bytes.
const OMITTED_PAYLOAD_MIN: usize = 64 * 1024;

impl Event {
    /// Creates an event of this type that occurs now, with a fresh id, a JSON `null` as payload and no key.
    pub fn new(event_type: impl Into<String>) -> Self {
        let mut headers = BTreeMap::new();
        trace::carry(&mut headers);
        Self {
            id: new_id(),
            event_type: event_type.into(),
            key: None,
            aggregate_type: None,
            aggregate_id: None,
            tenant: None,
            payload: Bytes::from_static(b"null"),
            content_type: JSON.to_owned(),
            headers,
            attributes: BTreeMap::new(),
            correlation_id: correlation::current(),
            causation_id: None,
            schema_version: 1,
            occurred_at: Timestamp::now(),
            available_at: None,
        }
    }

    /// Sets the id; give one when the caller must be able to repeat the append.
    pub fn id(mut self, id: impl Into<String>) -> Self {
        self.id = id.into();
        self
    }

    /// Sets the ordering key.
    pub fn key(mut self, key: impl Into<String>) -> Self {
        self.key = Some(key.into());
        self
    }

    /// Sets the aggregate type and id; `id` is the ordering key unless one is set.
    pub fn aggregate(mut self, aggregate_type: impl Into<String>, id: impl Into<String>) -> Self {
        self.aggregate_type = Some(aggregate_type.into());
        self.aggregate_id = Some(id.into());
        self
    }

    /// Sets the tenant.
    pub fn tenant(mut self, tenant: impl Into<String>) -> Self {
        self.tenant = Some(tenant.into());
        self
    }

    /// Sets the payload to the JSON of `value`.
    pub fn json<T: Serialize + ?Sized>(mut self, value: &T) -> Result<Self, serde_json::Error> {
        self.payload = Bytes::from(serde_json::to_vec(value)?);
        JSON.clone_into(&mut self.content_type);
        Ok(self)
    }

    /// Sets the payload to bytes of any kind, kept exactly.
    pub fn bytes(mut self, content_type: impl Into<String>, payload: impl Into<Bytes>) -> Self {
        self.payload = payload.into();
        self.content_type = content_type.into();
        self
    }

    /// Adds a header.
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.headers.insert(name.into(), value.into());
        self
    }

    /// Adds an attribute.
    pub fn attribute(mut self, name: impl Into<String>, value: impl Into<Value>) -> Self {
        self.attributes.insert(name.into(), value.into());
        self
    }

    /// Sets the event that caused this one, and continues its correlation.
    pub fn caused_by(mut self, cause: &Event) -> Self {
        self.causation_id = Some(cause.id.clone());
        self.correlation_id = Some(cause.correlation().to_owned());
        self
    }

    /// Holds the event back until then.
    pub fn available_at(mut self, at: Timestamp) -> Self {
        self.available_at = Some(at);
        self
    }

    /// Returns the ordering key: events with the same key are delivered in order; `None` has no order.
    pub fn ordering_key(&self) -> Option<&str> {
        self.key.as_deref().or(self.aggregate_id.as_deref())
    }

    /// Returns the correlation id in force: its own, else the event's id.
    pub fn correlation(&self) -> &str {
        self.correlation_id.as_deref().unwrap_or(&self.id)
    }

    /// Reports whether the content type of the payload is JSON.
    pub fn is_json(&self) -> bool {
        let base = self.content_type.split(';').next().unwrap_or_default().trim();
        base.eq_ignore_ascii_case(JSON) || base.ends_with("+json")
    }

    /// Returns the payload as JSON text, if it is JSON.
    pub fn payload_json(&self) -> Option<&RawValue> {
        if self.is_json() { serde_json::from_slice(&self.payload).ok() } else { None }
    }

    /// Deserializes the payload into a type of the application.
    pub fn payload_as<'a, T: serde::Deserialize<'a>>(&'a self) -> Result<T, serde_json::Error> {
        serde_json::from_slice(&self.payload)
    }

    /// Returns whether the payload is so large that a place for dead letters may refuse it.
    pub fn is_payload_worth_omitting(&self) -> bool {
        self.payload.len() > OMITTED_PAYLOAD_MIN
    }

    /// Returns the event as a dead letter tells it where its payload is too large: instead of the payload it has an object
    /// with `omitted_bytes`. A small payload stays.
    pub fn omit_payload(&self) -> Self {
        if self.is_payload_worth_omitting() { self.without_payload(self.payload.len()) } else { self.clone() }
    }

    /// Returns the event with an object that says how large its payload is instead of the payload.
    pub fn without_payload(&self, bytes: usize) -> Self {
        let payload = Bytes::from(format!("{{\"omitted_bytes\":{bytes}}}"));
        Self { payload, content_type: JSON.to_owned(), ..self.clone() }
    }

    /// Returns the approximate size of the event in memory, in bytes, which budgets count.
    pub fn size(&self) -> usize {
        let text = |t: &Option<String>| t.as_ref().map_or(0, String::len);
        self.payload.len()
            + self.id.len()
            + self.event_type.len()
            + text(&self.key)
            + text(&self.aggregate_type)
            + text(&self.aggregate_id)
            + text(&self.tenant)
            + self.headers.iter().map(|(k, v)| k.len() + v.len()).sum::<usize>()
            + self.attributes.iter().map(|(k, v)| k.len() + value_size(v)).sum::<usize>()
            + 256
    }
}

/// Bytes a JSON value keeps, roughly.
fn value_size(value: &Value) -> usize {
    match value {
        Value::String(text) => text.len(),
        Value::Array(items) => items.iter().map(value_size).sum(),
        Value::Object(fields) => fields.iter().map(|(k, v)| k.len() + value_size(v)).sum(),
        Value::Null | Value::Bool(_) | Value::Number(_) => 16,
    }
}

/// Creates a fresh event id: time-ordered and unique.
pub fn new_id() -> String {
    uuid::Uuid::now_v7().to_string()
}

/// Creates an event id as a ULID: 26 characters that sort by time. Its bits are those of a time-ordered UUID, which has the same
/// parts in the same order.
pub fn new_ulid() -> String {
    const CROCKFORD: &[u8; 32] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";
    let id = uuid::Uuid::now_v7().as_u128();
    let digit = |place: u32| char::from(CROCKFORD[(id >> (5 * place) & 31) as usize]);
    (0..26).rev().map(digit).collect()
}

/// Type of the application that can be converted to an event.
///
/// Implement it for your types, so that `outbox.append(&mut tx, &OrderPlaced { .. })` works.
pub trait ToEvent {
    /// Converts the value to an event.
    fn to_event(&self) -> Result<Event, serde_json::Error>;
}

impl ToEvent for Event {
    fn to_event(&self) -> Result<Event, serde_json::Error> {
        let mut event = self.clone();
        trace::carry(&mut event.headers);
        Ok(event)
    }
}
