//! A route: which events go where, and what happens when they do not get there.

use std::fmt;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::failure::Failure;
use crate::matching::Filter;

/// What a store keeps of a route, and what every relay that serves it must agree on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RouteDefinition {
    /// Its name; lower-case letters, digits, `-`, `_` and `.`.
    pub name: String,
    /// Which events it wants.
    pub filter: Filter,
    /// Where it starts when it is first registered.
    pub start: Start,
    /// Where it goes, for people: `kafka orders.v1`. Never contains a secret.
    pub to: String,
    /// What a failure does to later events of the key.
    pub on_failure: OnFailure,
    /// What a death does to later events of the key.
    pub on_dead: OnDead,
}

impl RouteDefinition {
    /// A route that wants everything from now on, blocks a failing key and goes on after a death.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            filter: Filter::default(),
            start: Start::Now,
            to: String::new(),
            on_failure: OnFailure::Block,
            on_dead: OnDead::Continue,
        }
    }

    /// Wants only these events.
    pub fn matching(mut self, filter: Filter) -> Self {
        self.filter = filter;
        self
    }

    /// Starts there when it is first registered.
    pub fn starting(mut self, start: Start) -> Self {
        self.start = start;
        self
    }
}

/// Whether `name` can be a route's or a store's name: it appears in commands, metrics and environment variables.
pub fn valid_name(name: &str) -> bool {
    !name.is_empty()
        && name.len() <= 63
        && name.starts_with(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit())
        && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | '_' | '.'))
}

/// Where a route starts when it is first registered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    /// With what commits after its registration.
    Now,
    /// With the oldest event still in the log.
    Beginning,
    /// With what was appended at that time or later.
    At(Timestamp),
}

impl Start {
    /// Reads `now`, `beginning` or a time.
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "now" => Some(Self::Now),
            "beginning" => Some(Self::Beginning),
            time => time.parse().ok().map(Self::At),
        }
    }
}

impl fmt::Display for Start {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Now => f.write_str("now"),
            Self::Beginning => f.write_str("beginning"),
            Self::At(time) => write!(f, "{time}"),
        }
    }
}

/// What a failed event does to later events of its key.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum OnFailure {
    /// They wait, so that order holds.
    #[default]
    Block,
    /// They pass it.
    Skip,
}

/// What a dead letter does to later events of its key.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum OnDead {
    /// They go on without it.
    #[default]
    Continue,
    /// They wait for an operator.
    Hold,
}

/// How a route is doing, as commands, metrics and console call it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum RouteState {
    /// In the configuration, not yet registered in the store.
    New,
    /// Moving, or nothing to do.
    Running,
    /// Stopped by an operator.
    Paused,
    /// Its destination is down; waiting for the next probe.
    BreakerOpen,
    /// Its destination was down; a few probes are on their way.
    HalfOpen,
    /// Its destination answers, and refuses everything; it is asked slowly until something succeeds.
    Slowed,
    /// It cannot work as configured.
    Misconfigured,
    /// Its receiver said it is gone for good; events are held.
    Disabled,
    /// A check found something that must not be; nothing moves until an operator decides.
    Halted,
    /// Moving, but the events up to its position are not as many as it has accounted for: some may have been passed.
    CountsDiffer,
    /// Registered, but no live relay has it in its configuration.
    Orphan,
    /// Its store cannot be reached.
    Down,
}

impl RouteState {
    /// The word in output and labels.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::New => "new",
            Self::Running => "running",
            Self::Paused => "paused",
            Self::BreakerOpen => "breaker_open",
            Self::HalfOpen => "half_open",
            Self::Slowed => "slowed",
            Self::Misconfigured => "misconfigured",
            Self::Disabled => "disabled",
            Self::Halted => "halted",
            Self::CountsDiffer => "counts_differ",
            Self::Orphan => "orphan",
            Self::Down => "down",
        }
    }
}

/// What a pause by a relay itself begins with, where an operator's has the operator's name.
const DISABLED: &str = "disabled: ";

/// How a pause that a relay makes itself is signed: its receiver is gone for good.
pub fn disabled_by(failure: &Failure) -> String {
    format!("{DISABLED}{}: {}", failure.code, failure.error)
}

/// What a relay says of a route it serves; stored with its heartbeat, so that commands elsewhere can tell.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RouteHealth {
    /// The state.
    pub state: RouteState,
    /// Why, in a few words; empty when all is well.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub note: String,
}

impl RouteHealth {
    /// Of a route that is paused, by whom it says: an operator, or a relay whose receiver is gone.
    pub fn paused(by: &str) -> Self {
        match by.strip_prefix(DISABLED) {
            Some(why) => Self { state: RouteState::Disabled, note: format!("{why}; `route resume` tries again") },
            None => Self { state: RouteState::Paused, note: format!("paused by {by}") },
        }
    }

    /// Moving.
    pub fn running() -> Self {
        Self { state: RouteState::Running, note: String::new() }
    }
}
