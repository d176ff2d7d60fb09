//! What a replay shows of itself.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::desk::Selection;

/// What is sent again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum ReplayKind {
    /// Events that routes are done with.
    Settled,
    /// Dead letters, with their attempts back at 0.
    Dead,
}

impl ReplayKind {
    /// Its word in tables.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Settled => "settled",
            Self::Dead => "dead",
        }
    }

    /// The kind of a word.
    pub fn parse(word: &str) -> Option<Self> {
        [Self::Settled, Self::Dead].into_iter().find(|kind| kind.as_str() == word)
    }

    /// How the audit calls its beginning.
    pub fn action(self) -> &'static str {
        match self {
            Self::Settled => "replay",
            Self::Dead => "dead.replay",
        }
    }
}

/// Where a replay stands.
///
/// ```text
/// running ⇄ paused
///    │  ╲    │
///  done  cancelled
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum ReplayState {
    /// The next step may come at any time.
    Running,
    /// No step is made until it is resumed.
    Paused,
    /// No step will be made.
    Cancelled,
    /// Everything was made due.
    Done,
}

impl ReplayState {
    /// All there are.
    pub const ALL: [Self; 4] = [Self::Running, Self::Paused, Self::Cancelled, Self::Done];

    /// Its word in tables.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Paused => "paused",
            Self::Cancelled => "cancelled",
            Self::Done => "done",
        }
    }

    /// The state of a word.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.as_str() == word)
    }
}

/// A replay.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ReplayRow {
    /// The store.
    pub store: String,
    /// Its id.
    pub id: String,
    /// What is sent again.
    pub what: ReplayKind,
    /// Where it stands.
    pub state: ReplayState,
    /// How many deliveries the preview counted.
    pub total: u64,
    /// How many were made due so far.
    pub done: u64,
    /// Most deliveries per second.
    pub rate: Option<f64>,
    /// Which ones.
    pub selection: Selection,
    /// Whether some may be older than the inbox remembers.
    pub allow_duplicates: bool,
    /// Who asked for it.
    pub actor: String,
    /// Why, if they said.
    pub reason: Option<String>,
    /// How far it has got, in the store's own words.
    pub cursor: String,
    /// When it was asked for.
    pub created_at: Timestamp,
    /// Up to when its rate is used up: the last step, for one without a rate.
    pub stepped_at: Timestamp,
    /// When it was done or cancelled.
    pub ended_at: Option<Timestamp>,
}
