//! Keeps one delivery per key in flight and the later ones of that key behind it, in order.

use std::borrow::Borrow;
use std::collections::{BTreeMap, VecDeque};
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use foldhash::HashMap;
use postroom_core::faults::{self, Fault};
use postroom_core::{DeadLetterCause, Delivery, Event};

/// A delivery that was taken and is not settled.
#[derive(Debug, Clone)]
pub(super) struct PendingDelivery {
    pub(super) delivery: Delivery,
    /// Arrival number; what is sent first among what may be sent.
    pub(super) order: u64,
    pub(super) outages: Outages,
    /// Set once it is dead and the transport has a place for it.
    pub(super) dead_letter: Option<Box<DeadLetterCause>>,
}

impl PendingDelivery {
    /// Whether it cannot be sent, except as a dead letter.
    pub(super) fn is_unsent(&self) -> bool {
        self.delivery.refused.is_some() && self.dead_letter.is_none()
    }
}

/// The outages in a row that a delivery was on the wire in.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Outages {
    pub(super) count: u32,
    /// How much had got through before the first of them.
    pub(super) through_before: u64,
    pub(super) last: Option<u64>,
}

/// A key of an event, named without copying its text.
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

/// The reasons why a key must wait.
///
/// Only what is later than something that goes back waits. What is earlier comes from a look that found the store in
/// order, and goes out: if it went back too, a key with more events than one take brings could go round for ever, each
/// part going back while the other is brought, and nothing else of its lane would be taken.
#[derive(Debug, Default)]
struct Hold {
    /// Where the failures and returns stand that are on their way into the store, and how many at each place.
    pending: BTreeMap<i64, usize>,
    /// Those that are there, each with the take that may have looked before.
    unseen: Vec<Unseen>,
}

/// A failure or return that is in the store, and that the take that was running then may not know of.
#[derive(Debug)]
struct Unseen {
    place: i64,
    event: Arc<Event>,
    take: u64,
}

impl Hold {
    /// Whether a delivery at this place is later than something that goes back.
    fn holds(&self, place: i64) -> bool {
        self.pending.first_key_value().is_some_and(|(first, _)| *first <= place)
            || self.unseen.iter().any(|unseen| unseen.place <= place)
    }

    fn is_over(&self) -> bool {
        self.pending.is_empty() && self.unseen.is_empty()
    }
}

/// Returns where a delivery stands in its key; before all others, if the store does not say.
fn place(delivery: &Delivery) -> i64 {
    delivery.position.unwrap_or(i64::MIN)
}

/// The keys that have a delivery on its way, with those waiting behind it.
#[derive(Debug, Default)]
pub(super) struct Keys {
    busy: HashMap<KeyOf, VecDeque<PendingDelivery>>,
    // Keys of which something goes back into the store: nothing later of them may go out meanwhile.
    held: HashMap<KeyOf, Hold>,
    waiting: usize,
}

impl Keys {
    /// Takes a delivery in. Returns it if it may be sent now.
    pub(super) fn admit(&mut self, held: PendingDelivery) -> Option<PendingDelivery> {
        let Some(key) = held.delivery.order_key() else { return Some(held) };
        if let Some(followers) = self.busy.get_mut(key) {
            followers.push_back(held);
            self.waiting += 1;
            return None;
        }
        self.busy.insert(KeyOf(held.delivery.event.clone()), VecDeque::new());
        Some(held)
    }

    /// Ends the turn of a delivery that is done. Returns the next of its key, which may be sent now.
    pub(super) fn done(&mut self, delivery: &Delivery) -> Option<PendingDelivery> {
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

    /// Frees the key of a delivery that failed. Returns all that waited behind it.
    pub(super) fn fail(&mut self, delivery: &Delivery) -> VecDeque<PendingDelivery> {
        let Some(key) = delivery.order_key() else { return VecDeque::new() };
        let followers = self.busy.remove(key).unwrap_or_default();
        self.waiting -= followers.len();
        followers
    }

    /// Holds the key of a delivery that goes back into the store: until [`Keys::release`], later ones that arrive go
    /// back too.
    pub(super) fn hold(&mut self, delivery: &Delivery) {
        let Some(key) = delivery.order_key() else { return };
        let hold = match self.held.get_mut(key) {
            Some(hold) => hold,
            None => self.held.entry(KeyOf(delivery.event.clone())).or_default(),
        };
        *hold.pending.entry(place(delivery)).or_default() += 1;
    }

    /// Whether something earlier of this delivery's key is still on its way back into the store.
    pub(super) fn is_held(&self, delivery: &Delivery) -> bool {
        let hold = delivery.order_key().filter(|_| !self.held.is_empty()).and_then(|key| self.held.get(key));
        hold.is_some_and(|hold| hold.holds(place(delivery)))
    }

    /// Ends the hold of a delivery that is in the store, or void. A take that is running (`take`) may have looked
    /// before.
    pub(super) fn release(&mut self, delivery: &Delivery, take: Option<u64>) {
        let Some(key) = delivery.order_key() else { return };
        let Some(hold) = self.held.get_mut(key) else { return };
        let place = place(delivery);
        if let Some(count) = hold.pending.get_mut(&place) {
            *count -= 1;
            if *count == 0 {
                hold.pending.remove(&place);
            }
            hold.unseen.extend(take.map(|take| Unseen { place, event: Arc::clone(&delivery.event), take }));
        }
        if hold.is_over() {
            self.held.remove(key);
        }
    }

    /// Notes that a take brings this delivery. If it had gone back, that take looked after it was in the store: before,
    /// the store had it in our hands and would not have brought it. A store in which takes and settles wait for each
    /// other brings it with the take that was running, and held for that it would go back once more, and again with the
    /// next take, for ever.
    pub(super) fn brought(&mut self, delivery: &Delivery) {
        let is_old = faults::is(Fault::GoesBackForEver);
        let Some(key) = delivery.order_key().filter(|_| !self.held.is_empty() && !is_old) else { return };
        let Some(hold) = self.held.get_mut(key) else { return };
        let place = place(delivery);
        hold.unseen.retain(|unseen| unseen.place != place || unseen.event.id != delivery.event.id);
        if hold.is_over() {
            self.held.remove(key);
        }
    }

    /// Notes that this take has been taken in; later ones know everything that was in the store before it ended.
    pub(super) fn taken(&mut self, take: u64) {
        if !self.held.is_empty() {
            for hold in self.held.values_mut() {
                hold.unseen.retain(|unseen| unseen.take > take);
            }
            self.held.retain(|_, hold| !hold.is_over());
        }
    }

    /// Removes the wanted ones of the deliveries that wait behind others.
    pub(super) fn drain(&mut self, is_wanted: impl Fn(&PendingDelivery) -> bool) -> Vec<PendingDelivery> {
        let mut drained = Vec::new();
        for followers in self.busy.values_mut() {
            if followers.iter().any(&is_wanted) {
                let (gone, kept) = std::mem::take(followers).into_iter().partition(&is_wanted);
                *followers = kept;
                let gone: VecDeque<PendingDelivery> = gone;
                drained.extend(gone);
            }
        }
        self.waiting -= drained.len();
        drained.sort_unstable_by_key(|held| held.order);
        drained
    }

    /// How many deliveries wait behind others.
    pub(super) fn waiting(&self) -> usize {
        self.waiting
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use postroom_core::LaneTerm;

    use super::*;

    fn held(key: Option<&str>, order: u64) -> PendingDelivery {
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
            refused: None,
        };
        PendingDelivery { delivery, order, outages: Outages::default(), dead_letter: None }
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
        keys.hold(&first.delivery);
        let late = held(Some("a"), 3);
        assert!(keys.is_held(&late.delivery));
        keys.release(&first.delivery, Some(7));
        assert!(keys.is_held(&late.delivery), "take 7 looked before the failure was in the store");
        keys.taken(7);
        assert!(!keys.is_held(&late.delivery));
        keys.hold(&first.delivery);
        keys.release(&first.delivery, None);
        assert!(!keys.is_held(&late.delivery), "no take was running");
    }

    #[test]
    fn what_is_earlier_than_all_that_goes_back_goes_out() {
        let at = |position: i64| {
            let mut held = held(Some("a"), position.unsigned_abs());
            held.delivery.position = Some(position);
            held
        };
        let mut keys = Keys::default();
        keys.hold(&at(5).delivery);
        keys.hold(&at(6).delivery);
        assert!(!keys.is_held(&at(2).delivery), "or two halves of a key could go back in turns, for ever");
        assert!(keys.is_held(&at(5).delivery) && keys.is_held(&at(7).delivery));
        keys.release(&at(5).delivery, Some(1));
        assert!(keys.is_held(&at(5).delivery), "take 1 is still running");
        keys.taken(1);
        assert!(!keys.is_held(&at(5).delivery) && keys.is_held(&at(6).delivery));
    }

    #[test]
    fn what_went_back_and_is_brought_by_the_take_that_was_running_goes_out() {
        let at = |position: i64, id: &str| {
            let mut held = held(Some("a"), position.unsigned_abs());
            held.delivery.position = Some(position);
            held.delivery.event = Arc::new(Event::new("t").id(id).key("a"));
            held.delivery
        };
        let (failed, first, second) = (at(4, "failed"), at(5, "first"), at(6, "second"));
        let mut keys = Keys::default();
        for delivery in [&first, &second] {
            keys.hold(delivery);
            keys.release(delivery, Some(1));
        }
        for delivery in [&first, &second] {
            assert!(keys.is_held(delivery));
            keys.brought(delivery);
            assert!(!keys.is_held(delivery), "or it would go back with every take");
        }
        for delivery in [&failed, &first] {
            keys.hold(delivery);
            keys.release(delivery, Some(2));
        }
        keys.brought(&first);
        assert!(keys.is_held(&first), "take 2 may not know of the failure before it");
        keys.hold(&first);
        keys.taken(2);
        keys.brought(&first);
        assert!(keys.is_held(&first), "it is still on its way into the store");
    }

    #[test]
    fn a_key_waits_for_everything_that_goes_back() {
        let mut keys = Keys::default();
        let (first, second) = (held(Some("a"), 1), held(Some("a"), 2));
        keys.hold(&first.delivery);
        keys.hold(&second.delivery);
        keys.release(&first.delivery, None);
        assert!(keys.is_held(&first.delivery), "the second is still on its way");
        keys.release(&second.delivery, Some(3));
        keys.taken(2);
        assert!(keys.is_held(&first.delivery), "take 3 is still running");
        keys.taken(3);
        assert!(!keys.is_held(&first.delivery));
    }
}
