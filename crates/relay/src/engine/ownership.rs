//! Which lanes of the route this relay owns, and what follows when one is lost.
//!
//! A lane may be lost while deliveries of it are in flight, and while a take that brings more of it is running.
//! Deliveries of a lost lane come twice. Their slots stay taken until a take confirms that no other lane is lost, so
//! that one fault repeats no more than fits into the window.

use std::collections::HashSet;

use postroom_core::{LaneTerm, Ownership};

use crate::ownership_epoch::OwnershipView;

/// Ownership of a route's lanes, as far as the engine knows.
#[derive(Debug)]
pub(super) struct LaneOwnership {
    view: OwnershipView,
    paused: bool,
    lanes: usize,
    // Lost while deliveries of theirs were in flight: the outcomes of those are void.
    revoked_lanes: HashSet<LaneTerm>,
    // Lost while a take was running: deliveries of theirs that the take brings are no longer ours.
    lost_during_take: Vec<LaneTerm>,
    slots_in_doubt: usize,
    takes: u64,
    take_running: bool,
}

impl LaneOwnership {
    pub(super) fn new(view: OwnershipView) -> Self {
        Self {
            view,
            paused: false,
            lanes: 0,
            revoked_lanes: HashSet::new(),
            lost_during_take: Vec::new(),
            slots_in_doubt: 0,
            takes: 0,
            take_running: false,
        }
    }

    /// Whether an operator, or a receiver that is gone, stopped the route.
    pub(super) fn is_paused(&self) -> bool {
        self.paused
    }

    /// Whether lanes may be lost that only a take tells of.
    pub(super) fn is_uncertain(&self) -> bool {
        self.view.is_uncertain()
    }

    /// Notes that lanes may be lost, of this route and of the others of its store.
    pub(super) fn invalidate(&self) {
        self.view.invalidate();
    }

    /// Keeps what the store reports. Returns whether the number of lanes changed.
    pub(super) fn update(&mut self, report: &Ownership) -> bool {
        self.paused = report.paused;
        let changed = report.lanes != self.lanes;
        self.lanes = report.lanes;
        changed
    }

    pub(super) fn begin_take(&mut self) {
        self.takes += 1;
        self.take_running = true;
        self.view.begin_check();
    }

    /// Notes that the take failed: what it would have told of lanes is not known.
    pub(super) fn fail_take(&mut self) {
        self.take_running = false;
        self.lost_during_take.clear();
        self.view.invalidate();
    }

    /// Notes that the take succeeded: lanes it does not report as lost are ours. Returns the slots that are free now.
    pub(super) fn confirm_take(&mut self) -> usize {
        self.take_running = false;
        self.view.confirm();
        let slots = std::mem::take(&mut self.slots_in_doubt);
        self.free_slots(slots)
    }

    /// Ends a take whose deliveries are admitted. Returns its number.
    pub(super) fn end_take(&mut self) -> u64 {
        self.lost_during_take.clear();
        self.takes
    }

    /// The number of the take that is running.
    pub(super) fn running_take(&self) -> Option<u64> {
        self.take_running.then_some(self.takes)
    }

    /// Gives back slots of deliveries that will come twice. Returns how many are free now: none while other lanes may
    /// be lost, and then a later take returns them.
    pub(super) fn free_slots(&mut self, slots: usize) -> usize {
        if self.view.is_uncertain() {
            self.slots_in_doubt += slots;
            return 0;
        }
        slots
    }

    /// Notes that another relay owns the lane.
    pub(super) fn lose(&mut self, lane: LaneTerm) {
        if self.take_running {
            self.lost_during_take.push(lane);
        }
        self.view.invalidate();
    }

    /// Makes the outcomes of a lost lane's deliveries in flight void.
    pub(super) fn revoke(&mut self, lane: LaneTerm) {
        self.revoked_lanes.insert(lane);
    }

    pub(super) fn is_revoked(&self, lane: LaneTerm) -> bool {
        self.revoked_lanes.contains(&lane)
    }

    /// Forgets a revoked lane of which nothing is in flight any more.
    pub(super) fn forget_revoked(&mut self, lane: LaneTerm) {
        self.revoked_lanes.remove(&lane);
    }

    /// Whether the lane was lost while the take that brings deliveries of it was running.
    pub(super) fn was_lost_during_take(&self, lane: LaneTerm) -> bool {
        self.lost_during_take.contains(&lane)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ownership_epoch::OwnershipEpoch;

    const LANE: LaneTerm = LaneTerm { lane: 3, term: 1 };

    #[test]
    fn slots_of_a_lost_lane_come_back_with_a_take_that_began_after_the_loss() {
        let mut ownership = LaneOwnership::new(OwnershipEpoch::default().view());
        ownership.begin_take();
        ownership.lose(LANE);
        assert!(ownership.was_lost_during_take(LANE));
        assert_eq!(ownership.free_slots(5), 0);
        assert_eq!(ownership.confirm_take(), 0, "that take may have looked before");
        ownership.end_take();
        assert!(!ownership.was_lost_during_take(LANE));
        ownership.begin_take();
        assert_eq!(ownership.confirm_take(), 5);
        assert_eq!(ownership.free_slots(2), 2, "nothing is in doubt any more");
    }

    #[test]
    fn what_is_lost_between_two_takes_says_nothing_about_the_next_one() {
        let mut ownership = LaneOwnership::new(OwnershipEpoch::default().view());
        ownership.lose(LANE);
        ownership.begin_take();
        assert!(!ownership.was_lost_during_take(LANE));
        assert_eq!(ownership.running_take(), Some(1));
        ownership.fail_take();
        assert!(ownership.is_uncertain() && ownership.running_take().is_none());
    }
}
