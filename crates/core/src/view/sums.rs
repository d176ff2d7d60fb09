//! Sums: what routes did per minute, and dead letters by what they died of.

use jiff::Timestamp;
use serde::Serialize;

/// What a route did in one minute. Minutes in which nothing happened may be missing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MinuteRow {
    /// The store.
    pub store: String,
    /// The route.
    pub route: String,
    /// When the minute began.
    pub minute: Timestamp,
    /// Delivered.
    pub delivered: u64,
    /// Tries that failed and are repeated.
    pub retried: u64,
    /// Given up.
    pub dead: u64,
}

/// Dead letters of one route that died of the same, of one type.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DeadGroup {
    /// The store.
    pub store: String,
    /// The route.
    pub route: String,
    /// Code of the last failure.
    pub code: Option<String>,
    /// What happened.
    #[serde(rename = "type")]
    pub event_type: String,
    /// How many.
    pub count: u64,
    /// Distinct keys among them.
    pub keys: u64,
    /// When the first of them died.
    pub first_at: Timestamp,
    /// When the last of them died.
    pub last_at: Timestamp,
    /// One of them: the event's id.
    pub sample: String,
    /// What that one died of.
    pub error: Option<String>,
}
