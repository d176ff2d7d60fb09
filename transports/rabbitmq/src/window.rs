//! What is published and not yet answered, by the number the broker gives it: one more for each message of a channel.
//!
//! ```text
//!              ack, nack: one number, or all up to it
//!   waiting ─────────────────────────────────────────► answered
//!      │                                                  ▲
//!      └── released: its owner was told something else ───┘
//! ```
//!
//! Pure: time comes in, nothing goes out. The broker confirms what it throws away like anything else, and sends it back
//! before; a message that comes back says its id, not its number. Both sides handle a channel's messages in order, so the
//! one meant is the first of that id after the last that came back.

use std::collections::VecDeque;

use tokio::time::Instant;

/// The messages on their way over one channel.
#[derive(Debug)]
pub(crate) struct Window<T> {
    /// The number of the first entry.
    first: u64,
    entries: VecDeque<Entry<T>>,
    /// How many are waiting.
    waiting: usize,
    /// Where the search for the next message that comes back begins.
    search: u64,
}

#[derive(Debug)]
enum Entry<T> {
    Waiting(Waiting<T>),
    Released,
    Answered,
}

#[derive(Debug)]
struct Waiting<T> {
    item: T,
    until: Instant,
    returned: Option<String>,
}

/// An answer to something that was never sent.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct NeverSent;

impl<T> Window<T> {
    pub(crate) fn new() -> Self {
        Self { first: 1, entries: VecDeque::new(), waiting: 0, search: 1 }
    }

    /// How many wait for an answer.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting
    }

    /// How many the broker has not answered, released ones included.
    pub(crate) fn unanswered(&self) -> usize {
        self.entries.iter().filter(|entry| !matches!(entry, Entry::Answered)).count()
    }

    /// The one that waits for longest, and until when.
    pub(crate) fn first(&self) -> Option<(&T, Instant)> {
        self.entries.iter().find_map(|entry| match entry {
            Entry::Waiting(one) => Some((&one.item, one.until)),
            Entry::Released | Entry::Answered => None,
        })
    }

    /// The next message of the channel; it waits until then.
    pub(crate) fn add(&mut self, item: T, until: Instant) {
        self.entries.push_back(Entry::Waiting(Waiting { item, until, returned: None }));
        self.waiting += 1;
    }

    /// The next one that is meant comes back, for this reason; its answer is still to come.
    pub(crate) fn returned(&mut self, why: &str, meant: impl Fn(&T) -> bool) {
        let from = usize::try_from(self.search.saturating_sub(self.first)).unwrap_or(usize::MAX);
        let waits =
            |entry: &Entry<T>| matches!(entry, Entry::Waiting(one) if one.returned.is_none() && meant(&one.item));
        let found = self.entries.iter().skip(from).position(waits).map(|place| place + from);
        // From the start only if the broker does not keep to the order.
        let Some(place) = found.or_else(|| self.entries.iter().position(waits)) else { return };
        if let Entry::Waiting(one) = &mut self.entries[place] {
            one.returned = Some(why.to_owned());
        }
        self.search = self.first + place as u64 + 1;
    }

    /// The broker has answered this number, or with `multiple` all up to it; 0 is then everything there is. Each goes to
    /// `tell` with the reason for which it came back, if it did.
    pub(crate) fn answered(
        &mut self,
        tag: u64,
        multiple: bool,
        mut tell: impl FnMut(T, Option<String>),
    ) -> Result<(), NeverSent> {
        let next = self.first + self.entries.len() as u64;
        let tag = if multiple && tag == 0 { next - 1 } else { tag };
        if tag >= next || tag == 0 && !multiple {
            return Err(NeverSent);
        }
        // What is before the first entry was answered earlier.
        let Some(place) = tag.checked_sub(self.first).and_then(|place| usize::try_from(place).ok()) else {
            return Ok(());
        };
        let range = if multiple { 0..=place } else { place..=place };
        for entry in self.entries.range_mut(range) {
            if let Entry::Waiting(one) = std::mem::replace(entry, Entry::Answered) {
                self.waiting -= 1;
                tell(one.item, one.returned);
            }
        }
        while matches!(self.entries.front(), Some(Entry::Answered)) {
            self.entries.pop_front();
            self.first += 1;
        }
        Ok(())
    }

    /// Gives up on those that wait, while the channel goes on.
    pub(crate) fn release(&mut self) -> Vec<T> {
        let mut items = Vec::with_capacity(self.waiting);
        for entry in &mut self.entries {
            if let Entry::Waiting(_) = entry
                && let Entry::Waiting(one) = std::mem::replace(entry, Entry::Released)
            {
                items.push(one.item);
            }
        }
        self.waiting = 0;
        items
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;

    fn filled(count: u64) -> Window<u64> {
        let mut window = Window::new();
        for n in 1..=count {
            window.add(n, Instant::now() + Duration::from_secs(n));
        }
        window
    }

    fn told(window: &mut Window<u64>, tag: u64, multiple: bool) -> Vec<(u64, bool)> {
        let mut list = Vec::new();
        window.answered(tag, multiple, |item, returned| list.push((item, returned.is_some()))).unwrap();
        list
    }

    #[test]
    fn one_that_came_back_is_told_apart_from_those_confirmed_with_it() {
        let mut window = filled(5);
        window.returned("NO_ROUTE", |n| *n == 2);
        window.returned("NO_ROUTE", |n| *n == 4);
        assert_eq!(told(&mut window, 3, false), [(3, false)]);
        assert_eq!(told(&mut window, 4, true), [(1, false), (2, true), (4, true)]);
        assert_eq!(told(&mut window, 5, true), [(5, false)]);
        assert_eq!((window.waiting(), window.unanswered()), (0, 0));
    }

    #[test]
    fn the_same_event_twice_on_the_way_comes_back_in_order() {
        let mut window = Window::new();
        for id in ["a", "b", "a"] {
            window.add(id, Instant::now());
        }
        window.returned("1", |id| *id == "a");
        window.returned("2", |id| *id == "a");
        let mut told = Vec::new();
        window.answered(3, true, |id, why| told.push((id, why))).unwrap();
        assert_eq!(told, [("a", Some("1".to_owned())), ("b", None), ("a", Some("2".to_owned()))]);
    }

    #[test]
    fn what_was_released_is_answered_to_nobody() {
        let mut window = filled(3);
        assert_eq!(window.release(), [1, 2, 3]);
        assert_eq!((window.waiting(), window.unanswered(), window.first()), (0, 3, None));
        window.add(4, Instant::now());
        window.returned("NO_ROUTE", |n| *n == 2);
        assert_eq!(told(&mut window, 0, true), [(4, false)]);
        assert_eq!(window.unanswered(), 0);
    }

    #[test]
    fn an_answer_to_something_never_sent_is_an_error_and_one_that_comes_again_is_not() {
        let mut window = filled(2);
        assert_eq!(window.answered(3, false, |_, _| {}), Err(NeverSent));
        assert_eq!(window.answered(0, false, |_, _| {}), Err(NeverSent));
        assert_eq!(told(&mut window, 2, true).len(), 2);
        assert_eq!(told(&mut window, 1, false), []);
        assert_eq!(told(&mut window, 0, true), []);
    }

    /// What a broker may do next.
    #[derive(Debug, Clone)]
    enum Step {
        Publish { routable: bool },
        Answer { pick: prop::sample::Index, multiple: bool },
        Release,
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let step = prop_oneof![
            5 => any::<bool>().prop_map(|routable| Step::Publish { routable }),
            4 => (any::<prop::sample::Index>(), any::<bool>())
                .prop_map(|(pick, multiple)| Step::Answer { pick, multiple }),
            1 => Just(Step::Release),
        ];
        prop::collection::vec(step, 0..200)
    }

    proptest! {
        /// Against a plain model: a set of open numbers, and which of them came back.
        #[test]
        fn whatever_the_order_of_answers_each_is_told_once_and_right(steps in steps()) {
            let mut window = Window::new();
            let mut open: BTreeMap<u64, bool> = BTreeMap::new();
            let mut released = BTreeSet::new();
            let mut next = 1_u64;
            for step in steps {
                match step {
                    Step::Publish { routable } => {
                        window.add(next, Instant::now());
                        if !routable {
                            window.returned("NO_ROUTE", |n| *n == next);
                        }
                        open.insert(next, routable);
                        next += 1;
                    }
                    Step::Answer { pick, multiple } => {
                        let all: Vec<u64> = open.keys().copied().chain(released.iter().copied()).collect();
                        if all.is_empty() {
                            continue;
                        }
                        let tag = all[pick.index(all.len())];
                        let covered = |n: u64| if multiple { n <= tag } else { n == tag };
                        let expected: Vec<(u64, bool)> =
                            open.iter().filter(|(n, _)| covered(**n)).map(|(n, routable)| (*n, !routable)).collect();
                        prop_assert_eq!(told(&mut window, tag, multiple), expected);
                        open.retain(|n, _| !covered(*n));
                        released.retain(|n| !covered(*n));
                    }
                    Step::Release => {
                        prop_assert_eq!(window.release(), open.keys().copied().collect::<Vec<_>>());
                        released.extend(std::mem::take(&mut open).into_keys());
                    }
                }
                prop_assert_eq!(window.waiting(), open.len());
                prop_assert_eq!(window.unanswered(), open.len() + released.len());
                prop_assert_eq!(window.first().map(|(n, _)| *n), open.keys().next().copied());
            }
        }
    }
}
