//! Records that an admin returns: the same in tables, JSON, API and console.

mod events;
mod replays;
mod sums;

use std::collections::BTreeMap;

use jiff::Timestamp;
use postroom_core::{ConsumerLags, DeliveryState, OnDead, OnFailure, RouteState};
use serde::Serialize;

pub use events::{ArrivalRow, AttemptRow, Contents, EventRow, RouteTimeline, Timeline, arrivals};
pub use replays::{ReplayKind, ReplayRow, ReplayState};
pub use sums::{AppendedRow, DeliveryGroup, ThroughputRow};

/// Delivery that is not settled, or a dead letter.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DeliveryRow {
    /// Name of the store.
    pub store: String,
    /// Name of the route.
    pub route: String,
    /// Position of the event in the log.
    pub position: i64,
    /// Id of the event.
    pub id: String,
    /// Event type.
    #[serde(rename = "type")]
    pub event_type: String,
    /// Ordering key.
    pub key: Option<String>,
    /// Tenant of the event.
    pub tenant: Option<String>,
    /// State of the delivery.
    pub state: DeliveryState,
    /// Number of failed attempts.
    pub attempts: u32,
    /// Code of the last failure.
    pub code: Option<String>,
    /// Text of the last failure.
    pub error: Option<String>,
    /// Time of the next attempt.
    pub due_at: Option<Timestamp>,
    /// Time at which the event was appended.
    pub appended_at: Timestamp,
    /// Time at which the delivery entered this state.
    pub since: Timestamp,
}

/// Status of a route of a store.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RouteStatus {
    /// Name of the store.
    pub store: String,
    /// Name of the route.
    pub route: String,
    /// Destination of the route.
    pub to: String,
    /// State of the route.
    pub state: RouteState,
    /// Time since which the route is in this state, if known.
    pub since: Option<Timestamp>,
    /// Time of the next attempt at a destination that is down.
    pub next_try: Option<Timestamp>,
    /// Deliveries that are due; exact up to 10,000. Null if none was found among the events that were searched, and there are
    /// more: then it is not known whether a delivery is due.
    pub due: Option<u64>,
    /// Whether `due` is an estimate.
    pub due_estimated: bool,
    /// Age of the oldest due delivery, in seconds; 0 if there is none, null if that is not known.
    pub oldest_due_seconds: Option<f64>,
    /// Deliveries per second over the last seconds, replays included, as live relays count them.
    pub rate: f64,
    /// Mean of deliveries per second over the last minute.
    pub rate_1m: f64,
    /// Deliveries since the route was registered, replays included.
    pub delivered: u64,
    /// Deliveries that wait for another attempt.
    pub retrying: u64,
    /// Keys whose events wait behind an earlier event.
    pub blocked_keys: u64,
    /// Number of dead letters.
    pub dead: u64,
    /// Reason why the route is not running, or a hint; may be empty.
    pub message: String,
    /// Lag of the destination's consumers, as a relay last read it; null if the transport knows no consumers, or no relay reads it.
    pub consumers: Option<ConsumerLags>,
}

/// Registered route with its settings and lanes.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RouteDetail {
    /// Status of the route.
    #[serde(flatten)]
    pub status: RouteStatus,
    /// Patterns of event types that the route matches.
    #[serde(rename = "match")]
    pub types: Vec<String>,
    /// Patterns of aggregate types that the route matches.
    pub aggregate_type: Vec<String>,
    /// Patterns of tenants that the route matches.
    pub tenant: Vec<String>,
    /// Position at which the route started: now, beginning or a time.
    pub start: String,
    /// Effect of a failure on later events of the key.
    pub on_failure: OnFailure,
    /// Effect of a dead letter on later events of the key.
    pub on_dead: OnDead,
    /// Time at which the route was registered.
    pub registered_at: Timestamp,
    /// Operator who paused the route.
    pub paused_by: Option<String>,
    /// Time at which the route was paused.
    pub paused_at: Option<Timestamp>,
    /// Reason of the pause, if the operator gave one.
    pub pause_reason: Option<String>,
    /// Lanes of the route.
    pub lanes: Vec<LaneRow>,
}

/// Lane of a route.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LaneRow {
    /// Number of the lane.
    pub lane: u32,
    /// Relay that owns the lane.
    pub holder: Option<String>,
    /// Term of the ownership.
    pub term: i64,
    /// High-water mark: all events up to this position have been read.
    pub hwm: i64,
    /// Events read and not settled.
    pub unsettled: u64,
    /// Cumulative counts of the lane.
    #[serde(flatten)]
    pub counts: Counts,
}

/// Cumulative counts of a lane; `verify` proves that they agree.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Counts {
    /// Events in the log, or already pruned, when the route started.
    pub base: u64,
    /// Events read since the route started.
    pub seen: u64,
    /// Events delivered at the first attempt.
    pub delivered: u64,
    /// Events that the route does not match.
    pub filtered: u64,
    /// Events parked as a delivery of their own.
    pub parked: u64,
    /// Parked deliveries that were delivered later.
    pub recovered: u64,
    /// Parked deliveries that an operator discarded.
    pub discarded: u64,
    /// Deliveries of settled events that a replay sent again; no part of the other counts.
    pub replayed: u64,
}

/// Relay that has registered at a store.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RelayRow {
    /// Name of the store.
    pub store: String,
    /// Name of the relay.
    pub relay: String,
    /// Boot id of the relay's process.
    pub boot: String,
    /// Version of the relay's program.
    pub version: String,
    /// Whether the last heartbeat is recent.
    pub alive: bool,
    /// Time at which the relay registered.
    pub started_at: Timestamp,
    /// Time of the last heartbeat.
    pub seen_at: Timestamp,
    /// Number of lanes that the relay owns, over all routes.
    pub lanes: u64,
    /// Routes that the relay serves.
    pub routes: Vec<String>,
}

/// Up to how many events of a log are counted one by one: one more stands for more than that, where the database has no estimate.
pub const EVENTS_COUNTED_MAX: u64 = 100_000;

/// Store with its size.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StoreRow {
    /// Name of the store.
    pub store: String,
    /// Kind of the store: sqlite, postgres or memory.
    pub kind: &'static str,
    /// Whether the store answered.
    pub reachable: bool,
    /// Schema version of the store's tables, if the store answered.
    pub schema_version: Option<i64>,
    /// Number of events in the log, if the store answered.
    pub events: Option<u64>,
    /// Whether `events` is an estimate, because counting all would take too long.
    pub events_estimated: bool,
    /// Size on disk in bytes, if known.
    pub bytes: Option<u64>,
    /// Events that match no registered route, among the newest 10,000, if the store answered.
    pub unmatched: Option<u64>,
    /// Error of the store, or a hint; may be empty.
    pub message: String,
}

/// Blocked key: a key whose events wait behind an earlier event.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BlockedKey {
    /// Name of the store.
    pub store: String,
    /// Name of the route.
    pub route: String,
    /// Ordering key.
    pub key: String,
    /// Id of the head: the event that the others wait for.
    pub head_id: String,
    /// Position of the head in the log.
    pub head_position: i64,
    /// State of the head.
    pub head_state: DeliveryState,
    /// Number of failed attempts of the head.
    pub attempts: u32,
    /// Code of the last failure of the head.
    pub code: Option<String>,
    /// Text of the last failure of the head.
    pub error: Option<String>,
    /// Time of the next attempt of the head.
    pub due_at: Option<Timestamp>,
    /// Number of events that wait behind the head.
    pub waiting: u64,
    /// Time since which the key is blocked.
    pub since: Timestamp,
}

impl BlockedKey {
    /// Returns the cursor at which a list continues after this key.
    pub fn cursor(&self) -> KeyCursor {
        KeyCursor { position: self.head_position, route: self.route.clone(), key: self.key.clone() }
    }
}

/// Cursor in the list of blocked keys.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct KeyCursor {
    /// Position of the head in the log.
    pub position: i64,
    /// Name of the route.
    pub route: String,
    /// Ordering key.
    pub key: String,
}

/// Acceptance of an event by a consumer.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct InboxRow {
    /// Name of the store.
    pub store: String,
    /// Name of the consumer.
    pub consumer: String,
    /// Id of the event.
    pub id: String,
    /// Time at which the consumer accepted the event.
    pub accepted_at: Timestamp,
}

impl InboxRow {
    /// Returns the cursor at which a list continues after this acceptance.
    pub fn cursor(&self) -> InboxCursor {
        InboxCursor { id: self.id.clone(), consumer: self.consumer.clone() }
    }
}

/// Cursor in the list of acceptances.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InboxCursor {
    /// Id of the event.
    pub id: String,
    /// Name of the consumer.
    pub consumer: String,
}

/// Operator action in the audit log.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AuditRow {
    /// Name of the store.
    pub store: String,
    /// Number of the action in the store.
    pub number: i64,
    /// Time of the action.
    pub at: Timestamp,
    /// Operator who acted.
    pub actor: String,
    /// Kind of the action: `route.pause`, `dead.replay`, …
    pub action: String,
    /// Subject of the action: a route, a filter.
    pub subject: String,
    /// Number of affected deliveries.
    pub count: u64,
    /// Reason, if the operator gave one.
    pub reason: Option<String>,
}

/// Counts of a lane of a route, which prove that no event was lost.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct VerifyRow {
    /// Name of the store.
    pub store: String,
    /// Name of the route.
    pub route: String,
    /// Number of the lane.
    pub lane: u32,
    /// Events in the log up to `hwm`, plus pruned events.
    pub rows: u64,
    /// Events read and not settled.
    pub unsettled: u64,
    /// Parked deliveries that are still open or dead.
    pub open: u64,
    /// Cumulative counts of the lane.
    #[serde(flatten)]
    pub counts: Counts,
    /// Counts that do not agree; empty if no event is missing.
    pub differences: Vec<String>,
}

impl VerifyRow {
    /// Compares the counts, and describes those that do not agree.
    pub fn compare(counts: &Counts, rows: u64, unsettled: u64, open: u64) -> Vec<String> {
        let mut differences = Vec::new();
        let seen = counts.base + counts.seen;
        if rows != seen {
            differences.push(format!("{rows} rows up to the position, but base + seen = {seen}"));
        }
        let settled = counts.delivered + counts.filtered + counts.parked + unsettled;
        if counts.seen != settled {
            differences
                .push(format!("seen = {}, but delivered + filtered + parked + unsettled = {settled}", counts.seen));
        }
        let parked = counts.recovered + counts.discarded + open;
        if counts.parked != parked {
            differences.push(format!("parked = {}, but recovered + discarded + open = {parked}", counts.parked));
        }
        differences
    }
}

/// Deliveries that an operator action would affect, or has affected.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Affected {
    /// Number of deliveries.
    pub deliveries: u64,
    /// Number of distinct keys.
    pub keys: u64,
    /// Number of deliveries per route.
    pub routes: BTreeMap<String, u64>,
    /// Time of the oldest event.
    pub oldest: Option<Timestamp>,
    /// Number of events older than the retention of the inbox.
    pub older_than_inbox: u64,
    /// Time at which the last of the dead letters died; a selection with it means no later ones.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub died_by: Option<Timestamp>,
}

/// Payloads of a key that were erased, or would be.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Erased {
    /// Store name.
    pub store: String,
    /// Ordering key.
    pub key: String,
    /// Events of the key whose payload is in the log.
    pub events: u64,
    /// Events among them that are dead letters on a route.
    pub dead_letters: u64,
    /// Events among them that a route has still to deliver.
    pub undelivered: u64,
    /// Bytes of their payloads.
    pub bytes: u64,
}
