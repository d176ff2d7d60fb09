//! Tells a destination that is down from an event that brings it down.
//!
//! An event that was on the wire in three outages in a row while others got through is the likely cause: from then on
//! its failure is its own, so that it cannot pause the route for ever. In a real outage nobody gets through, and no
//! event is blamed.

use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hash, Hasher};

use postroom_core::{Delivery, Failure, FailureKind};

use super::keys::Held;

/// Outages in a row after which an event is blamed.
const OUTAGES_MAX: u32 = 3;
/// How many probed keys are remembered.
const PROBED_MAX: usize = 64;

/// What the engine knows about the current run of outages.
#[derive(Debug, Default)]
pub(super) struct Suspects {
    through: u64,
    probed: VecDeque<u64>,
}

impl Suspects {
    /// Something got through.
    pub(super) fn got_through(&mut self) {
        self.through += 1;
        self.probed.clear();
    }

    /// The destination was down while this one was on the wire. Back comes the failure it is now blamed for, if any.
    pub(super) fn outage(&mut self, held: &mut Held, failure: &Failure) -> Option<Failure> {
        if held.outages == 0 {
            held.through_before = self.through;
        }
        held.outages += 1;
        let blamed = held.outages >= OUTAGES_MAX && self.through > held.through_before;
        blamed.then(|| Failure { kind: FailureKind::Transient, ..failure.clone() })
    }

    /// Chooses the probe: the first of a key that was not probed yet in this run of outages.
    pub(super) fn probe<'a>(&mut self, ready: impl Iterator<Item = &'a Held> + Clone) -> Option<u64> {
        let mut first = ready.clone();
        let mut fresh = ready.take(PROBED_MAX * 4).filter(|held| !self.probed.contains(&key_hash(&held.delivery)));
        let chosen = match fresh.next() {
            Some(held) => held,
            None => first.next()?,
        };
        self.probed.push_back(key_hash(&chosen.delivery));
        if self.probed.len() > PROBED_MAX {
            self.probed.pop_front();
        }
        Some(chosen.order)
    }
}

/// A number for the delivery's key; an event without one stands for itself.
pub(super) fn key_hash(delivery: &Delivery) -> u64 {
    let mut hasher = DefaultHasher::new();
    delivery.event.ordering_key().unwrap_or(&delivery.event.id).hash(&mut hasher);
    hasher.finish()
}
