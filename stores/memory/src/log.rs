//! The log: every committed event under its number, and per lane the numbers it holds.
//!
//! Numbers are given at commit under the store's lock, so number order is commit order and a reader that has seen a
//! number has seen every smaller one. What becomes of an event on a route is [`crate::lane`].

use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use jiff::Timestamp;
use postroom_core::Event;

/// One committed event.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) lane: u32,
    pub(crate) event: Arc<Event>,
    pub(crate) appended_at: Timestamp,
}

#[derive(Debug)]
pub(crate) struct Log {
    // Number of the first slot. Numbers are dense, so a row is found by subtraction; pruned ones leave an empty slot
    // until everything before them is pruned too.
    first: i64,
    slots: VecDeque<Option<Row>>,
    lanes: Vec<LogLane>,
    rows: u64,
}

#[derive(Debug, Default)]
struct LogLane {
    numbers: VecDeque<i64>,
    pruned: u64,
}

impl Log {
    pub(crate) fn new(lanes: u32) -> Self {
        let lanes = (0..lanes).map(|_| LogLane::default()).collect();
        Self { first: 1, slots: VecDeque::new(), lanes, rows: 0 }
    }

    pub(crate) fn append(&mut self, event: Event, appended_at: Timestamp) {
        let number = self.last() + 1;
        let lane = lane_of(&event, self.lanes.len());
        self.lanes[lane].numbers.push_back(number);
        let lane = u32::try_from(lane).unwrap_or_default();
        self.slots.push_back(Some(Row { lane, event: Arc::new(event), appended_at }));
        self.rows += 1;
    }

    /// The newest number given, 0 before the first; never goes back, whatever is pruned.
    pub(crate) fn last(&self) -> i64 {
        self.first + i64::try_from(self.slots.len()).unwrap_or(i64::MAX) - 1
    }

    pub(crate) fn len(&self) -> u64 {
        self.rows
    }

    pub(crate) fn get(&self, number: i64) -> Option<&Row> {
        let index = usize::try_from(number.checked_sub(self.first)?).ok()?;
        self.slots.get(index)?.as_ref()
    }

    /// Puts another event in the place of one.
    pub(crate) fn replace(&mut self, number: i64, event: Arc<Event>) {
        let index = number.checked_sub(self.first).and_then(|index| usize::try_from(index).ok());
        if let Some(Some(row)) = index.and_then(|index| self.slots.get_mut(index)) {
            row.event = event;
        }
    }

    /// Every row in order, from either end.
    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = (i64, &Row)> {
        (self.first..=self.last()).filter_map(|number| Some((number, self.get(number)?)))
    }

    /// The numbers of a lane after `hwm`, in order.
    pub(crate) fn after(&self, lane: usize, hwm: i64) -> impl Iterator<Item = i64> + '_ {
        let numbers = &self.lanes[lane].numbers;
        numbers.range(numbers.partition_point(|n| *n <= hwm)..).copied()
    }

    /// Rows of a lane up to `hwm`, those already pruned included.
    pub(crate) fn counted(&self, lane: usize, hwm: i64) -> u64 {
        let lane = &self.lanes[lane];
        lane.numbers.partition_point(|n| *n <= hwm) as u64 + lane.pruned
    }

    /// Rows of a lane that were pruned.
    pub(crate) fn pruned(&self, lane: usize) -> u64 {
        self.lanes[lane].pruned
    }

    /// Removes these rows; `numbers` must be in order.
    pub(crate) fn prune(&mut self, numbers: &[i64]) {
        for number in numbers {
            let Some(index) = number.checked_sub(self.first).and_then(|i| usize::try_from(i).ok()) else { continue };
            let Some(slot) = self.slots.get_mut(index) else { continue };
            if let Some(row) = slot.take() {
                self.lanes[row.lane as usize].pruned += 1;
                self.rows -= 1;
            }
        }
        for lane in &mut self.lanes {
            lane.numbers.retain(|n| numbers.binary_search(n).is_err());
        }
        while matches!(self.slots.front(), Some(None)) {
            self.slots.pop_front();
            self.first += 1;
        }
    }
}

/// The lane of an event: by its ordering key, so that one key is one stream; without one, by its id.
fn lane_of(event: &Event, lanes: usize) -> usize {
    let mut hasher = DefaultHasher::new();
    event.ordering_key().unwrap_or(&event.id).hash(&mut hasher);
    usize::try_from(hasher.finish() % lanes as u64).unwrap_or_default()
}
