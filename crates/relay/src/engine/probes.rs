//! Chooses what a destination is asked with when it was down, or refuses everything: several events that differ.

use std::cmp::Reverse;
use std::collections::{HashSet, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};

use foldhash::HashMap;
use postroom_core::Event;

use super::keys::PendingDelivery;
use super::pace::Pace;

/// How many probed keys are remembered.
const PROBED_MAX: usize = 256;

/// Keys the destination was asked with since something last got through, the latest last.
#[derive(Debug, Default)]
pub(super) struct Probed(VecDeque<u64>);

impl Probed {
    pub(super) fn forget(&mut self) {
        self.0.clear();
    }

    /// Notes that a delivery of this key was sent as a probe.
    pub(super) fn note(&mut self, key: u64) {
        self.0.retain(|old| *old != key);
        self.0.push_back(key);
        if self.0.len() > PROBED_MAX {
            self.0.pop_front();
        }
    }

    /// Chooses probes after an outage: of the keys that were asked longest ago or never, those that were on the wire in
    /// the fewest outages, of different types. An event that brings the destination down must not be asked with first,
    /// nor again and again.
    pub(super) fn after_outage<'a>(&self, ready: impl Iterator<Item = &'a PendingDelivery>, count: usize) -> Vec<u64> {
        let turns: HashMap<u64, usize> = self.0.iter().enumerate().map(|(turn, key)| (*key, turn + 1)).collect();
        let asked = |held: &PendingDelivery| turns.get(&key_hash(&held.delivery.event)).copied().unwrap_or_default();
        let candidates = first_of_keys(ready).into_iter().map(|held| (asked(held), held)).collect();
        let rank = |_, (asked, held): &(usize, &PendingDelivery), same| (*asked, held.outages.count, same, held.order);
        choose(candidates, count, rank, |(_, held)| held).into_iter().map(|(_, held)| held.order).collect()
    }
}

/// Chooses probes while everything is refused: types that were not refused first, then as many types as there are,
/// oldest and newest in turn, and now and then one that was tried before. Says of each whether it was.
pub(super) fn while_slow<'a>(
    ready: impl Iterator<Item = &'a PendingDelivery>,
    pace: &Pace,
    count: usize,
) -> Vec<(u64, bool)> {
    let rank = |turn: usize, held: &&PendingDelivery, same: usize| {
        let wrong_line = (held.delivery.attempts > 0) != (turn % 4 == 3);
        let by_age = if turn.is_multiple_of(2) { (held.order, Reverse(0)) } else { (0, Reverse(held.order)) };
        (pace.refuses(kind_hash(&held.delivery.event)), wrong_line, same, by_age)
    };
    let chosen = choose(first_of_keys(ready), count, rank, |held| held);
    chosen.into_iter().map(|held| (held.order, held.delivery.attempts > 0)).collect()
}

/// Keeps the first of each key: none goes before an earlier one, and a transport that pipelines keys leaves several
/// ready.
fn first_of_keys<'a>(ready: impl Iterator<Item = &'a PendingDelivery>) -> Vec<&'a PendingDelivery> {
    let mut keys = HashSet::new();
    ready.filter(|held| keys.insert(key_hash(&held.delivery.event))).collect()
}

/// Takes the best candidates, one after the other; `rank` hears which turn it is and how many of the same type were
/// chosen.
fn choose<T, K: Ord>(
    mut candidates: Vec<T>,
    count: usize,
    rank: impl Fn(usize, &T, usize) -> K,
    held: impl Fn(&T) -> &PendingDelivery,
) -> Vec<T> {
    let mut kinds: HashMap<u64, usize> = HashMap::default();
    let mut chosen = Vec::new();
    while chosen.len() < count {
        let same = |one: &T| kinds.get(&kind_hash(&held(one).delivery.event)).copied().unwrap_or_default();
        let ranked = candidates.iter().enumerate().map(|(n, one)| (rank(chosen.len(), one, same(one)), n));
        let Some((_, best)) = ranked.min() else { break };
        let one = candidates.swap_remove(best);
        *kinds.entry(kind_hash(&held(&one).delivery.event)).or_default() += 1;
        chosen.push(one);
    }
    chosen
}

/// Returns a number for the event's key; an event without one stands for itself.
pub(super) fn key_hash(event: &Event) -> u64 {
    hash(event.ordering_key().unwrap_or(&event.id))
}

/// Returns a number for the event's type.
pub(super) fn kind_hash(event: &Event) -> u64 {
    hash(&event.event_type)
}

fn hash(text: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use super::super::keys::Outages;
    use jiff::Timestamp;
    use postroom_core::{Delivery, LaneTerm};

    use super::*;

    fn held(order: u64, kind: &str, key: &str, attempts: u32) -> PendingDelivery {
        let delivery = Delivery {
            handle: i64::try_from(order).unwrap(),
            lane: LaneTerm { lane: 0, term: 1 },
            event: Arc::new(Event::new(kind).key(key)),
            position: None,
            attempts,
            ordered: true,
            appended_at: Timestamp::UNIX_EPOCH,
            refused: None,
        };
        PendingDelivery { delivery, order, outages: Outages::default(), dead_letter: None }
    }

    #[test]
    fn after_an_outage_keys_and_types_differ_and_all_have_their_turn() {
        let kinds = ["a", "a", "a", "b", "a", "a", "a", "b"];
        let ready: Vec<PendingDelivery> =
            (0..).zip(kinds).map(|(n, kind)| held(n, kind, &format!("k{n}"), 0)).collect();
        let mut probed = Probed::default();
        let ask = |probed: &mut Probed, count| {
            let chosen = probed.after_outage(ready.iter(), count);
            for one in ready.iter().filter(|held| chosen.contains(&held.order)) {
                probed.note(key_hash(&one.delivery.event));
            }
            chosen
        };
        assert_eq!(ask(&mut probed, 4), [0, 3, 1, 7]);
        assert_eq!(ask(&mut probed, 4), [2, 4, 5, 6]);
        assert_eq!(ask(&mut probed, 1), [0], "the one that was asked longest ago, not the same again");
        assert_eq!(ask(&mut probed, 1), [1]);
    }

    #[test]
    fn an_event_of_fewer_outages_is_asked_first_and_of_a_key_the_earliest() {
        let mut ready = [held(0, "a", "x", 0), held(1, "a", "y", 0), held(2, "a", "y", 0)];
        ready[0].outages.count = 1;
        assert_eq!(Probed::default().after_outage(ready.iter(), 4), [1, 0]);
    }

    #[test]
    fn while_slow_other_types_go_first_then_both_ends_and_one_that_was_tried() {
        let mut ready: Vec<PendingDelivery> = (0..10).map(|n| held(n, "bad", &format!("k{n}"), 0)).collect();
        ready.push(held(10, "bad", "tried", 3));
        ready.push(held(11, "other", "k11", 0));
        let mut pace = Pace::default();
        pace.refused(Duration::from_secs(1), 0, kind_hash(&ready[0].delivery.event));
        let chosen = while_slow(ready.iter(), &pace, 5);
        assert_eq!(chosen, [(11, false), (9, false), (0, false), (10, true), (1, false)]);
    }
}
