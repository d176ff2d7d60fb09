//! Tells a destination that is down from an event that brings it down.
//!
//! An event that was on the wire in three outages in a row while others got through is the likely cause: from then on
//! its failure is its own, so that it cannot pause the route for ever. In a real outage nobody gets through, and no
//! event is blamed.

use std::collections::VecDeque;

use super::keys::PendingDelivery;

/// Outages in a row after which an event is blamed.
const OUTAGES_MAX: u32 = 3;
/// How many blamed events are remembered.
const BLAMED_MAX: usize = 1024;

/// Events that were on the wire when the destination went down, and what got through since.
#[derive(Debug, Default)]
pub(super) struct PoisonDetector {
    through: u64,
    // Ids; once blamed, an event stays so through all its retries.
    blamed: VecDeque<String>,
}

impl PoisonDetector {
    /// Notes that a delivery got through.
    pub(super) fn got_through(&mut self) {
        self.through += 1;
    }

    /// Whether the failures of this event are its own from now on.
    pub(super) fn is_blamed(&self, held: &PendingDelivery) -> bool {
        self.blamed.contains(&held.delivery.event.id)
    }

    /// Notes that the destination went down while this one was on the wire, in the outage of this number.
    pub(super) fn outage(&mut self, held: &mut PendingDelivery, number: u64) {
        if held.outages.last == Some(number) {
            return;
        }
        held.outages.last = Some(number);
        self.alone(held);
    }

    /// Notes that the destination did not answer this one: in an outage, or while it answered others.
    pub(super) fn alone(&mut self, held: &mut PendingDelivery) {
        if held.outages.count == 0 {
            held.outages.through_before = self.through;
        }
        held.outages.count += 1;
        if held.outages.count >= OUTAGES_MAX && self.through > held.outages.through_before {
            self.blamed.push_back(held.delivery.event.id.clone());
            if self.blamed.len() > BLAMED_MAX {
                self.blamed.pop_front();
            }
        }
    }
}
