//! What a desk shows: plain records, the same in tables, JSON, API and console.

mod events;
mod found;
mod replays;
mod sums;
mod upkeep;

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::Serialize;

use crate::delivery::DeliveryState;
use crate::route::{OnDead, OnFailure, RouteState};

pub use events::{AttemptRow, EventRow, RouteTimeline, Timeline};
pub use found::{Found, Level};
pub use replays::{ReplayKind, ReplayRow, ReplayState};
pub use sums::{DeadGroup, MinuteRow};
pub use upkeep::{Accepted, Horizon, LeafStats, Recovered, Repaired, StoreStats, TableStats, Vitals};

/// A delivery that did not go straight through.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DeliveryRow {
    /// The store.
    pub store: String,
    /// The route.
    pub route: String,
    /// The event's number in the log.
    pub position: i64,
    /// The event's id.
    pub id: String,
    /// What happened.
    #[serde(rename = "type")]
    pub event_type: String,
    /// The ordering key.
    pub key: Option<String>,
    /// The tenant.
    pub tenant: Option<String>,
    /// Where it stands.
    pub state: DeliveryState,
    /// Failed tries.
    pub attempts: u32,
    /// Code of the last failure.
    pub code: Option<String>,
    /// Text of the last failure.
    pub error: Option<String>,
    /// When it is tried next.
    pub due_at: Option<Timestamp>,
    /// When it was appended.
    pub appended_at: Timestamp,
    /// When it came into this state.
    pub since: Timestamp,
}

/// How one route of one store is doing.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RouteStatus {
    /// The store.
    pub store: String,
    /// The route.
    pub route: String,
    /// Where it goes.
    pub to: String,
    /// Its state.
    pub state: RouteState,
    /// Deliveries that should have been tried by now; exact up to 10,000.
    pub due: u64,
    /// Whether `due` is an estimate.
    pub due_estimated: bool,
    /// Age of the oldest of them; 0 when there is none.
    pub oldest_due_seconds: f64,
    /// Deliveries per second over the last minute.
    pub rate: f64,
    /// Delivered since registration.
    pub delivered: u64,
    /// Waiting for another try.
    pub retrying: u64,
    /// Keys with events waiting behind an earlier one.
    pub blocked_keys: u64,
    /// Dead letters.
    pub dead: u64,
    /// Why it is not running, or what to look at.
    pub note: String,
}

/// A registered route with its settings and lanes.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RouteDetail {
    /// How it is doing.
    #[serde(flatten)]
    pub status: RouteStatus,
    /// Types it wants.
    #[serde(rename = "match")]
    pub types: Vec<String>,
    /// Aggregate types it wants.
    pub aggregate_type: Vec<String>,
    /// Tenants it wants.
    pub tenant: Vec<String>,
    /// Where it started.
    pub start: String,
    /// What a failure does to its key.
    pub on_failure: OnFailure,
    /// What a death does to its key.
    pub on_dead: OnDead,
    /// When it was registered.
    pub registered_at: Timestamp,
    /// Who paused it.
    pub paused_by: Option<String>,
    /// Its lanes.
    pub lanes: Vec<LaneRow>,
}

/// One lane of one route.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LaneRow {
    /// The lane.
    pub lane: u32,
    /// Who owns it.
    pub holder: Option<String>,
    /// The ownership's number.
    pub term: i64,
    /// Everything up to this number has been seen.
    pub hwm: i64,
    /// Seen and not settled.
    pub unsettled: u64,
    /// The counts that must agree.
    #[serde(flatten)]
    pub counts: Counts,
}

/// Cumulative counts of a lane; `audit` proves that they agree.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Counts {
    /// Rows already there, or already pruned, when the route started.
    pub base: u64,
    /// Read since then.
    pub seen: u64,
    /// Gone straight through.
    pub delivered: u64,
    /// Not wanted by the route.
    pub filtered: u64,
    /// Put aside as a delivery of their own.
    pub parked: u64,
    /// Put aside and delivered later.
    pub recovered: u64,
    /// Put aside and discarded by an operator.
    pub discarded: u64,
}

/// A relay that has joined.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RelayRow {
    /// The store.
    pub store: String,
    /// Its name.
    pub relay: String,
    /// Its boot id.
    pub boot: String,
    /// Version of its program.
    pub version: String,
    /// Whether its heartbeat is in time.
    pub alive: bool,
    /// When it joined.
    pub started_at: Timestamp,
    /// When it last said it lives.
    pub seen_at: Timestamp,
    /// Lanes it owns, over all routes.
    pub lanes: u64,
    /// Routes it serves.
    pub routes: Vec<String>,
}

/// A store and what is in it.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StoreRow {
    /// Its name.
    pub store: String,
    /// What it is: sqlite, postgres, memory.
    pub kind: &'static str,
    /// Whether it answered.
    pub reachable: bool,
    /// Version of its tables.
    pub schema_version: i64,
    /// Events in the log.
    pub events: u64,
    /// Bytes on disk, where that can be told.
    pub bytes: Option<u64>,
    /// Events that match no registered route, among the newest 10,000.
    pub unmatched: u64,
    /// What to look at.
    pub note: String,
}

/// One key with events waiting behind an earlier one.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BlockedKey {
    /// The store.
    pub store: String,
    /// The route.
    pub route: String,
    /// The key.
    pub key: String,
    /// The event in front.
    pub head_id: String,
    /// Its number in the log.
    pub head_position: i64,
    /// Where it stands.
    pub head_state: DeliveryState,
    /// Its failed tries.
    pub attempts: u32,
    /// Code of its last failure.
    pub code: Option<String>,
    /// Text of its last failure.
    pub error: Option<String>,
    /// When it is tried next.
    pub due_at: Option<Timestamp>,
    /// Events behind it.
    pub waiting: u64,
    /// Since when.
    pub since: Timestamp,
}

impl BlockedKey {
    /// Where a list goes on after it.
    pub fn place(&self) -> KeyPlace {
        KeyPlace { position: self.head_position, route: self.route.clone(), key: self.key.clone() }
    }
}

/// A place in the list of blocked keys.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct KeyPlace {
    /// Where the event in front stands in the log.
    pub position: i64,
    /// The route.
    pub route: String,
    /// The key.
    pub key: String,
}

/// One acceptance.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct InboxRow {
    /// The store.
    pub store: String,
    /// The consumer.
    pub consumer: String,
    /// The event's id.
    pub id: String,
    /// When it was accepted.
    pub accepted_at: Timestamp,
}

impl InboxRow {
    /// Where a list goes on after it.
    pub fn place(&self) -> InboxPlace {
        InboxPlace { id: self.id.clone(), consumer: self.consumer.clone() }
    }
}

/// A place in the list of acceptances.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InboxPlace {
    /// The event's id.
    pub id: String,
    /// The consumer.
    pub consumer: String,
}

/// One operator's action.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ActionRow {
    /// The store.
    pub store: String,
    /// Its number in the store.
    pub number: i64,
    /// When.
    pub at: Timestamp,
    /// Who.
    pub actor: String,
    /// What: `route.pause`, `dead.replay`, …
    pub action: String,
    /// On what: a route, a filter.
    pub subject: String,
    /// How many deliveries it touched.
    pub count: u64,
    /// Why, if they said.
    pub reason: Option<String>,
}

/// Did we lose anything? The answer by counting, per route and lane.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AuditRow {
    /// The store.
    pub store: String,
    /// The route.
    pub route: String,
    /// The lane.
    pub lane: u32,
    /// Rows in the log up to `hwm`, plus rows pruned.
    pub rows: u64,
    /// Read and not settled.
    pub unsettled: u64,
    /// Parked deliveries still open or dead.
    pub open: u64,
    /// The counts.
    #[serde(flatten)]
    pub counts: Counts,
    /// What does not agree; empty when all is well.
    pub differences: Vec<String>,
}

impl AuditRow {
    /// Compares the counts; says what does not agree.
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

/// What an operator's selection would touch, or touched.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Affected {
    /// Deliveries.
    pub deliveries: u64,
    /// Distinct keys among them.
    pub keys: u64,
    /// Per route.
    pub routes: BTreeMap<String, u64>,
    /// The oldest event among them.
    pub oldest: Option<Timestamp>,
    /// How many are older than the inbox remembers.
    pub older_than_inbox: u64,
}

/// What retention removed, or would remove.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Pruned {
    /// Events.
    pub events: u64,
    /// Failed tries.
    pub attempts: u64,
    /// Acceptances.
    pub inbox: u64,
    /// Words of `append_once`.
    pub append_keys: u64,
    /// Receipts.
    pub receipts: u64,
}
