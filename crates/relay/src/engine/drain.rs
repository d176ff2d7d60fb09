//! Whether a drain is over: nothing is left for this relay, nor for others, and nothing has happened since that was
//! seen.

use postroom_core::Take;

/// Progress of a drain; counted also while none is wanted, which costs nothing.
#[derive(Debug, Default)]
pub(super) struct Drain {
    wanted: bool,
    // The last take left something behind.
    more: bool,
    // Settles that ended, and how many had when the take began.
    settles: u64,
    settles_before_take: u64,
    // The last take found nothing to wait for, and nothing has happened since.
    exhausted: bool,
}

impl Drain {
    pub(super) fn new(wanted: bool) -> Self {
        Self { wanted, ..Self::default() }
    }

    pub(super) fn is_wanted(&self) -> bool {
        self.wanted
    }

    pub(super) fn begin_take(&mut self) {
        self.settles_before_take = self.settles;
    }

    /// Keeps what a take says of the end. Returns whether the drain waits for deliveries it cannot take: another
    /// relay's, or retries.
    pub(super) fn took(&mut self, take: &Take, others_idle: bool) -> bool {
        let found = !take.deliveries.is_empty();
        let idle = !found && !take.more && (take.ownership.paused || (!take.retrying && others_idle));
        self.more = take.more;
        // What was settled while the take looked may have left something to wait for.
        self.exhausted = idle && self.settles == self.settles_before_take;
        self.wanted && !found && !idle
    }

    pub(super) fn settled(&mut self) {
        self.exhausted = false;
        self.settles += 1;
    }

    /// Whether the last take left nothing behind, so that a drain waits for the next settle only.
    pub(super) fn is_last_settle(&self) -> bool {
        self.wanted && !self.more
    }

    /// Whether nothing was left when the store was last asked, and nothing was settled since.
    pub(super) fn is_exhausted(&self) -> bool {
        self.wanted && self.exhausted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_settle_that_overlaps_the_last_take_asks_for_another() {
        let mut drain = Drain::new(true);
        drain.begin_take();
        drain.settled();
        assert!(!drain.took(&Take::default(), true));
        assert!(!drain.is_exhausted(), "what was settled may have to be tried again");
        drain.begin_take();
        drain.took(&Take::default(), true);
        assert!(drain.is_exhausted());
    }

    #[test]
    fn a_drain_waits_for_retries_and_for_other_relays_unless_the_route_is_paused() {
        let mut drain = Drain::new(true);
        assert!(drain.took(&Take { retrying: true, ..Take::default() }, true) && !drain.is_exhausted());
        assert!(drain.took(&Take::default(), false) && !drain.is_exhausted());
        let mut paused = Take { retrying: true, ..Take::default() };
        paused.ownership.paused = true;
        assert!(!drain.took(&paused, false) && drain.is_exhausted());
    }
}
