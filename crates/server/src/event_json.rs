//! An event as JSON, as `event append -` and the API take it. The payload is kept byte for byte, and never reaches an error.

use std::collections::BTreeMap;

use postroom_core::{Event, JSON, Timestamp};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

/// Example of an event, for hints.
pub const EXAMPLE: &str = r#"{"type": "order.placed", "key": "order-7", "payload": {"total": 12}}"#;

/// Event as JSON; only the type is required.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EventJson<'a> {
    #[serde(rename = "type")]
    event_type: String,
    key: Option<String>,
    #[serde(borrow)]
    payload: Option<&'a RawValue>,
    id: Option<String>,
    aggregate_type: Option<String>,
    aggregate_id: Option<String>,
    tenant: Option<String>,
    #[serde(default)]
    headers: BTreeMap<String, String>,
    #[serde(default)]
    attributes: BTreeMap<String, Value>,
    correlation_id: Option<String>,
    causation_id: Option<String>,
    schema_version: Option<i32>,
    occurred_at: Option<Timestamp>,
    available_at: Option<Timestamp>,
}

impl EventJson<'_> {
    /// Parses one event. The error never quotes what is no object: that may be a payload.
    pub fn parse(text: &str) -> Result<EventJson<'_>, String> {
        if !text.trim_ascii_start().starts_with('{') {
            return Err("is not a JSON object".to_owned());
        }
        serde_json::from_str(text).map_err(|error| format!("is not an event: {error}"))
    }

    /// Reports whether the event has an id of its own.
    pub fn is_named(&self) -> bool {
        self.id.is_some()
    }

    /// Converts it into an event, with a new id if it has none.
    pub fn into_event(self) -> Event {
        let mut event = Event::new(self.event_type);
        event.id = self.id.unwrap_or(event.id);
        event.key = self.key;
        event.aggregate_type = self.aggregate_type;
        event.aggregate_id = self.aggregate_id;
        event.tenant = self.tenant;
        if let Some(payload) = self.payload {
            event = event.bytes(JSON, payload.get().as_bytes().to_vec());
        }
        event.headers = self.headers;
        event.attributes = self.attributes;
        event.correlation_id = self.correlation_id.or(event.correlation_id);
        event.causation_id = self.causation_id;
        event.schema_version = self.schema_version.unwrap_or(event.schema_version);
        event.occurred_at = self.occurred_at.unwrap_or(event.occurred_at);
        event.available_at = self.available_at;
        event
    }
}
