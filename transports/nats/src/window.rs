//! Which deliveries wait for their acknowledgement, by number, and until when. Pure.

use std::collections::VecDeque;

use postroom_core::Outbound;
use tokio::time::Instant;

/// Deliveries on their way over one connection. Each has the next number, which stands in its reply subject.
#[derive(Debug, Default)]
pub(crate) struct Window {
    // The number of the first in `waiting`. Acknowledgements come nearly in order, so this is a queue with few holes.
    first: u64,
    waiting: VecDeque<Option<(Instant, Outbound)>>,
    open: usize,
}

impl Window {
    /// How many wait.
    pub(crate) fn len(&self) -> usize {
        self.open
    }

    /// The number the next one gets.
    pub(crate) fn next_number(&self) -> u64 {
        self.first + self.waiting.len() as u64
    }

    /// One more waits, until then; never earlier than those before it.
    pub(crate) fn add(&mut self, outbound: Outbound, until: Instant) {
        self.waiting.push_back(Some((until, outbound)));
        self.open += 1;
    }

    /// The delivery of this number, if it still waits.
    pub(crate) fn take(&mut self, number: u64) -> Option<Outbound> {
        let index = usize::try_from(number.checked_sub(self.first)?).ok()?;
        let (_, outbound) = self.waiting.get_mut(index)?.take()?;
        self.open -= 1;
        while let Some(None) = self.waiting.front() {
            self.waiting.pop_front();
            self.first += 1;
        }
        Some(outbound)
    }

    /// The deliveries up to this number that still wait.
    pub(crate) fn take_through(&mut self, number: u64) -> Vec<Outbound> {
        (self.first..=number).filter_map(|number| self.take(number)).collect()
    }

    /// The one whose time runs out first.
    pub(crate) fn oldest(&self) -> Option<(Instant, &Outbound)> {
        self.waiting.front()?.as_ref().map(|(until, outbound)| (*until, outbound))
    }

    /// All of them, in the order they were added.
    pub(crate) fn drain(&mut self) -> impl Iterator<Item = Outbound> + use<> {
        std::mem::take(self).waiting.into_iter().flatten().map(|(_, outbound)| outbound)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use postroom_core::Event;
    use tokio::sync::mpsc;

    use super::*;

    #[test]
    fn each_is_found_once_in_any_order_and_the_oldest_is_the_first_to_run_out() {
        let (report, _outcomes) = mpsc::unbounded_channel();
        let (mut window, start) = (Window::default(), Instant::now());
        for n in 0..5 {
            assert_eq!(window.next_number(), n);
            let event = Arc::new(Event::new("t").id(format!("e-{n}")));
            window.add(Outbound::new(n, 1, event, None, report.clone()), start + Duration::from_secs(n));
        }
        assert!(window.take(1).is_some() && window.take(1).is_none(), "once");
        assert_eq!(window.oldest().map(|(until, _)| until), Some(start));
        assert!(window.take(0).is_some(), "the first");
        assert_eq!(window.oldest().map(|(_, o)| o.event.id.as_str()), Some("e-2"), "a hole is passed over");
        assert!(window.take(7).is_none() && window.take(0).is_none(), "never or no longer there");
        assert_eq!((window.len(), window.next_number()), (3, 5));
        assert_eq!(window.drain().map(|o| o.event.id.clone()).collect::<Vec<_>>(), ["e-2", "e-3", "e-4"]);
        assert_eq!((window.len(), window.next_number()), (0, 0));
    }
}
