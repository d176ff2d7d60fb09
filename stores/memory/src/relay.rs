//! Relays that have joined: their heartbeats, and what they serve.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use postroom_core::{LaneTerm, RelayIdentity, RouteHealth, RouteSpec};

#[derive(Debug)]
pub(crate) struct Relay {
    pub(crate) identity: RelayIdentity,
    pub(crate) started_at: Timestamp,
    pub(crate) seen_at: Timestamp,
    /// By the store clock's `elapsed`, so that a jump of wall time takes nobody's lanes.
    pub(crate) alive_until: Duration,
    /// The routes it serves.
    pub(crate) serves: BTreeMap<String, Serving>,
}

/// One route as one relay serves it.
#[derive(Debug)]
pub(crate) struct Serving {
    pub(crate) definition: RouteSpec,
    pub(crate) health: RouteHealth,
    /// Lanes it believes to own: what of these is no longer so is *lost*.
    pub(crate) owned: Vec<LaneTerm>,
}

impl Relay {
    pub(crate) fn is_alive(&self, elapsed: Duration) -> bool {
        elapsed < self.alive_until
    }
}

/// Boot ids of the live relays that serve the route.
pub(crate) fn live<'r>(relays: &'r BTreeMap<String, Relay>, route: &str, elapsed: Duration) -> Vec<&'r str> {
    let serves = |relay: &&Relay| relay.is_alive(elapsed) && relay.serves.contains_key(route);
    relays.values().filter(serves).map(|relay| relay.identity.boot.as_str()).collect()
}
