//! Which events wait for an answer, in the order they were handed over, and until when.

use std::collections::{BTreeMap, HashMap, VecDeque};

use tokio::time::Instant;

use crate::deliver::Ready;

/// Deliveries handed over and not yet answered.
#[derive(Debug, Default)]
pub(crate) struct InFlight {
    handed_over: u64,
    // By hand-over number. Every event has the same time-out, so the first one is also the first to run out.
    waiting: BTreeMap<u64, (Instant, Ready)>,
    // Two events of one id may be in flight; they are answered in hand-over order.
    by_id: HashMap<String, VecDeque<u64>>,
}

impl InFlight {
    /// How many wait.
    pub(crate) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// One more waits, until then.
    pub(crate) fn add(&mut self, ready: Ready, until: Instant) {
        self.handed_over += 1;
        self.by_id.entry(ready.outbound.event.id.clone()).or_default().push_back(self.handed_over);
        self.waiting.insert(self.handed_over, (until, ready));
    }

    /// The delivery an answer to this id belongs to, if any waits.
    pub(crate) fn take(&mut self, id: &str) -> Option<Ready> {
        let numbers = self.by_id.get_mut(id)?;
        let number = numbers.pop_front()?;
        if numbers.is_empty() {
            self.by_id.remove(id);
        }
        self.waiting.remove(&number).map(|(_, ready)| ready)
    }

    /// The one whose time runs out first.
    pub(crate) fn first(&self) -> Option<(Instant, &str)> {
        self.waiting.first_key_value().map(|(_, (until, ready))| (*until, ready.outbound.event.id.as_str()))
    }

    /// All of them, in hand-over order.
    pub(crate) fn drain(&mut self) -> impl Iterator<Item = Ready> + use<> {
        self.by_id.clear();
        std::mem::take(&mut self.waiting).into_values().map(|(_, ready)| ready)
    }

    /// All of them, apart: those of which the program has read something, and those that lay in its input, whose last
    /// `unread` bytes it has not read.
    pub(crate) fn drain_by_read(&mut self, mut unread: usize) -> (VecDeque<Ready>, VecDeque<Ready>) {
        let mut read: VecDeque<Ready> = self.drain().collect();
        let mut untouched = VecDeque::new();
        while let Some(last) = read.pop_back_if(|last| last.line.len() <= unread) {
            unread -= last.line.len();
            untouched.push_front(last);
        }
        (read, untouched)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use postroom_core::{Event, Outbound};
    use tokio::sync::mpsc;

    use super::*;

    fn of(ids: &[&str]) -> InFlight {
        let mut in_flight = InFlight::default();
        for (n, id) in (1..).zip(ids) {
            let (report, _) = mpsc::unbounded_channel();
            let outbound = Outbound::new(n.into(), n, Arc::new(Event::new("t").id(*id)), None, report);
            in_flight.add(Ready { outbound, line: vec![b'x'; 10].into() }, Instant::now());
        }
        in_flight
    }

    #[test]
    fn two_of_one_id_are_answered_in_hand_over_order() {
        let mut in_flight = of(&["same", "other", "same"]);
        assert_eq!(in_flight.first().map(|(_, id)| id), Some("same"));
        assert_eq!(in_flight.take("same").map(|r| r.outbound.attempt), Some(1));
        assert_eq!(in_flight.first().map(|(_, id)| id), Some("other"));
        assert_eq!(in_flight.take("same").map(|r| r.outbound.attempt), Some(3));
        assert!(in_flight.take("same").is_none());
        assert_eq!(in_flight.drain().map(|r| r.outbound.attempt).collect::<Vec<_>>(), [2]);
        assert_eq!(in_flight.len(), 0);
    }

    #[test]
    fn what_lies_unread_in_the_input_is_told_from_what_the_program_has_begun_to_read() {
        for (unread, expected) in [(0, 3), (9, 3), (10, 2), (19, 2), (20, 1), (30, 0), (99, 0)] {
            let (read, untouched) = of(&["a", "b", "c"]).drain_by_read(unread);
            assert_eq!((read.len(), untouched.len()), (expected, 3 - expected), "{unread}");
            let ids = read.iter().chain(&untouched).map(|r| r.outbound.event.id.clone()).collect::<Vec<_>>();
            assert_eq!(ids, ["a", "b", "c"]);
        }
    }
}
