//! The ownership epoch of a store: whether lanes that a relay holds there may be lost without its knowing.
//!
//! When one route finds a lane lost, or the store fails it, what happened may have cost the other routes theirs. Each
//! holds back until a take of its own has told: otherwise slots that the first one gives back would carry deliveries that
//! come twice, and one fault would repeat more than fits into the window.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Counter of events that may have cost lanes, shared by all routes of one store in one relay.
#[derive(Debug, Clone, Default)]
pub(crate) struct OwnershipEpoch(Arc<AtomicU64>);

impl OwnershipEpoch {
    /// Returns one route's view.
    pub(crate) fn view(&self) -> OwnershipView {
        OwnershipView { epoch: self.clone(), checking: 0, confirmed: self.0.load(Ordering::Acquire) }
    }
}

/// One route's view: which epoch its takes have confirmed.
#[derive(Debug)]
pub(crate) struct OwnershipView {
    epoch: OwnershipEpoch,
    checking: u64,
    confirmed: u64,
}

impl OwnershipView {
    /// Notes that something happened that may have cost lanes.
    pub(crate) fn invalidate(&self) {
        self.epoch.0.fetch_add(1, Ordering::AcqRel);
    }

    /// Notes that a take begins: if it ends well, what was in doubt until now is known.
    pub(crate) fn begin_check(&mut self) {
        self.checking = self.epoch.0.load(Ordering::Acquire);
    }

    /// Notes that the take ended well.
    pub(crate) fn confirm(&mut self) {
        self.confirmed = self.checking;
    }

    /// Whether something may have happened that this route has not looked after.
    pub(crate) fn is_uncertain(&self) -> bool {
        self.epoch.0.load(Ordering::Acquire) != self.confirmed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_one_route_finds_every_other_must_look_after_itself() {
        let epoch = OwnershipEpoch::default();
        let (one, mut two) = (epoch.view(), epoch.view());
        two.begin_check();
        one.invalidate();
        two.confirm();
        assert!(one.is_uncertain() && two.is_uncertain(), "that look had begun before");
        two.begin_check();
        two.confirm();
        assert!(one.is_uncertain() && !two.is_uncertain());
        assert!(!epoch.view().is_uncertain(), "a route that starts has no lanes to lose");
    }
}
