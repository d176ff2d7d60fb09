//! Relays that have joined: their heartbeats, what they serve, and which lane should be whose.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use jiff::Timestamp;
use postroom_core::{LaneTerm, RelayIdentity, RouteDefinition, RouteHealth};

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
    pub(crate) definition: RouteDefinition,
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

/// Whose each lane should be: the live relay that scores highest for it and has not got its even share yet.
///
/// Every relay computes the same from the same heartbeats. The score depends on relay and lane only, so that a relay
/// tends to hold the same lane of all routes.
pub(crate) fn share<'r>(lanes: usize, live: &[&'r str]) -> Vec<Option<&'r str>> {
    if let [] | [_] = live {
        return vec![live.first().copied(); lanes];
    }
    let (least, mut rest) = (lanes / live.len(), lanes % live.len());
    let mut load = vec![0; live.len()];
    (0..lanes)
        .map(|lane| {
            let open = (0..live.len()).filter(|relay| load[*relay] < least || (load[*relay] == least && rest > 0));
            let best = open.max_by_key(|relay| score(live[*relay], lane))?;
            rest -= usize::from(load[best] == least);
            load[best] += 1;
            Some(live[best])
        })
        .collect()
}

fn score(boot: &str, lane: usize) -> u64 {
    let mut hasher = DefaultHasher::new();
    (boot, lane).hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lanes_are_shared_evenly_and_every_lane_is_somebodys() {
        for relays in 1..=16 {
            let names: Vec<String> = (0..relays).map(|n| format!("boot-{n}")).collect();
            let live: Vec<&str> = names.iter().map(String::as_str).collect();
            let shared = share(16, &live);
            for name in &live {
                let load = shared.iter().filter(|owner| **owner == Some(name)).count();
                assert!((16 / relays..=16usize.div_ceil(relays)).contains(&load), "{name} of {relays} has {load}");
            }
            assert!(shared.iter().all(Option::is_some));
        }
        assert_eq!(share(2, &[]), [None, None]);
    }
}
