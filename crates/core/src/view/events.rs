//! One event: in a list, and everything known of it.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;

use super::InboxRow;
use crate::failure::HandlerError;

/// One event in a list. The payload is not here.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct EventRow {
    /// The store.
    pub store: String,
    /// Its number in the log.
    pub position: i64,
    /// Its id.
    pub id: String,
    /// What happened.
    #[serde(rename = "type")]
    pub event_type: String,
    /// The ordering key.
    pub key: Option<String>,
    /// Whose event.
    pub aggregate_type: Option<String>,
    /// Whose event.
    pub aggregate_id: Option<String>,
    /// The tenant.
    pub tenant: Option<String>,
    /// When it happened.
    pub occurred_at: Timestamp,
    /// Not before.
    pub available_at: Option<Timestamp>,
    /// When it was appended.
    pub appended_at: Timestamp,
    /// Size of the payload.
    pub payload_bytes: u64,
}

/// Everything known of one event: where it is, and why.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Timeline {
    /// The event.
    #[serde(flatten)]
    pub event: EventRow,
    /// Lane of the log.
    pub lane: u32,
    /// What the payload is.
    pub content_type: String,
    /// Its correlation.
    pub correlation_id: String,
    /// Its cause.
    pub causation_id: Option<String>,
    /// Version of the payload's schema.
    pub schema_version: i32,
    /// Its headers.
    pub headers: BTreeMap<String, String>,
    /// Its scope fields.
    pub attributes: BTreeMap<String, Value>,
    /// The payload as text; only when asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub payload: Option<Value>,
    /// What became of it on each registered route.
    pub routes: Vec<RouteTimeline>,
    /// Who accepted it.
    pub inbox: Vec<InboxRow>,
    /// Positions of other events with the same id.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub same_id_at: Vec<i64>,
}

/// What became of an event on one route.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RouteTimeline {
    /// The route.
    pub route: String,
    /// Where it stands: delivered, due, retrying, blocked, delayed, dead, filtered, discarded, before_start.
    pub state: &'static str,
    /// When it was settled as delivered.
    pub delivered_at: Option<Timestamp>,
    /// Where the destination put it.
    pub receipt: Option<String>,
    /// When it is tried next.
    pub due_at: Option<Timestamp>,
    /// The id of the event of its key that it waits for.
    pub blocked_by: Option<String>,
    /// Every failed try.
    pub attempts: Vec<AttemptRow>,
}

/// One failed try.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AttemptRow {
    /// Which try, from 1.
    pub attempt: u32,
    /// When.
    pub at: Timestamp,
    /// What came of it: transient or permanent.
    pub outcome: String,
    /// The failure's code.
    pub code: String,
    /// What was said.
    pub error: String,
    /// How long it took.
    pub took_ms: u64,
    /// Errors per handler, where several took it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub handlers: Vec<HandlerError>,
}
