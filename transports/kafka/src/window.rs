//! What librdkafka has and has not yet said anything about.
//!
//! Each message carries its number as the opaque; whoever takes an entry out reports it, so each is reported once,
//! however late librdkafka speaks. Kept by age: the first is the one whose time-out counts.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use postroom_core::Outbound;
use tokio::time::Instant;

use crate::topics::Topic;

/// A delivery in librdkafka's hands.
#[derive(Debug)]
pub(crate) struct Sent {
    pub(crate) outbound: Outbound,
    pub(crate) topic: Arc<Topic>,
    pub(crate) since: Instant,
    /// How many of its key are on their way, where that is counted.
    pub(crate) turn: Option<Arc<AtomicUsize>>,
}

/// Everything unacknowledged, by number.
#[derive(Debug, Default)]
pub(crate) struct Window {
    // The number of the first entry.
    first: usize,
    entries: VecDeque<Option<Sent>>,
    len: usize,
}

impl Window {
    /// Keeps it; back comes its number.
    pub(crate) fn push(&mut self, sent: Sent) -> usize {
        self.entries.push_back(Some(sent));
        self.len += 1;
        self.first + self.entries.len() - 1
    }

    /// Takes it out, if nobody has.
    pub(crate) fn take(&mut self, number: usize) -> Option<Sent> {
        let sent = self.entries.get_mut(number.checked_sub(self.first)?)?.take()?;
        self.len -= 1;
        while let Some(None) = self.entries.front() {
            self.entries.pop_front();
            self.first += 1;
        }
        Some(sent)
    }

    /// Takes everything out, oldest first.
    pub(crate) fn drain(&mut self) -> Vec<Sent> {
        self.first += self.entries.len();
        self.len = 0;
        self.entries.drain(..).flatten().collect()
    }

    /// The one that waits longest.
    pub(crate) fn oldest(&self) -> Option<&Sent> {
        self.entries.front().and_then(Option::as_ref)
    }

    pub(crate) fn get(&self, number: usize) -> Option<&Sent> {
        self.entries.get(number.checked_sub(self.first)?)?.as_ref()
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }
}

#[cfg(test)]
mod tests {
    use postroom_core::Event;
    use tokio::sync::mpsc;

    use super::*;

    fn sent(id: &str) -> Sent {
        let outbound = Outbound::new(1, 1, Arc::new(Event::new("t").id(id)), None, mpsc::unbounded_channel().0);
        Sent { outbound, topic: Arc::new(Topic::plain("t", 1)), since: Instant::now(), turn: None }
    }

    #[test]
    fn each_is_taken_once_and_the_oldest_is_always_in_front() {
        let mut window = Window::default();
        let numbers: Vec<usize> = ["a", "b", "c"].map(|id| window.push(sent(id))).to_vec();
        assert_eq!(numbers, [0, 1, 2]);
        assert!(window.take(1).is_some() && window.take(1).is_none() && window.take(9).is_none());
        assert_eq!((window.len(), window.oldest().unwrap().outbound.event.id.as_str()), (2, "a"));
        assert!(window.take(0).is_some() && window.take(0).is_none());
        assert_eq!(window.oldest().unwrap().outbound.event.id, "c");
        assert_eq!(window.push(sent("d")), 3);
        assert_eq!(window.drain().len(), 2);
        assert!(window.len() == 0 && window.oldest().is_none() && window.take(3).is_none());
        assert_eq!(window.push(sent("e")), 4);
    }
}
