//! Records of the maintenance of a store on its server.

use std::time::Duration;

use jiff::Timestamp;
use serde::Serialize;

/// Size of a store on its server, and the session that keeps it from shrinking.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct StoreStats {
    /// Name of the store.
    pub store: String,
    /// Partitions of the log, in the order of their numbers.
    pub partitions: Vec<PartitionStats>,
    /// Other tables, largest first.
    pub tables: Vec<TableStats>,
    /// Last number drawn from the sequence; 0 if none was.
    pub last_number: i64,
    /// Number of events truncated after their retention.
    pub truncated: u64,
    /// Number of checkpoints kept; a running relay removes superseded ones.
    pub checkpoints: u64,
    /// Oldest snapshot that keeps the server from removing dead rows, if any.
    pub horizon: Option<Horizon>,
}

/// Partition of the log.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct PartitionStats {
    /// Number of the partition.
    pub partition: u32,
    /// Whether events are appended to this partition now.
    pub current: bool,
    /// Number of events in the partition.
    pub rows: u64,
    /// Whether `rows` is an estimate of the server: the partition is large, or the role may not read it.
    pub rows_estimated: bool,
    /// Size on disk with indexes, in bytes.
    pub bytes: u64,
    /// Time at which the first event was appended; `None` if the partition is empty or not readable.
    pub oldest: Option<Timestamp>,
    /// Time at which the last event was appended.
    pub newest: Option<Timestamp>,
}

/// Table beside the log.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct TableStats {
    /// Name of the table.
    pub table: String,
    /// Number of rows, estimated by the server.
    pub rows: u64,
    /// Number of dead rows not yet removed, estimated by the server.
    pub dead_rows: u64,
    /// Size on disk with indexes, in bytes.
    pub bytes: u64,
}

/// Oldest snapshot on the server, which keeps rows from being removed.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Horizon {
    /// Age in transactions.
    pub age_transactions: u64,
    /// Kind of the holder: session, prepared transaction or replication slot.
    pub kind: String,
    /// Process id or name of the holder.
    pub name: String,
    /// User and activity of the holder, as far as the role may see them.
    pub detail: String,
    /// Time at which the holder began, if known.
    pub since: Option<Timestamp>,
}

/// Values of a server that are measured all the time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StoreGauges {
    /// Age of the oldest snapshot that keeps the server from removing dead rows; zero if there is none.
    pub horizon_age: Duration,
    /// Age of the oldest open transaction that has written; zero when there is none.
    pub oldest_writer_age: Duration,
}

/// Result of `store repair`, or its preview.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Repaired {
    /// Name of the store.
    pub store: String,
    /// Last number of the sequence before the repair.
    pub last_number: i64,
    /// Greatest number in the log, or read by a route.
    pub greatest: i64,
    /// Whether the sequence was behind, and was set to `greatest`.
    pub repaired: bool,
    /// Number of identity columns whose sequences were behind, and were repaired.
    pub identities: u64,
    /// Events that routes had passed without reading them.
    pub passed: Recovered,
}

impl Repaired {
    /// Reports whether there is anything to repair.
    pub fn is_needed(&self) -> bool {
        self.repaired || self.identities > 0 || self.passed != Recovered::default()
    }
}

/// Events that routes had passed without reading them, and their recovery.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Recovered {
    /// Events appended while the sequence was behind, which got new numbers, so that every route reads them.
    pub renumbered: u64,
    /// Deliveries of events that a route had passed, which are due now, in the order of their keys.
    pub parked: u64,
    /// Deliveries that may reach their destination a second time, because the events cannot be told from those that were passed.
    pub again: u64,
    /// Passed events that the route does not match: counted, not delivered.
    pub unwanted: u64,
    /// Events that were read and are no longer in the log because they were removed by hand; the counts leave them out from now on.
    pub missing: u64,
}

/// Result of `store accept-identity`, or its preview.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Accepted {
    /// Name of the store.
    pub store: String,
    /// Cluster and timeline for which the tables were created.
    pub from: String,
    /// Cluster and timeline of this server.
    pub to: String,
    /// Whether the cluster is another one; a new timeline alone needs no take-over.
    pub other_cluster: bool,
    /// Whether there was anything to accept.
    pub accepted: bool,
    /// Number of lanes taken from their owners.
    pub lanes: u64,
    /// Deliveries of events that no route had read, though their numbers were passed; they are due now.
    pub recovered: u64,
    /// Events whose transaction ids could be mistaken for ids of this cluster.
    pub cleared: u64,
    /// State of the sequence, which a restore may leave behind.
    pub sequence: Repaired,
    /// Events that were appended on this server before, while the sequence was behind.
    pub passed: Recovered,
}
