//! Deliveries that may be sent now: fresh ones, and those that are on their way again.
//!
//! Kept apart so that retries cannot take every place from what was never tried. With a transport that pipelines keys
//! there may be several of a key here, and all of them stay in one line.

use std::collections::{BTreeMap, BTreeSet};

use foldhash::HashMap;
use postroom_core::Timestamp;

use super::keys::PendingDelivery;
use super::probes::kind_hash;

/// The time a delivery was appended, as well as it is known: lanes are read one after the other.
type Age = (Option<i64>, Timestamp, u64);

/// Deliveries by order of arrival.
#[derive(Debug, Default)]
pub(super) struct Ready {
    fresh: BTreeMap<u64, PendingDelivery>,
    again: BTreeMap<u64, PendingDelivery>,
    // The fresh ones by type and age; kept only while somebody asks for the newest.
    ages: Option<HashMap<u64, BTreeSet<Age>>>,
    one_line: bool,
}

impl Ready {
    /// Makes an empty set. With `one_line`, several of a key may be here at once, and nothing goes before what came
    /// earlier.
    pub(super) fn new(one_line: bool) -> Self {
        Self { one_line, ..Self::default() }
    }

    pub(super) fn is_one_line(&self) -> bool {
        self.one_line
    }

    pub(super) fn insert(&mut self, held: PendingDelivery) {
        let tried = held.delivery.attempts > 0 || held.outages.count > 0;
        if tried && !self.one_line {
            self.again.insert(held.order, held);
            return;
        }
        if let Some(ages) = &mut self.ages {
            ages.entry(kind(&held)).or_default().insert(age(&held));
        }
        self.fresh.insert(held.order, held);
    }

    pub(super) fn remove(&mut self, order: u64) -> Option<PendingDelivery> {
        let Some(held) = self.fresh.remove(&order) else { return self.again.remove(&order) };
        if let Some(ages) = &mut self.ages
            && let Some(same) = ages.get_mut(&kind(&held))
        {
            same.remove(&age(&held));
            if same.is_empty() {
                ages.remove(&kind(&held));
            }
        }
        Some(held)
    }

    pub(super) fn clear(&mut self) {
        self.ages = None;
        self.fresh.clear();
        self.again.clear();
    }

    pub(super) fn is_empty(&self) -> bool {
        self.fresh.is_empty() && self.again.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.fresh.len() + self.again.len()
    }

    /// How many deliveries were never tried.
    pub(super) fn fresh(&self) -> usize {
        self.fresh.len()
    }

    /// How many deliveries are on their way again.
    pub(super) fn again(&self) -> usize {
        self.again.len()
    }

    /// All deliveries, of a key the earliest first.
    pub(super) fn values(&self) -> impl DoubleEndedIterator<Item = &PendingDelivery> {
        self.fresh.values().chain(self.again.values())
    }

    /// Deliveries that came after this one, in one line.
    pub(super) fn after(&self, order: u64) -> impl Iterator<Item = &PendingDelivery> {
        self.fresh.range(order..).map(|(_, held)| held)
    }

    pub(super) fn oldest_fresh(&self) -> Option<u64> {
        self.fresh.first_key_value().map(|(order, _)| *order)
    }

    /// The newest fresh delivery, of a type that is not `doubtful` if there is one.
    pub(super) fn newest_fresh(&mut self, doubtful: impl Fn(u64) -> bool) -> Option<u64> {
        let ages = self.ages.get_or_insert_with(|| {
            let mut ages: HashMap<u64, BTreeSet<Age>> = HashMap::default();
            for held in self.fresh.values() {
                ages.entry(kind(held)).or_default().insert(age(held));
            }
            ages
        });
        let newest = ages.iter().filter_map(|(kind, ages)| Some((!doubtful(*kind), *ages.last()?)));
        newest.max().map(|(_, (_, _, order))| order)
    }

    /// Stops keeping ages, because nobody asks for the newest any more.
    pub(super) fn forget_ages(&mut self) {
        self.ages = None;
    }

    pub(super) fn oldest_again(&self) -> Option<u64> {
        self.again.first_key_value().map(|(order, _)| *order)
    }
}

fn age(held: &PendingDelivery) -> Age {
    (held.delivery.position, held.delivery.appended_at, held.order)
}

fn kind(held: &PendingDelivery) -> u64 {
    kind_hash(&held.delivery.event)
}
