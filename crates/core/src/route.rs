//! A route: which events go where, and what happens when they do not get there.

use std::fmt;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::consumers::ConsumerLags;
use crate::error::{StoreError, StoreErrorKind};
use crate::failure::Failure;
use crate::maintenance::Actor;
use crate::matching::Filter;

/// Specification of a route, as a store keeps it; every relay that serves the route must agree on it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RouteSpec {
    /// Name of the route: lower-case letters, digits, `-`, `_` and `.`.
    pub name: String,
    /// Filter of the events that the route matches.
    pub filter: Filter,
    /// Start of the route when it is first registered.
    pub start: StartFrom,
    /// Destination, for people: `kafka orders.v1`. Never contains a secret.
    pub to: String,
    /// Effect of a failure on later events of the key.
    pub on_failure: OnFailure,
    /// Effect of a dead letter on later events of the key.
    pub on_dead: OnDead,
    /// Consumer as which the store's inbox records what the route delivers; what it has recorded is not delivered again.
    pub consumer: Option<String>,
}

impl RouteSpec {
    /// Creates a route that matches every event from now on, blocks a failing key and goes on after a dead letter.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            filter: Filter::default(),
            start: StartFrom::Now,
            to: String::new(),
            on_failure: OnFailure::Block,
            on_dead: OnDead::Continue,
            consumer: None,
        }
    }

    /// Sets the filter of the route.
    pub fn matching(mut self, filter: Filter) -> Self {
        self.filter = filter;
        self
    }

    /// Sets the start of the route when it is first registered.
    pub fn start_from(mut self, start: StartFrom) -> Self {
        self.start = start;
        self
    }

    /// Refuses a consumer: for stores that settle without their inbox.
    pub fn refuse_consumer(&self, store: &str) -> Result<(), StoreError> {
        let Some(consumer) = &self.consumer else { return Ok(()) };
        let message =
            format!("route {:?} has the consumer {consumer:?}, and store {store:?} keeps a log of its own", self.name);
        Err(StoreError::new(StoreErrorKind::Invalid, "register", message)
            .hint("let the handler accept the event in the transaction of its work, and leave `consumer` out"))
    }
}

/// Reports whether `name` is a valid name of a route or a store: it appears in commands, metrics and environment variables.
pub fn valid_name(name: &str) -> bool {
    !name.is_empty()
        && name.len() <= 63
        && name.starts_with(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit())
        && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | '_' | '.'))
}

/// Start of a route when it is first registered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StartFrom {
    /// With what commits after its registration.
    Now,
    /// With the oldest event still in the log.
    Beginning,
    /// With what was appended at that time or later.
    At(Timestamp),
}

impl StartFrom {
    /// Parses `now`, `beginning` or a time.
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "now" => Some(Self::Now),
            "beginning" => Some(Self::Beginning),
            time => time.parse().ok().map(Self::At),
        }
    }
}

impl fmt::Display for StartFrom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Now => f.write_str("now"),
            Self::Beginning => f.write_str("beginning"),
            Self::At(time) => write!(f, "{time}"),
        }
    }
}

/// Effect of a failure on later events of the key.
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

/// Effect of a dead letter on later events of the key.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum OnDead {
    /// They are delivered without it.
    #[default]
    Continue,
    /// They wait for an operator.
    Hold,
}

/// State of a route, as commands, metrics and console name it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
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
    /// Returns the name of the state in output and labels.
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

/// Returns the actor as which a relay disables a route whose receiver is gone for good.
pub fn disabled_by(failure: &Failure) -> Actor {
    Actor { name: format!("{DISABLED}{}: {}", failure.code, failure.error), reason: None }
}

/// Health of a route that a relay serves; stored with its heartbeat, so that other commands can show it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RouteHealth {
    /// State of the route.
    pub state: RouteState,
    /// Reason in a few words; empty if the route is running.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// Time since which the route is in this state; an outage lasts until its breaker closes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
    /// Time at which the destination is tried again, if the route waits for that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_try: Option<Timestamp>,
    /// Deliveries per second over the last seconds, replays included.
    #[serde(default)]
    pub rate: f64,
    /// Lag of the destination's consumers, from the relay that reads it; `None` if no relay does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub consumers: Option<ConsumerLags>,
}

impl RouteHealth {
    /// Creates the health of a route in this state, for this reason.
    pub fn new(state: RouteState, message: impl Into<String>) -> Self {
        Self { state, message: message.into(), since: None, next_try: None, rate: 0.0, consumers: None }
    }

    /// Combines what live relays say of a route, as stored JSON, the most important one first. Their rates add up, and the lag of
    /// consumers is that of the relay which reads it; an operator's pause wins over what else they say.
    pub fn of_relays<'a>(said: impl Iterator<Item = &'a str>, pause: Option<&Pause>) -> Self {
        let said: Vec<Option<Self>> = said.map(|text| serde_json::from_str(text).ok()).collect();
        // A sum of nothing would be -0.
        let rate = said.iter().flatten().fold(0.0, |sum, health| sum + health.rate);
        let consumers = said.iter().flatten().find_map(|health| health.consumers.clone());
        let health = match (pause, said.into_iter().next()) {
            (Some(pause), _) => pause.health(),
            (None, Some(Some(first))) => first,
            (None, Some(None)) => Self::new(RouteState::Running, "its relay is of another version"),
            (None, None) => Self::new(RouteState::Orphan, "no live relay serves this route"),
        };
        Self { rate, consumers, ..health }
    }

    /// Returns the health of a route that is running.
    pub fn running() -> Self {
        Self::new(RouteState::Running, "")
    }
}

/// Pause of a route, by an operator or by a relay whose receiver is gone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pause {
    /// Operator who paused the route; for a pause by a relay, why it disabled the route.
    pub by: String,
    /// Time of the pause.
    pub at: Timestamp,
    /// Reason, if the operator gave one.
    pub reason: Option<String>,
}

impl Pause {
    /// Returns the health of a route that is paused so.
    pub fn health(&self) -> RouteHealth {
        let (state, message) = match (self.by.strip_prefix(DISABLED), &self.reason) {
            (Some(why), _) => (RouteState::Disabled, format!("{why}; `route resume` tries again")),
            (None, Some(reason)) => (RouteState::Paused, format!("paused by {}: {reason}", self.by)),
            (None, None) => (RouteState::Paused, format!("paused by {}", self.by)),
        };
        RouteHealth { since: Some(self.at), ..RouteHealth::new(state, message) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::consumers::ConsumerLag;

    #[test]
    fn the_lag_of_consumers_is_that_of_the_relay_that_reads_it_also_while_the_route_is_paused() {
        let lags = ConsumerLags::new(vec![ConsumerLag::new("t", "billing", Some(3), Some(1))], "");
        let reads = RouteHealth { rate: 1.0, consumers: Some(lags.clone()), ..RouteHealth::running() };
        let said = [RouteHealth::running(), reads].map(|health| serde_json::to_string(&health).unwrap());
        let pause = Pause { by: "ann".to_owned(), at: Timestamp::UNIX_EPOCH, reason: None };
        for pause in [None, Some(&pause)] {
            let health = RouteHealth::of_relays(said.iter().map(String::as_str), pause);
            assert_eq!((health.consumers.as_ref(), health.rate), (Some(&lags), 1.0));
        }
        assert_eq!(RouteHealth::of_relays(said[..1].iter().map(String::as_str), None).consumers, None);
    }
}
