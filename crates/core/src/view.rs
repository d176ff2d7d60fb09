//! Records of a store's retention and maintenance: the same in tables, JSON, API and console.

mod maintenance;

use serde::Serialize;

pub use maintenance::{Accepted, Horizon, PartitionStats, Recovered, Repaired, StoreGauges, StoreStats, TableStats};

/// Rows that retention removed, or would remove.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Pruned {
    /// Number of events.
    pub events: u64,
    /// Number of failed attempts.
    pub attempts: u64,
    /// Number of acceptances.
    pub inbox: u64,
    /// Number of idempotency keys of `append_once`.
    pub append_keys: u64,
    /// Number of receipts.
    pub receipts: u64,
}
