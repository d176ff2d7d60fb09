//! Records of a single event: its row in a list, and its timeline.

use std::collections::BTreeMap;

use jiff::Timestamp;
use postroom_core::{Event, HandlerError};
use serde::Serialize;
use serde_json::Value;

use super::InboxRow;

/// Event in a list, without its payload.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct EventRow {
    /// Name of the store.
    pub store: String,
    /// Position of the event in the log.
    pub position: i64,
    /// Id of the event.
    pub id: String,
    /// Event type.
    #[serde(rename = "type")]
    pub event_type: String,
    /// Ordering key.
    pub key: Option<String>,
    /// Aggregate type: the kind of entity that the event is about.
    pub aggregate_type: Option<String>,
    /// Aggregate id: the entity that the event is about.
    pub aggregate_id: Option<String>,
    /// Tenant of the event.
    pub tenant: Option<String>,
    /// Time at which the event occurred.
    pub occurred_at: Timestamp,
    /// Time before which the event is not delivered.
    pub available_at: Option<Timestamp>,
    /// Time at which the event was appended.
    pub appended_at: Timestamp,
    /// Size of the payload in bytes.
    pub payload_bytes: u64,
}

/// Contents of an event: what a list leaves out.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Contents {
    /// Media type of the payload.
    pub content_type: String,
    /// Version of the payload's schema.
    pub schema_version: i32,
    /// Correlation id of the event.
    pub correlation_id: String,
    /// Id of the event that caused this one.
    pub causation_id: Option<String>,
    /// Headers of the event.
    pub headers: BTreeMap<String, String>,
    /// Attributes of the event.
    pub attributes: BTreeMap<String, Value>,
    /// Payload: JSON as it is, anything else as text; present only on request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub payload: Option<Value>,
}

impl Contents {
    /// Returns the contents of an event, the payload only on request.
    pub fn of(event: &Event, with_payload: bool) -> Self {
        let payload = || {
            let json = if event.is_json() { event.payload_as().ok() } else { None };
            json.unwrap_or_else(|| Value::String(String::from_utf8_lossy(&event.payload).into_owned()))
        };
        Self {
            content_type: event.content_type.clone(),
            schema_version: event.schema_version,
            correlation_id: event.correlation().to_owned(),
            causation_id: event.causation_id.clone(),
            headers: event.headers.clone(),
            attributes: event.attributes.clone(),
            payload: with_payload.then(payload),
        }
    }
}

impl From<Timeline> for Contents {
    fn from(timeline: Timeline) -> Self {
        Self {
            content_type: timeline.content_type,
            schema_version: timeline.schema_version,
            correlation_id: timeline.correlation_id,
            causation_id: timeline.causation_id,
            headers: timeline.headers,
            attributes: timeline.attributes,
            payload: timeline.payload,
        }
    }
}

/// Timeline of an event: its fields, and every attempt on every route.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Timeline {
    /// Event.
    #[serde(flatten)]
    pub event: EventRow,
    /// Lane of the log.
    pub lane: u32,
    /// Media type of the payload.
    pub content_type: String,
    /// Correlation id of the event.
    pub correlation_id: String,
    /// Id of the event that caused this one.
    pub causation_id: Option<String>,
    /// Version of the payload's schema.
    pub schema_version: i32,
    /// Headers of the event.
    pub headers: BTreeMap<String, String>,
    /// Attributes of the event.
    pub attributes: BTreeMap<String, Value>,
    /// Payload as text; present only on request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub payload: Option<Value>,
    /// State of the event on each registered route.
    pub routes: Vec<RouteTimeline>,
    /// Acceptances of the event.
    pub inbox: Vec<InboxRow>,
    /// Positions of other events with the same id.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub same_id_at: Vec<i64>,
}

/// State of an event on a route.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RouteTimeline {
    /// Name of the route.
    pub route: String,
    /// State: delivered, due, retrying, blocked, delayed, dead, filtered, discarded or before_start.
    pub state: &'static str,
    /// Time at which the delivery was settled.
    pub delivered_at: Option<Timestamp>,
    /// Receipt of the destination, for instance a partition and an offset.
    pub receipt: Option<String>,
    /// Time of the next attempt.
    pub due_at: Option<Timestamp>,
    /// Id of the earlier event of the key that blocks this one.
    pub blocked_by: Option<String>,
    /// Replay that the current delivery belongs to.
    pub replay: Option<String>,
    /// Failed attempts of all rounds, in order of time.
    pub attempts: Vec<AttemptRow>,
    /// Deliveries and discards of all rounds, in order of time; more than one if the event was replayed.
    pub arrivals: Vec<ArrivalRow>,
}

/// End of a delivery: the event reached the destination, or an operator discarded it.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ArrivalRow {
    /// Time at which the delivery was settled.
    pub at: Timestamp,
    /// Whether an operator discarded the delivery.
    pub discarded: bool,
    /// Receipt of the destination, for instance a partition and an offset.
    pub receipt: Option<String>,
    /// Replay that the delivery belonged to.
    pub replay: Option<String>,
}

/// Returns the arrivals of an event from receipts that cover it, newest first.
///
/// Receipts of replays name each event. Of the others only the newest one counts: a receipt of a batch may span events that were
/// committed later.
pub fn arrivals(receipts: Vec<ArrivalRow>) -> Vec<ArrivalRow> {
    let mut has_first = false;
    let mut arrivals: Vec<ArrivalRow> =
        receipts.into_iter().filter(|one| one.replay.is_some() || !std::mem::replace(&mut has_first, true)).collect();
    arrivals.reverse();
    arrivals
}

/// Failed attempt.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AttemptRow {
    /// Number of the attempt, from 1; a replay counts from 1 again.
    pub attempt: u32,
    /// Replay that the attempt belonged to.
    pub replay: Option<String>,
    /// Time of the attempt.
    pub at: Timestamp,
    /// Outcome: transient or permanent.
    pub outcome: String,
    /// Code of the failure.
    pub code: String,
    /// Text of the failure.
    pub error: String,
    /// Duration of the attempt in milliseconds.
    pub took_ms: u64,
    /// Errors per handler, if several handlers took the event.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub handlers: Vec<HandlerError>,
}
