//! Keeps one delivery per key on its way and the later ones of that key behind it, in order.

use std::borrow::Borrow;
use std::collections::{HashMap, VecDeque};
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use postroom_core::{Delivery, Event, LaneTerm};

/// A delivery in the engine's hands.
#[derive(Debug, Clone)]
pub(super) struct Held {
    pub(super) delivery: Delivery,
    /// Arrival number; what is sent first among what may be sent.
    pub(super) order: u64,
    /// Outages in a row it was on the wire in, and how much had got through before the first of them.
    pub(super) outages: u32,
    pub(super) through_before: u64,
}

/// Names a key without copying its text.
#[derive(Debug, Clone)]
struct KeyOf(Arc<Event>);

impl KeyOf {
    fn text(&self) -> &str {
        self.0.ordering_key().unwrap_or_default()
    }
}

impl Hash for KeyOf {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.text().hash(state);
    }
}

impl PartialEq for KeyOf {
    fn eq(&self, other: &Self) -> bool {
        self.text() == other.text()
    }
}

impl Eq for KeyOf {}

impl Borrow<str> for KeyOf {
    fn borrow(&self) -> &str {
        self.text()
    }
}

/// The keys that have a delivery on its way, with those waiting behind it.
#[derive(Debug, Default)]
pub(super) struct Keys {
    busy: HashMap<KeyOf, VecDeque<Held>>,
    // Keys whose failure is on its way into the store, under which ownership, and the number of the last take that may
    // not know of it.
    failed: HashMap<KeyOf, (LaneTerm, Option<u64>)>,
    waiting: usize,
}

impl Keys {
    /// Takes a delivery in: back comes what may be sent now.
    pub(super) fn admit(&mut self, held: Held) -> Option<Held> {
        let Some(key) = held.delivery.order_key() else { return Some(held) };
        if let Some(followers) = self.busy.get_mut(key) {
            followers.push_back(held);
            self.waiting += 1;
            return None;
        }
        self.busy.insert(KeyOf(held.delivery.event.clone()), VecDeque::new());
        Some(held)
    }

    /// The delivery on its way is done: back comes the next of its key.
    pub(super) fn done(&mut self, delivery: &Delivery) -> Option<Held> {
        let key = delivery.order_key()?;
        let followers = self.busy.get_mut(key)?;
        let next = followers.pop_front();
        match next {
            Some(_) => self.waiting -= 1,
            None => {
                self.busy.remove(key);
            }
        }
        next
    }

    /// The delivery failed and holds its key: back come all that waited behind it. Until [`Keys::settled`], what else
    /// arrives of this key is to be given back too.
    pub(super) fn fail(&mut self, delivery: &Delivery) -> VecDeque<Held> {
        let Some(key) = delivery.order_key() else { return VecDeque::new() };
        let followers = self.busy.remove(key).unwrap_or_default();
        self.waiting -= followers.len();
        self.failed.insert(KeyOf(delivery.event.clone()), (delivery.lane, None));
        followers
    }

    /// Whether a failure of this delivery's key is still on its way into the store.
    pub(super) fn is_failed(&self, delivery: &Delivery) -> bool {
        !self.failed.is_empty() && delivery.order_key().is_some_and(|key| self.failed.contains_key(key))
    }

    /// The failure is in the store, or void; a take that is running (`take`) may have looked before.
    pub(super) fn settled(&mut self, delivery: &Delivery, take: Option<u64>) {
        let Some(key) = delivery.order_key() else { return };
        let Some((lane, mark)) = self.failed.get_mut(key) else { return };
        if *lane != delivery.lane {
            return;
        }
        match take {
            Some(_) => *mark = take,
            None => {
                self.failed.remove(key);
            }
        }
    }

    /// This take has been taken in; later ones know every failure settled before it ended.
    pub(super) fn taken(&mut self, take: u64) {
        if !self.failed.is_empty() {
            self.failed.retain(|_, (_, mark)| mark.is_none_or(|last| last > take));
        }
    }

    /// Removes those of a lane that wait behind others.
    pub(super) fn drain_lane(&mut self, lane: LaneTerm) -> Vec<Held> {
        let mut drained = Vec::new();
        for followers in self.busy.values_mut() {
            if followers.iter().any(|held| held.delivery.lane == lane) {
                let (gone, kept) = std::mem::take(followers).into_iter().partition(|h| h.delivery.lane == lane);
                *followers = kept;
                let gone: VecDeque<Held> = gone;
                drained.extend(gone);
            }
        }
        self.waiting -= drained.len();
        drained.sort_unstable_by_key(|held| held.order);
        drained
    }

    /// How many wait behind others.
    pub(super) fn waiting(&self) -> usize {
        self.waiting
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;

    fn held(key: Option<&str>, order: u64) -> Held {
        let mut event = Event::new("t");
        event.key = key.map(str::to_owned);
        let delivery = Delivery {
            handle: i64::try_from(order).unwrap(),
            lane: LaneTerm { lane: 0, term: 1 },
            event: Arc::new(event),
            position: None,
            attempts: 0,
            ordered: true,
            appended_at: Timestamp::UNIX_EPOCH,
        };
        Held { delivery, order, outages: 0, through_before: 0 }
    }

    #[test]
    fn one_per_key_goes_and_the_others_follow_in_order() {
        let mut keys = Keys::default();
        let first = keys.admit(held(Some("a"), 1)).unwrap();
        assert!(keys.admit(held(Some("a"), 2)).is_none() && keys.admit(held(Some("a"), 3)).is_none());
        assert!(keys.admit(held(Some("b"), 4)).is_some() && keys.admit(held(None, 5)).is_some());
        let second = keys.done(&first.delivery).unwrap();
        let third = keys.done(&second.delivery).unwrap();
        assert_eq!((second.order, third.order, keys.waiting()), (2, 3, 0));
        assert!(keys.done(&third.delivery).is_none());
        assert!(keys.admit(held(Some("a"), 6)).is_some(), "the key is free again");
    }

    #[test]
    fn a_failure_gives_back_its_followers_and_what_an_older_take_brings() {
        let mut keys = Keys::default();
        let first = keys.admit(held(Some("a"), 1)).unwrap();
        keys.admit(held(Some("a"), 2));
        assert_eq!(keys.fail(&first.delivery).len(), 1);
        let late = held(Some("a"), 3);
        assert!(keys.is_failed(&late.delivery));
        keys.settled(&first.delivery, Some(7));
        assert!(keys.is_failed(&late.delivery), "take 7 looked before the failure was in the store");
        keys.taken(7);
        assert!(!keys.is_failed(&late.delivery));
        keys.fail(&first.delivery);
        keys.settled(&first.delivery, None);
        assert!(!keys.is_failed(&late.delivery), "no take was running");
    }

    #[test]
    fn a_failure_that_became_void_with_its_lane_frees_its_key_and_no_newer_one() {
        let mut keys = Keys::default();
        let first = keys.admit(held(Some("a"), 1)).unwrap();
        keys.fail(&first.delivery);
        let mut newer = held(Some("a"), 2);
        newer.delivery.lane.term = 2;
        keys.settled(&newer.delivery, None);
        assert!(keys.is_failed(&newer.delivery), "another ownership's failure is not this one");
        keys.settled(&first.delivery, None);
        assert!(!keys.is_failed(&newer.delivery));
    }
}
