//! Whether the lanes that a relay holds in a store may be lost without its knowing.
//!
//! When one route finds a lane lost, or the store fails it, what happened may have cost the other routes theirs. Each
//! holds back until a take of its own has told: otherwise slots that the first one gives back would carry deliveries that
//! come twice, and one fault would repeat more than fits into the window.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The doubts of all routes of one store in one relay, counted.
#[derive(Debug, Clone, Default)]
pub(crate) struct Doubts(Arc<AtomicU64>);

impl Doubts {
    /// One route's view.
    pub(crate) fn watch(&self) -> Watch {
        Watch { doubts: self.clone(), looking: 0, cleared: self.0.load(Ordering::Acquire) }
    }
}

/// One route's view: which doubts its takes have cleared.
#[derive(Debug)]
pub(crate) struct Watch {
    doubts: Doubts,
    looking: u64,
    cleared: u64,
}

impl Watch {
    /// Something happened that may have cost lanes.
    pub(crate) fn raise(&self) {
        self.doubts.0.fetch_add(1, Ordering::AcqRel);
    }

    /// A take begins: if it ends well, what was in doubt until now is known.
    pub(crate) fn look(&mut self) {
        self.looking = self.doubts.0.load(Ordering::Acquire);
    }

    /// The take ended well.
    pub(crate) fn clear(&mut self) {
        self.cleared = self.looking;
    }

    /// Whether something may have happened that this route has not looked after.
    pub(crate) fn is_raised(&self) -> bool {
        self.doubts.0.load(Ordering::Acquire) != self.cleared
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_one_route_finds_every_other_must_look_after_itself() {
        let doubts = Doubts::default();
        let (one, mut two) = (doubts.watch(), doubts.watch());
        two.look();
        one.raise();
        two.clear();
        assert!(one.is_raised() && two.is_raised(), "that look had begun before");
        two.look();
        two.clear();
        assert!(one.is_raised() && !two.is_raised());
        assert!(!doubts.watch().is_raised(), "a route that starts has no lanes to lose");
    }
}
