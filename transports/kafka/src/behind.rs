//! Keeps later events of a key from overtaking an earlier one that was given up.
//!
//! The engine hears of a failure a moment after we do, and may have handed over the next events of the key by then. They
//! must not arrive first. It sends nothing after a failure until all that was on its way is back, and then begins a new round:
//! it has heard everything, and its order is the right one.

use std::collections::HashSet;

use postroom_core::Outbound;
use postroom_core::faults::{self, Fault};

/// What was given up since the engine is known to have heard of it.
#[derive(Debug, Default)]
pub(crate) struct Behind {
    keys: HashSet<String>,
    round: u64,
}

impl Behind {
    /// This one is about to be reported as unavailable.
    pub(crate) fn given_up(&mut self, outbound: &Outbound) {
        self.hear(outbound);
        if let Some(key) = key(outbound) {
            self.keys.insert(key.to_owned());
        }
    }

    /// Whether this one must not go before one that was given up.
    pub(crate) fn must_wait(&mut self, outbound: &Outbound) -> bool {
        self.hear(outbound);
        key(outbound).is_some_and(|key| self.keys.contains(key))
    }

    /// A new round begins when the engine has heard of everything before it.
    fn hear(&mut self, outbound: &Outbound) {
        if self.round != outbound.round && !faults::is(Fault::HeardIsForgotten) {
            self.round = outbound.round;
            self.keys.clear();
        }
    }
}

/// What it is ordered by; the dead have left the order.
fn key(outbound: &Outbound) -> Option<&str> {
    if outbound.dead_letter.is_some() { None } else { outbound.event.ordering_key() }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use postroom_core::Event;
    use tokio::sync::mpsc;

    use super::*;

    fn outbound(key: &str, round: u64) -> Outbound {
        let mut outbound = Outbound::new(0, 1, Arc::new(Event::new("t").key(key)), None, mpsc::unbounded_channel().0);
        outbound.round = round;
        outbound
    }

    #[test]
    fn later_ones_of_its_key_wait_until_the_engine_knows() {
        let mut behind = Behind::default();
        assert!(!behind.must_wait(&outbound("k", 0)));
        behind.given_up(&outbound("k", 0));
        assert!(behind.must_wait(&outbound("k", 0)));
        assert!(!behind.must_wait(&outbound("n", 0)), "another key is free");
        assert!(!behind.must_wait(&outbound("k", 1)), "whichever of the key comes first now is the right one");
        assert!(!behind.must_wait(&outbound("k", 1)));
        behind.given_up(&outbound("k", 1));
        assert!(behind.must_wait(&outbound("k", 1)));
        assert!(!behind.must_wait(&outbound("k", 0)), "of another engine");
    }
}
