//! Records of sums: events and deliveries over time, and groups of deliveries.

use std::collections::BTreeMap;

use jiff::Timestamp;
use postroom_core::DeliveryState;
use serde::Serialize;

/// Throughput of a route in one minute. Minutes without any activity may be missing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ThroughputRow {
    /// Name of the store.
    pub store: String,
    /// Name of the route.
    pub route: String,
    /// Start of the minute.
    pub minute: Timestamp,
    /// Number of deliveries.
    pub delivered: u64,
    /// Number of failed attempts that are repeated.
    pub retried: u64,
    /// Number of dead letters.
    pub dead: u64,
}

/// Number of events that were appended in one interval. Intervals without an event are missing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AppendedRow {
    /// Name of the store.
    pub store: String,
    /// Start of the interval.
    pub at: Timestamp,
    /// Number of events.
    pub appended: u64,
}

/// Group of deliveries of a route in one state that failed alike: with the same code, and an error that differs in numbers and
/// names at most.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DeliveryGroup {
    /// Name of the store.
    pub store: String,
    /// Name of the route.
    pub route: String,
    /// State of the deliveries.
    pub state: DeliveryState,
    /// Code of the last failure.
    pub code: Option<String>,
    /// Number of deliveries.
    pub count: u64,
    /// Number of distinct keys; a key with several event types, tenants or errors counts once for each of them.
    pub keys: u64,
    /// Number of deliveries by event type.
    pub types: BTreeMap<String, u64>,
    /// Number of deliveries by tenant, of events that have one.
    pub tenants: BTreeMap<String, u64>,
    /// Time at which the first of them entered the state.
    pub first_at: Timestamp,
    /// Time at which the last of them entered the state.
    pub last_at: Timestamp,
    /// Id of the event of the newest one.
    pub sample: String,
    /// Error of the newest one.
    pub error: Option<String>,
}
