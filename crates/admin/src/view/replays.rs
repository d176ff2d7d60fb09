//! Records of replays.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::admin::Selection;

/// Kind of a replay.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum ReplayKind {
    /// Settled events.
    Settled,
    /// Dead letters, whose attempts start at 0 again.
    Dead,
}

impl ReplayKind {
    /// Returns the name in tables.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Settled => "settled",
            Self::Dead => "dead",
        }
    }

    /// Parses the name in tables.
    pub fn parse(word: &str) -> Option<Self> {
        [Self::Settled, Self::Dead].into_iter().find(|kind| kind.as_str() == word)
    }

    /// Returns the action that the audit log records for the start of the replay.
    pub fn action(self) -> &'static str {
        match self {
            Self::Settled => "replay",
            Self::Dead => "dead.replay",
        }
    }
}

/// State of a replay.
///
/// ```text
///  running ⇄ paused
///     │  ╲    │
/// delivering  cancelled
///     │
///   done
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum ReplayState {
    /// The next step may be made at any time.
    Running,
    /// No step is made until the replay is resumed.
    Paused,
    /// No further step is made.
    Cancelled,
    /// All deliveries were made due, and some are not settled yet.
    Delivering,
    /// All deliveries were made due and are settled: delivered, dead or discarded.
    Done,
}

impl ReplayState {
    /// All states.
    pub const ALL: [Self; 5] = [Self::Running, Self::Paused, Self::Cancelled, Self::Delivering, Self::Done];

    /// Returns the name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Paused => "paused",
            Self::Cancelled => "cancelled",
            Self::Delivering => "delivering",
            Self::Done => "done",
        }
    }

    /// Parses the name.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.as_str() == word)
    }
}

/// Replay of settled events or dead letters.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ReplayRow {
    /// Name of the store.
    pub store: String,
    /// Id of the replay.
    pub id: String,
    /// Kind of the replay.
    pub what: ReplayKind,
    /// State of the replay.
    pub state: ReplayState,
    /// Number of deliveries that the preview counted.
    pub total: u64,
    /// Number of deliveries made due so far.
    pub done: u64,
    /// Number of them that were delivered; null where it was not counted, or for adopted tables.
    pub delivered: Option<u64>,
    /// Number of them that are due, retrying or blocked; null as `delivered` is.
    pub pending: Option<u64>,
    /// Number of them that are dead letters again; null as `delivered` is.
    pub dead: Option<u64>,
    /// Maximum deliveries per second.
    pub rate: Option<f64>,
    /// Selection of events.
    pub selection: Selection,
    /// Whether events may be older than the retention of the inbox.
    pub allow_duplicates: bool,
    /// Operator who started the replay.
    pub actor: String,
    /// Reason, if the operator gave one.
    pub reason: Option<String>,
    /// Progress, in a format of the store.
    pub cursor: String,
    /// Time at which the replay was created.
    pub created_at: Timestamp,
    /// Time up to which the rate is used up; without a rate, the time of the last step.
    pub stepped_at: Timestamp,
    /// Time at which the last delivery was made due, or the replay was cancelled.
    pub ended_at: Option<Timestamp>,
}
