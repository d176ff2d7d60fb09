//! Tells a destination that is down from an event that brings it down.
//!
//! An event that was on the wire in three outages in a row while others got through is the likely cause: from then on
//! its failure is its own, so that it cannot pause the route for ever. In a real outage nobody gets through, and no
//! event is blamed.

use std::collections::VecDeque;

use super::keys::Held;

/// Outages in a row after which an event is blamed.
const OUTAGES_MAX: u32 = 3;
/// How many blamed events are remembered.
const BLAMED_MAX: usize = 1024;

/// What the engine knows about the current run of outages.
#[derive(Debug, Default)]
pub(super) struct Suspects {
    through: u64,
    // Ids; once blamed, an event stays so through all its retries.
    blamed: VecDeque<String>,
}

impl Suspects {
    /// Something got through.
    pub(super) fn got_through(&mut self) {
        self.through += 1;
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
        self.alone(held);
    }

    /// The destination did not answer this one: in an outage, or while it answered others.
    pub(super) fn alone(&mut self, held: &mut Held) {
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
}
