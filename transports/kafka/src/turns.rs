//! Where one key's events go to several topics: the next topic waits for the acknowledgements of the one before.
//!
//! Only routes whose topic is made from the event need this. Other keys go on meanwhile.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use postroom_core::Outbound;

use crate::driver::Ready;

/// Ways are forgotten when there are more than so many, and twice as many as had to be kept the last time.
const WAYS_MIN: usize = 1024;

/// Keys and where their events are on their way to.
#[derive(Debug, Default)]
pub(crate) struct Turns {
    ways: HashMap<Arc<str>, Way>,
    // Keys of which something waits.
    waiting: Vec<Arc<str>>,
    tidy_at: usize,
}

#[derive(Debug, Default)]
struct Way {
    topic: String,
    in_flight: Arc<AtomicUsize>,
    // In order; the first is for another topic than those on their way.
    behind: VecDeque<Ready>,
}

impl Turns {
    /// Back comes what may go now; it counts as being on its way. What may not is kept.
    pub(crate) fn admit(&mut self, ready: Ready) -> Option<Ready> {
        // The dead have left the order.
        if ready.outbound.dead_letter.is_some() {
            return Some(ready);
        }
        let event = Arc::clone(&ready.outbound.event);
        let Some(key) = event.ordering_key() else { return Some(ready) };
        self.tidy();
        if let Some(way) = self.ways.get_mut(key) {
            if way.behind.is_empty() && way.leads_to(&ready.topic.name) {
                return Some(way.start(ready));
            }
            if way.behind.is_empty() {
                self.waiting.push(key.into());
            }
            way.behind.push_back(ready);
            return None;
        }
        Some(self.ways.entry(key.into()).or_default().start(ready))
    }

    /// Those whose turn has come.
    pub(crate) fn due(&mut self) -> Vec<Ready> {
        let mut due = Vec::new();
        let ways = &mut self.ways;
        self.waiting.retain(|key| {
            let Some(way) = ways.get_mut(key) else { return false };
            while let Some(first) = way.behind.front()
                && way.leads_to(&first.topic.name)
                && let Some(ready) = way.behind.pop_front()
            {
                due.push(way.start(ready));
            }
            !way.behind.is_empty()
        });
        due
    }

    /// Whether somebody waits for a turn.
    pub(crate) fn is_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Takes out those that wait, and forgets the others.
    pub(crate) fn drain(&mut self) -> impl Iterator<Item = Outbound> + use<> {
        let waiting = std::mem::take(self).ways.into_values().flat_map(|way| way.behind);
        waiting.map(|ready| ready.outbound)
    }

    fn tidy(&mut self) {
        if self.ways.len() >= self.tidy_at.max(WAYS_MIN) {
            self.ways.retain(|_, way| !way.behind.is_empty() || way.in_flight.load(Ordering::Relaxed) > 0);
            self.tidy_at = self.ways.len() * 2;
        }
    }
}

impl Way {
    /// Whether one for this topic may go at once: nothing is on its way, or only to the same.
    fn leads_to(&self, topic: &str) -> bool {
        self.topic == topic || self.in_flight.load(Ordering::Relaxed) == 0
    }

    fn start(&mut self, mut ready: Ready) -> Ready {
        if self.topic != ready.topic.name {
            self.topic.clone_from(&ready.topic.name);
        }
        self.in_flight.fetch_add(1, Ordering::Relaxed);
        ready.turn = Some(Arc::clone(&self.in_flight));
        ready
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use postroom_core::Event;
    use rdkafka::message::OwnedHeaders;
    use tokio::sync::mpsc;

    use super::*;
    use crate::message::Message;
    use crate::topics::Topic;

    fn ready(id: &str, key: &str, topic: &str) -> Ready {
        let event = Event::new("t").id(id).key(key);
        Ready {
            outbound: Outbound::new(0, 1, Arc::new(event), None, mpsc::unbounded_channel().0),
            topic: Arc::new(Topic::plain(topic, 1)),
            message: Message { headers: OwnedHeaders::new(), body: Bytes::new(), bytes: 0 },
            turn: None,
        }
    }

    fn acknowledge(ready: &Ready) {
        ready.turn.as_ref().unwrap().fetch_sub(1, Ordering::Relaxed);
    }

    fn ids(due: &[Ready]) -> Vec<&str> {
        due.iter().map(|ready| ready.outbound.event.id.as_str()).collect()
    }

    #[test]
    fn a_key_changes_its_topic_when_all_before_are_acknowledged() {
        let mut turns = Turns::default();
        let first = turns.admit(ready("1", "k", "a")).unwrap();
        let second = turns.admit(ready("2", "k", "a")).expect("the same topic is pipelined");
        for (id, topic) in [("3", "b"), ("4", "b"), ("5", "a")] {
            assert!(turns.admit(ready(id, "k", topic)).is_none(), "{id} has to wait");
        }
        assert!(turns.admit(ready("m", "m", "b")).is_some(), "another key goes on");
        acknowledge(&first);
        assert!(turns.due().is_empty() && turns.is_waiting());
        acknowledge(&second);
        let due = turns.due();
        assert_eq!(ids(&due), ["3", "4"]);
        due.iter().for_each(acknowledge);
        assert_eq!(ids(&turns.due()), ["5"]);
        assert!(!turns.is_waiting());
    }

    #[test]
    fn those_that_wait_are_given_back_and_old_ways_forgotten() {
        let mut turns = Turns::default();
        for n in 0..WAYS_MIN * 3 {
            acknowledge(&turns.admit(ready("x", &n.to_string(), "a")).unwrap());
        }
        assert!(turns.ways.len() <= WAYS_MIN, "{}", turns.ways.len());
        turns.admit(ready("1", "k", "a"));
        turns.admit(ready("2", "k", "b"));
        assert_eq!(turns.drain().map(|outbound| outbound.event.id.clone()).collect::<Vec<_>>(), ["2"]);
        assert!(turns.admit(ready("3", "k", "b")).is_some());
    }
}
