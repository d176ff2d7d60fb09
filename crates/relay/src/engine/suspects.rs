//! Tells a destination that is down from an event that brings it down.
//!
//! An event that was on the wire in three outages in a row while others got through is the likely cause: from then on
//! its failure is its own, so that it cannot pause the route for ever. In a real outage nobody gets through, and no
//! event is blamed.

use std::collections::{HashSet, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};

use postroom_core::Delivery;

use super::keys::Held;

/// Outages in a row after which an event is blamed.
const OUTAGES_MAX: u32 = 3;
/// How many blamed events are remembered.
const BLAMED_MAX: usize = 1024;
/// How many probed keys are remembered.
const PROBED_MAX: usize = 64;

/// What the engine knows about the current run of outages.
#[derive(Debug, Default)]
pub(super) struct Suspects {
    through: u64,
    probed: VecDeque<u64>,
    // Ids; once blamed, an event stays so through all its retries.
    blamed: VecDeque<String>,
}

impl Suspects {
    /// Something got through.
    pub(super) fn got_through(&mut self) {
        self.through += 1;
        self.probed.clear();
    }

    /// Whether this one's failures are its own from now on.
    pub(super) fn is_blamed(&self, held: &Held) -> bool {
        self.blamed.contains(&held.delivery.event.id)
    }

    /// The destination went down while this one was on the wire, for the n-th time in all.
    pub(super) fn outage(&mut self, held: &mut Held, number: u64) {
        if held.last_outage == Some(number) {
            return;
        }
        held.last_outage = Some(number);
        if held.outages == 0 {
            held.through_before = self.through;
        }
        held.outages += 1;
        if held.outages >= OUTAGES_MAX && self.through > held.through_before {
            self.blamed.push_back(held.delivery.event.id.clone());
            if self.blamed.len() > BLAMED_MAX {
                self.blamed.pop_front();
            }
        }
    }

    /// Chooses the probe: of the keys that were not probed yet in this outage, the first that was on the wire in the fewest
    /// outages. An event that brings the destination down must not be asked first, and none before an earlier one of its
    /// key, of which a transport that pipelines keys leaves several ready.
    pub(super) fn probe<'a>(&self, ready: impl Iterator<Item = &'a Held>) -> Option<&'a Held> {
        let mut keys = HashSet::new();
        let first_of_key = |held: &&Held| keys.insert(key_hash(&held.delivery));
        let some: Vec<&Held> = ready.take(PROBED_MAX * 4).filter(first_of_key).collect();
        let unprobed = |held: &&&Held| !self.probed.contains(&key_hash(&held.delivery));
        let fewest = some.iter().filter(unprobed).min_by_key(|held| held.outages);
        fewest.or_else(|| some.iter().min_by_key(|held| held.outages)).copied()
    }

    /// This one was sent as the probe.
    pub(super) fn probed(&mut self, key: u64) {
        self.probed.push_back(key);
        if self.probed.len() > PROBED_MAX {
            self.probed.pop_front();
        }
    }
}

/// A number for the delivery's key; an event without one stands for itself.
pub(super) fn key_hash(delivery: &Delivery) -> u64 {
    let mut hasher = DefaultHasher::new();
    delivery.event.ordering_key().unwrap_or(&delivery.event.id).hash(&mut hasher);
    hasher.finish()
}
