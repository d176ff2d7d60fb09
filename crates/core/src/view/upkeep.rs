//! What looking after a store on its server shows.

use std::time::Duration;

use jiff::Timestamp;
use serde::Serialize;

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

/// What of a server is watched all the time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Vitals {
    /// How long somebody has kept the server from removing dead rows; zero when nobody does.
    pub horizon_age: Duration,
    /// Age of the oldest open transaction that has written; zero when there is none.
    pub oldest_writer_age: Duration,
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
    /// Identity columns whose sequences were behind, and were set right.
    pub identities: u64,
    /// Events that routes had passed without seeing them.
    pub passed: Recovered,
}

impl Repaired {
    /// Whether there was anything to repair.
    pub fn is_needed(&self) -> bool {
        self.repaired || self.identities > 0 || self.passed != Recovered::default()
    }
}

/// Events that routes had passed without seeing them, and what became of them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Recovered {
    /// Events appended while the sequence was behind: they got new numbers, and every route reads them.
    pub renumbered: u64,
    /// Deliveries of events that a route had passed: due now, in the order of their keys.
    pub parked: u64,
    /// Deliveries that may reach their destination a second time, because nothing tells the events from those that were passed.
    pub again: u64,
    /// Events that were passed and that the route does not want: counted, not delivered.
    pub unwanted: u64,
    /// Events that were seen and are no longer in the log: somebody removed them. The counts leave them out from now on.
    pub missing: u64,
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
    /// Events that were appended here before, while the sequence was behind.
    pub passed: Recovered,
}
