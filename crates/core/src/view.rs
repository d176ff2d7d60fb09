//! What a desk shows: plain records, the same in tables, JSON, API and console.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;

use crate::delivery::DeliveryState;
use crate::failure::HandlerError;
use crate::route::{OnDead, OnFailure, RouteState};

/// One event in a list. The payload is not here.
#[derive(Debug, Clone, PartialEq, Serialize)]
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

/// A delivery that did not go straight through.
#[derive(Debug, Clone, PartialEq, Serialize)]
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

/// One acceptance.
#[derive(Debug, Clone, PartialEq, Serialize)]
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

/// One operator's action.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ActionRow {
    /// The store.
    pub store: String,
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

/// How large a store is on its server, and what keeps it from shrinking.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct StoreStats {
    /// The store.
    pub store: String,
    /// The ring of the log, in the order of their numbers.
    pub leaves: Vec<LeafStats>,
    /// The other tables, largest first.
    pub tables: Vec<TableStats>,
    /// The last number drawn; 0 when none was.
    pub last_number: i64,
    /// Events that were truncated when retention had passed them.
    pub truncated: u64,
    /// Checkpoints kept; superseded ones are removed while a relay runs.
    pub checkpoints: u64,
    /// What keeps the server from removing dead rows; `None` when nothing does.
    pub horizon: Option<Horizon>,
}

/// One leaf of the log's ring.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct LeafStats {
    /// Its number.
    pub leaf: u32,
    /// Whether events are appended to it now.
    pub current: bool,
    /// Events in it.
    pub rows: u64,
    /// Whether `rows` is the server's estimate: the leaf is large, or we may not read it.
    pub rows_estimated: bool,
    /// Bytes on disk with indexes.
    pub bytes: u64,
    /// When its first event was appended; `None` when it is empty or we may not read it.
    pub oldest: Option<Timestamp>,
    /// When its last event was appended.
    pub newest: Option<Timestamp>,
}

/// One table beside the log.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct TableStats {
    /// Its name.
    pub table: String,
    /// Rows, by the server's estimate.
    pub rows: u64,
    /// Dead rows not yet removed, by the server's estimate.
    pub dead_rows: u64,
    /// Bytes on disk with indexes.
    pub bytes: u64,
}

/// Who looks furthest back: the server keeps every row that was dead since for them.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Horizon {
    /// How many transactions ago.
    pub age_transactions: u64,
    /// What it is: session, prepared transaction, replication slot.
    pub kind: String,
    /// Its process id or name.
    pub name: String,
    /// Whose it is, and what it does, as far as we may see.
    pub note: String,
    /// When it began, where that can be told.
    pub since: Option<Timestamp>,
}

/// What `store repair` did, or would do.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Repaired {
    /// The store.
    pub store: String,
    /// The last number drawn before.
    pub last_number: i64,
    /// The greatest number that is in the log or was seen by a route.
    pub greatest: i64,
    /// Whether the sequence was behind, and was set to `greatest`.
    pub repaired: bool,
}

/// What `store accept-identity` did, or would do.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Accepted {
    /// The store.
    pub store: String,
    /// The cluster its tables were made for, and its timeline.
    pub from: String,
    /// The cluster this is, and its timeline.
    pub to: String,
    /// Whether it is another cluster; another timeline alone needs no take-over.
    pub other_cluster: bool,
    /// Whether there was anything to accept.
    pub accepted: bool,
    /// Lanes taken from whoever had them.
    pub lanes: u64,
    /// Deliveries of events that no route had seen, though their numbers were passed: due now.
    pub recovered: u64,
    /// Events whose transaction ids could have been mistaken for some of this cluster.
    pub cleared: u64,
    /// The sequence, which a restore may leave behind.
    pub sequence: Repaired,
}
