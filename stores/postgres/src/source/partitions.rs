//! Which partitions of the log a read must look into: the memory of one reader, shared with nobody.
//!
//! A reader starts with all partitions. It leaves one out only while it knows that the partition holds no number that it may
//! still have to read: the partition is neither current nor next to the current one, every transaction that may have chosen
//! it has ended, and its greatest numbers lie below all that the reader may still have to read.
//!
//! That knowledge holds while the reader follows the log segment by segment. Segments are counted from the epoch, never modulo
//! the number of partitions: a reader that paused for a whole turn of the partitions must not take the partition that is current now
//! for the one that it knew. A read that does not follow the last one within a segment is good only if it left nothing out.
//!
//! A clock that jumps ahead and back between two reads shows in neither. So the partitions left out are looked at again every
//! minute, and whenever a reader begins anew; a number between those known and the position is an event that was passed, and is
//! read then.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use postroom_core::faults::{self, Fault};

use super::position::{Position, Snapshot};

/// How often the partitions that are left out are looked at again, at least; more often where segments are shorter.
const CHECK_EVERY: Duration = Duration::from_mins(1);

/// The greatest number of each lane in one partition.
pub(super) type Greatest = BTreeMap<i16, i64>;

/// What a reader knows of the partitions.
#[derive(Debug, Clone)]
pub(super) struct Partitions {
    count: i16,
    check_every: Duration,
    /// The segment in which the last read looked, counted from the epoch; none before the first read.
    segment: Option<i64>,
    /// Partitions that stopped being current: the next transaction id at that time, and what was found out since.
    past: BTreeMap<i16, Past>,
    /// Partitions that are not read, with their greatest numbers.
    left_out: BTreeMap<i16, Greatest>,
    /// When the first of them was left out.
    left_out_at: Instant,
}

#[derive(Debug, Clone)]
struct Past {
    next: i64,
    /// Known once no transaction can add to the partition.
    greatest: Option<Greatest>,
}

impl Partitions {
    /// All of them, in segments of so many seconds.
    pub(super) fn all(count: i16, segment_seconds: i64) -> Self {
        let segment = Duration::from_secs(u64::try_from(segment_seconds).unwrap_or(1));
        Self {
            count,
            check_every: CHECK_EVERY.min(segment),
            segment: None,
            past: BTreeMap::new(),
            left_out: BTreeMap::new(),
            left_out_at: Instant::now(),
        }
    }

    /// The partitions to read.
    pub(super) fn open(&self) -> impl Iterator<Item = i16> + '_ {
        (0..self.count).filter(|partition| !self.left_out.contains_key(partition))
    }

    /// Whether a read in this segment follows the last one: nothing can have been appended to a partition that is not near.
    pub(super) fn follows(&self, segment: i64) -> bool {
        if faults::is(Fault::SegmentsModuloPartitions) {
            let count = i64::from(self.count);
            return self.segment.is_none_or(|last| [0, 1, count - 1].contains(&(segment - last).rem_euclid(count)));
        }
        self.segment.is_none_or(|last| (last - 1..=last + 1).contains(&segment))
    }

    /// Whether a read that found this segment current has read everything there was.
    pub(super) fn covered(&self, segment: i64) -> bool {
        self.left_out.is_empty() || (self.segment.is_some() && self.follows(segment))
    }

    /// Takes note of a read that follows the last one; returns a partition whose greatest numbers would be worth knowing.
    pub(super) fn note(&mut self, segment: i64, snapshot: &Snapshot) -> Option<i16> {
        self.segment = Some(segment);
        let count = i64::from(self.count);
        let near = [-1, 0, 1].map(|step| i16::try_from((segment + step).rem_euclid(count)).unwrap_or(0));
        for partition in near {
            self.past.remove(&partition);
            self.left_out.remove(&partition);
        }
        for partition in (0..self.count).filter(|partition| !near.contains(partition)) {
            self.past.entry(partition).or_insert_with(|| Past { next: snapshot.next(), greatest: None });
        }
        let ended = |past: &Past| past.greatest.is_none() && snapshot.xmin() >= past.next;
        self.past.iter().find(|(_, past)| ended(past)).map(|(partition, _)| *partition)
    }

    /// The greatest numbers of a partition that no transaction can add to any more.
    pub(super) fn learn(&mut self, partition: i16, greatest: Greatest) {
        if let Some(past) = self.past.get_mut(&partition) {
            past.greatest = Some(greatest);
        }
    }

    /// Leaves out the partitions that have nothing left for lanes at these positions.
    pub(super) fn leave_out(&mut self, lanes: &[(i16, &Position)]) {
        for (partition, past) in &self.past {
            let Some(greatest) = &past.greatest else { continue };
            let done = |(lane, position): &(i16, &Position)| {
                let last = greatest.get(lane).copied().unwrap_or(0);
                last <= position.hwm && position.pending.values().all(|lo| last <= *lo)
            };
            if lanes.iter().all(done) {
                if self.left_out.is_empty() {
                    self.left_out_at = Instant::now();
                }
                self.left_out.entry(*partition).or_insert_with(|| greatest.clone());
            }
        }
    }

    /// Whether it is time to look again at the partitions that are left out.
    pub(super) fn check_is_due(&self) -> bool {
        !self.left_out.is_empty()
            && self.left_out_at.elapsed() >= self.check_every
            && !faults::is(Fault::SegmentsModuloPartitions)
    }

    /// The partitions that were left out, with the greatest numbers that were known of them.
    pub(super) fn into_left_out(self) -> BTreeMap<i16, Greatest> {
        self.left_out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn snapshot(text: &str) -> Snapshot {
        Snapshot::parse(text, 0).unwrap()
    }

    fn six() -> Partitions {
        Partitions::all(6, 86_400)
    }

    /// Leaves out all but the partitions near the current one.
    fn left_out(segment: i64) -> Partitions {
        let mut partitions = six();
        while let Some(partition) = partitions.note(segment, &snapshot("20:20:")) {
            partitions.learn(partition, Greatest::new());
        }
        partitions.leave_out(&[(0, &Position::default())]);
        assert_eq!(partitions.open().count(), 3);
        partitions
    }

    #[test]
    fn a_partition_is_left_out_when_its_writers_have_ended_and_all_of_it_was_read() {
        let mut partitions = six();
        let position = Position { hwm: 100, pending: [(50, 40)].into(), ..Position::default() };
        assert_eq!(partitions.note(600, &snapshot("10:20:10")), None, "a writer of partition 2 may still run");
        assert_eq!(partitions.note(600, &snapshot("20:20:")), Some(2));
        partitions.learn(2, [(0, 40), (1, 90)].into());
        partitions.leave_out(&[(0, &position)]);
        assert_eq!(partitions.open().collect::<Vec<_>>(), [0, 1, 3, 4, 5], "2 has nothing left for lane 0");
        assert_eq!(partitions.note(600, &snapshot("20:20:")), Some(3));
        partitions.learn(3, [(0, 41)].into());
        partitions.leave_out(&[(0, &position)]);
        assert_eq!(partitions.open().collect::<Vec<_>>(), [0, 1, 3, 4, 5], "what is pending may still have number 41");
    }

    #[test]
    fn a_partition_comes_back_before_its_segment_begins() {
        let mut partitions = left_out(600);
        assert!(!partitions.open().any(|partition| partition == 2));
        assert!(partitions.covered(601));
        partitions.note(601, &snapshot("20:20:"));
        assert!(partitions.open().any(|partition| partition == 2), "it is next");
    }

    #[test]
    fn a_read_after_any_number_of_segments_without_one_is_not_taken_for_complete() {
        let partitions = left_out(600);
        for gap in 2..20 {
            assert!(!partitions.covered(600 + gap), "{gap} segments later, {} partitions", gap % 6);
            assert!(!partitions.covered(600 - gap), "{gap} segments earlier");
        }
        for near in 599..=601 {
            assert!(partitions.covered(near));
        }
        assert!(six().covered(600) && six().covered(7), "a reader that leaves nothing out reads everything");
    }

    #[test]
    fn what_was_known_before_a_gap_is_not_known_after_it() {
        let mut partitions = six();
        partitions.note(600, &snapshot("20:20:"));
        partitions.learn(2, [(0, 5)].into());
        assert!(partitions.follows(601) && partitions.follows(599) && !partitions.follows(606));
    }

    #[test]
    fn partitions_that_are_left_out_are_looked_at_again() {
        let mut partitions = left_out(600);
        assert!(!partitions.check_is_due(), "they have just been left out");
        partitions.check_every = Duration::ZERO;
        assert!(partitions.check_is_due());
        assert_eq!(partitions.into_left_out().into_keys().collect::<Vec<_>>(), [2, 3, 4]);
    }
}
