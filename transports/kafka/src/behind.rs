//! Keeps later events of a key from overtaking an earlier one that was given up.
//!
//! The engine hears of a failure a moment after we do, and may have handed over the next events of the key by then. They
//! must not arrive first. When it hands over again something that was given up, it has heard everything: it sends nothing
//! after a failure until all that was on its way is back. From then on its order is the right one.

use std::collections::HashSet;

use postroom_core::Outbound;

/// What was given up since the engine is known to have heard of it.
#[derive(Debug, Default)]
pub(crate) struct Behind {
    keys: HashSet<String>,
    // By id and number: an id may stand in the log twice.
    events: HashSet<(String, Option<i64>)>,
}

impl Behind {
    /// This one is about to be reported as unavailable.
    pub(crate) fn given_up(&mut self, outbound: &Outbound) {
        self.events.insert(name(outbound));
        if let Some(key) = key(outbound) {
            self.keys.insert(key.to_owned());
        }
    }

    /// Whether this one must not go before one that was given up.
    pub(crate) fn must_wait(&mut self, outbound: &Outbound) -> bool {
        if self.events.is_empty() {
            return false;
        }
        if self.events.contains(&name(outbound)) {
            *self = Self::default();
            return false;
        }
        key(outbound).is_some_and(|key| self.keys.contains(key))
    }
}

fn name(outbound: &Outbound) -> (String, Option<i64>) {
    (outbound.event.id.clone(), outbound.position)
}

/// What it is ordered by; the dead have left the order.
fn key(outbound: &Outbound) -> Option<&str> {
    if outbound.burial.is_some() { None } else { outbound.event.ordering_key() }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use postroom_core::Event;
    use tokio::sync::mpsc;

    use super::*;

    fn outbound(id: &str, key: &str, position: i64) -> Outbound {
        let event = Event::new("t").id(id).key(key);
        Outbound::new(0, 1, Arc::new(event), Some(position), mpsc::unbounded_channel().0)
    }

    #[test]
    fn later_ones_wait_until_something_given_up_comes_again() {
        let mut behind = Behind::default();
        assert!(!behind.must_wait(&outbound("k2", "k", 2)));
        behind.given_up(&outbound("k1", "k", 1));
        behind.given_up(&outbound("m1", "m", 3));
        assert!(behind.must_wait(&outbound("k2", "k", 2)));
        assert!(!behind.must_wait(&outbound("n1", "n", 4)), "another key is free");
        assert!(behind.must_wait(&outbound("k1", "k", 9)), "another event of the same id");
        assert!(!behind.must_wait(&outbound("m1", "m", 3)), "the engine has heard");
        assert!(!behind.must_wait(&outbound("k2", "k", 2)), "so it has of all");
    }

    #[test]
    fn one_whose_predecessor_never_comes_again_waits_once() {
        let mut behind = Behind::default();
        behind.given_up(&outbound("k1", "k", 1));
        let next = outbound("k2", "k", 2);
        assert!(behind.must_wait(&next));
        behind.given_up(&next);
        assert!(!behind.must_wait(&next));
    }
}
