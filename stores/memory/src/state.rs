//! Everything the store holds, behind one lock that is never held across an await.

use std::collections::{BTreeMap, HashMap};

use jiff::Timestamp;
use postroom_admin::TokenRow;
use postroom_admin::view::AuditRow;
use postroom_core::{StoreError, StoreErrorKind};

use crate::admin::Replay;
use crate::inbox::Accepted;
use crate::log::Log;
use crate::relay::Relay;
use crate::route::Route;

#[derive(Debug)]
pub(crate) struct State {
    /// Name of the store, for rows that carry it.
    pub(crate) name: String,
    pub(crate) lanes: usize,
    pub(crate) log: Log,
    pub(crate) routes: BTreeMap<String, Route>,
    /// By boot id.
    pub(crate) relays: BTreeMap<String, Relay>,
    pub(crate) inbox: BTreeMap<Accepted, Timestamp>,
    /// Words of `append_once`.
    pub(crate) idempotency_keys: BTreeMap<String, Timestamp>,
    /// What open transactions have inserted that must be there once: claim → transaction.
    pub(crate) claims: HashMap<Claim, u64>,
    pub(crate) actions: Vec<AuditRow>,
    /// By name.
    pub(crate) tokens: BTreeMap<String, TokenRow>,
    /// Oldest first.
    pub(crate) replays: Vec<Replay>,
    pub(crate) transactions: u64,
    pub(crate) handles: i64,
}

/// A row that can be there only once.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Claim {
    Accepted(Accepted),
    IdempotencyKey(String),
}

impl State {
    pub(crate) fn new(name: &str, lanes: u32) -> Self {
        Self {
            name: name.to_owned(),
            lanes: lanes as usize,
            log: Log::new(lanes),
            routes: BTreeMap::new(),
            relays: BTreeMap::new(),
            inbox: BTreeMap::new(),
            idempotency_keys: BTreeMap::new(),
            claims: HashMap::new(),
            actions: Vec::new(),
            tokens: BTreeMap::new(),
            replays: Vec::new(),
            transactions: 0,
            handles: 0,
        }
    }

    pub(crate) fn route_mut(&mut self, name: &str, operation: &'static str) -> Result<&mut Route, StoreError> {
        self.routes.get_mut(name).ok_or_else(|| no_route(name, operation))
    }

    /// Notes who did what.
    pub(crate) fn record(
        &mut self,
        at: Timestamp,
        actor: &str,
        action: &str,
        subject: &str,
        count: u64,
        reason: Option<&str>,
    ) {
        self.actions.push(AuditRow {
            store: self.name.clone(),
            number: i64::try_from(self.actions.len()).unwrap_or(i64::MAX).saturating_add(1),
            at,
            actor: actor.to_owned(),
            action: action.to_owned(),
            subject: subject.to_owned(),
            count,
            reason: reason.map(str::to_owned),
        });
    }
}

pub(crate) fn no_route(name: &str, operation: &'static str) -> StoreError {
    StoreError::new(StoreErrorKind::NotFound, operation, format!("route {name} is not registered"))
        .hint("`postroom route ls` shows the registered routes")
}
