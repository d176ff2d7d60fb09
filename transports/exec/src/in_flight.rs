//! Which events wait for an answer, in the order they were handed over, and until when.

use std::collections::{BTreeMap, HashMap, VecDeque};

use postroom_core::Outbound;
use tokio::time::Instant;

/// Deliveries handed over and not yet answered.
#[derive(Debug, Default)]
pub(crate) struct InFlight {
    handed_over: u64,
    // By hand-over number. Every event has the same time-out, so the first one is also the first to run out.
    waiting: BTreeMap<u64, (Instant, Outbound)>,
    // Two events of one id may be in flight; they are answered in hand-over order.
    by_id: HashMap<String, VecDeque<u64>>,
}

impl InFlight {
    /// How many wait.
    pub(crate) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// One more waits, until then.
    pub(crate) fn add(&mut self, outbound: Outbound, until: Instant) {
        self.handed_over += 1;
        self.by_id.entry(outbound.event.id.clone()).or_default().push_back(self.handed_over);
        self.waiting.insert(self.handed_over, (until, outbound));
    }

    /// The delivery an answer to this id belongs to, if any waits.
    pub(crate) fn take(&mut self, id: &str) -> Option<Outbound> {
        let numbers = self.by_id.get_mut(id)?;
        let number = numbers.pop_front()?;
        if numbers.is_empty() {
            self.by_id.remove(id);
        }
        self.waiting.remove(&number).map(|(_, outbound)| outbound)
    }

    /// The one whose time runs out first.
    pub(crate) fn first(&self) -> Option<(Instant, &str)> {
        self.waiting.first_key_value().map(|(_, (until, outbound))| (*until, outbound.event.id.as_str()))
    }

    /// All of them, in hand-over order.
    pub(crate) fn drain(&mut self) -> impl Iterator<Item = Outbound> + use<> {
        self.by_id.clear();
        std::mem::take(&mut self.waiting).into_values().map(|(_, outbound)| outbound)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use postroom_core::Event;
    use tokio::sync::mpsc;

    use super::*;

    #[test]
    fn two_of_one_id_are_answered_in_hand_over_order() {
        let (report, _outcomes) = mpsc::unbounded_channel();
        let mut in_flight = InFlight::default();
        for attempt in [1, 2, 3] {
            let id = if attempt == 2 { "other" } else { "same" };
            let event = Arc::new(Event::new("t").id(id));
            in_flight.add(Outbound::new(u64::from(attempt), attempt, event, None, report.clone()), Instant::now());
        }
        assert_eq!(in_flight.first().map(|(_, id)| id), Some("same"));
        assert_eq!(in_flight.take("same").map(|o| o.attempt), Some(1));
        assert_eq!(in_flight.first().map(|(_, id)| id), Some("other"));
        assert_eq!(in_flight.take("same").map(|o| o.attempt), Some(3));
        assert!(in_flight.take("same").is_none());
        assert_eq!(in_flight.drain().map(|o| o.attempt).collect::<Vec<_>>(), [2]);
        assert_eq!(in_flight.len(), 0);
    }
}
