//! How many deliveries a relay may have on its way: the bound of duplicates after a crash.
//!
//! A slot is taken when a delivery is handed over and given back when a committed settle covers its outcome. Half of
//! the slots are reserved evenly for the routes, the other half goes to whoever comes first: one slow destination can
//! take the common half, never another route's own.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use postroom_core::{Notified, Notifier};

/// All slots of one relay.
#[derive(Debug, Clone)]
pub(crate) struct Slots {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    own_max: usize,
    common_max: usize,
    common_used: AtomicUsize,
    freed: Notifier,
    wanted: Notifier,
}

impl Slots {
    /// Makes `max` slots for `routes` routes.
    pub(crate) fn new(max: usize, routes: usize) -> Self {
        let own_max = (max / 2 / routes.max(1)).max(usize::from(routes > 0 && max >= routes));
        Self {
            shared: Arc::new(Shared {
                own_max,
                common_max: max - own_max * routes,
                common_used: AtomicUsize::new(0),
                freed: Notifier::default(),
                wanted: Notifier::default(),
            }),
        }
    }

    /// Returns one route's part.
    pub(crate) fn share(&self) -> Share {
        let shared = self.shared.clone();
        Share { freed: shared.freed.notified(), wanted: shared.wanted.notified(), own: 0, common: 0, shared }
    }
}

/// One route's part of the slots.
#[derive(Debug)]
pub(crate) struct Share {
    shared: Arc<Shared>,
    own: usize,
    common: usize,
    /// Notified when another route gives slots back.
    pub(crate) freed: Notified,
    /// Notified when another route finds no slot: settle what waits.
    pub(crate) wanted: Notified,
}

impl Share {
    /// Takes a slot, if there is one.
    pub(crate) fn take(&mut self) -> bool {
        if self.own < self.shared.own_max {
            self.own += 1;
            return true;
        }
        let max = self.shared.common_max;
        let free = |used: usize| (used < max).then_some(used + 1);
        let taken = self.shared.common_used.fetch_update(Ordering::AcqRel, Ordering::Acquire, free).is_ok();
        if taken {
            self.common += 1;
        } else {
            self.shared.wanted.wake();
        }
        taken
    }

    /// How many slots this route could have: those it has, and those that are free for it.
    pub(crate) fn reachable(&self) -> usize {
        let free = self.shared.common_max.saturating_sub(self.shared.common_used.load(Ordering::Acquire));
        self.shared.own_max.max(self.own) + self.common + free
    }

    /// Gives slots back, the common ones first.
    pub(crate) fn give_back(&mut self, count: usize) {
        let common = count.min(self.common);
        self.common -= common;
        self.own = self.own.saturating_sub(count - common);
        if common > 0 {
            self.shared.common_used.fetch_sub(common, Ordering::AcqRel);
            self.shared.freed.wake();
        }
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.give_back(self.own + self.common);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn take_all(share: &mut Share) -> usize {
        std::iter::repeat_with(|| share.take()).take_while(|taken| *taken).count()
    }

    #[test]
    fn one_route_may_take_everything_but_the_reserve_of_the_others() {
        let slots = Slots::new(512, 2);
        let (mut a, mut b) = (slots.share(), slots.share());
        assert_eq!(a.reachable(), 384);
        assert_eq!(take_all(&mut a), 384);
        assert_eq!((a.reachable(), b.reachable()), (384, 128));
        assert_eq!(take_all(&mut b), 128);
        a.give_back(300);
        assert_eq!(take_all(&mut b), 256, "what is common goes to whoever asks");
    }

    #[test]
    fn together_they_never_exceed_the_maximum() {
        for (max, routes) in [(1, 3), (5, 2), (512, 7), (16, 16), (3, 0)] {
            let slots = Slots::new(max, routes);
            let mut shares: Vec<_> = (0..routes).map(|_| slots.share()).collect();
            let total: usize = shares.iter_mut().map(take_all).sum();
            assert_eq!(total, if routes == 0 { 0 } else { max }, "{max} for {routes}");
        }
    }

    #[test]
    fn a_route_that_ends_gives_everything_back() {
        let slots = Slots::new(10, 1);
        let mut share = slots.share();
        assert_eq!(take_all(&mut share), 10);
        drop(share);
        assert_eq!(take_all(&mut slots.share()), 10);
    }
}
