//! A delivery that did not go straight through: the one row a store keeps of it.
//!
//! Says what a row is and which events wait for it. Where rows stand and how they move is [`crate::lane`].

use std::sync::Arc;

use jiff::Timestamp;
use postroom_core::{DeliveryState, Event, OnDead, OnFailure, RouteSpec};

/// What a route says about failures; the part of its definition that settling needs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rules {
    pub(crate) on_failure: OnFailure,
    pub(crate) on_dead: OnDead,
}

impl From<&RouteSpec> for Rules {
    fn from(route: &RouteSpec) -> Self {
        Self { on_failure: route.on_failure, on_dead: route.on_dead }
    }
}

#[derive(Debug)]
pub(crate) struct Parked {
    pub(crate) event: Arc<Event>,
    pub(crate) appended_at: Timestamp,
    pub(crate) state: DeliveryState,
    /// Whether it keeps its place in its key; not for delayed, replayed and unblocked ones.
    pub(crate) ordered: bool,
    /// Whether later events of its key wait for it.
    pub(crate) blocks: bool,
    /// A settled event sent again: not part of the counts.
    pub(crate) replay: bool,
    /// The replay that made it due.
    pub(crate) replayed_by: Option<String>,
    /// In a relay's hands.
    pub(crate) handed: bool,
    pub(crate) attempts: u32,
    pub(crate) due_at: Timestamp,
    pub(crate) since: Timestamp,
    pub(crate) code: Option<String>,
    pub(crate) error: Option<String>,
}

impl Parked {
    /// An event parked in this state at `now`; the caller says the rest.
    pub(crate) fn new(event: Arc<Event>, appended_at: Timestamp, state: DeliveryState, now: Timestamp) -> Self {
        let ordered = state != DeliveryState::Delayed && event.ordering_key().is_some();
        Self {
            event,
            appended_at,
            state,
            ordered,
            blocks: ordered && matches!(state, DeliveryState::Blocked | DeliveryState::Due),
            replay: false,
            replayed_by: None,
            handed: false,
            attempts: 0,
            due_at: now,
            since: now,
            code: None,
            error: None,
        }
    }

    /// Moves to a state; `since` stays when it is there already.
    pub(crate) fn enter(&mut self, state: DeliveryState, now: Timestamp) {
        if self.state != state {
            self.state = state;
            self.since = now;
        }
    }

    /// Decides anew whether later events of its key wait for it.
    pub(crate) fn judge(&mut self, rules: Rules) {
        self.blocks = self.ordered
            && match self.state {
                DeliveryState::Due | DeliveryState::Blocked => true,
                DeliveryState::Retrying => rules.on_failure == OnFailure::Block,
                DeliveryState::Dead => rules.on_dead == OnDead::Hold,
                DeliveryState::Delayed => false,
            };
    }

    /// Whether its time comes by itself.
    pub(crate) fn has_due_time(&self) -> bool {
        matches!(self.state, DeliveryState::Due | DeliveryState::Retrying | DeliveryState::Delayed)
    }
}
