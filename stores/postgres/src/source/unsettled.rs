//! The numbers a lane has seen and not settled, kept so that they can be written as few ranges.
//!
//! Numbers are shared by all lanes, so the neighbours of one lane are rarely neighbours in number. A written range means:
//! *every seen row of this lane in here*. Two numbers may stand in one range when no other seen row of the lane lies
//! between them; whoever reads the ranges back leaves out what is not seen yet.

use std::fmt::Write as _;

/// A set of numbers in order; each knows whether it follows the one before without another seen row of the lane in between.
///
/// Numbers come at the end and go in batches, so a plain list is quicker than a tree.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Unsettled {
    numbers: Vec<(i64, bool)>,
}

impl Unsettled {
    /// Adds a number that was read in its turn; `follows` says whether the row of the lane before it is in the set.
    pub(crate) fn push(&mut self, seq: i64, follows: bool) {
        let at = if self.numbers.last().is_none_or(|(last, _)| *last < seq) { self.len() } else { self.before(seq) };
        self.numbers.insert(at, (seq, follows));
    }

    /// Adds a number that was read late, between others.
    pub(crate) fn insert_late(&mut self, seq: i64) {
        self.part(seq);
        self.numbers.insert(self.before(seq), (seq, false));
    }

    /// Says that a row that is not in the set was seen at this number, between others.
    pub(crate) fn part(&mut self, seq: i64) {
        let next = self.before(seq);
        if let Some((_, follows)) = self.numbers.get_mut(next) {
            *follows = false;
        }
    }

    /// Removes a number, if it is there.
    pub(crate) fn remove(&mut self, seq: i64) {
        self.remove_all(&[seq]);
    }

    /// Removes those of these numbers, which are in order, that are there.
    pub(crate) fn remove_all(&mut self, gone: &[i64]) {
        let (mut gone, mut parted) = (gone.iter().copied().peekable(), false);
        self.numbers.retain_mut(|(seq, follows)| {
            while gone.next_if(|gone| *gone < *seq).is_some() {}
            let stays = gone.peek() != Some(seq);
            *follows &= !parted;
            parted = !stays;
            stays
        });
    }

    /// Whether a number follows another one of the set without any seen row of the lane in between.
    pub(crate) fn follows(&self, seq: i64, before: i64) -> bool {
        let at = self.before(seq);
        self.numbers.get(at) == Some(&(seq, true)) && at > 0 && self.numbers[at - 1].0 == before
    }

    pub(crate) fn contains(&self, seq: i64) -> bool {
        self.numbers.get(self.before(seq)).is_some_and(|(n, _)| *n == seq)
    }

    pub(crate) fn len(&self) -> usize {
        self.numbers.len()
    }

    /// How many are less.
    fn before(&self, seq: i64) -> usize {
        self.numbers.partition_point(|(n, _)| *n < seq)
    }

    /// As an `int8multirange`.
    pub(crate) fn to_text(&self) -> String {
        let mut text = String::from("{");
        let mut open: Option<(i64, i64)> = None;
        let mut close = |range: Option<(i64, i64)>| {
            if let Some((first, last)) = range {
                let comma = if text.len() > 1 { "," } else { "" };
                let _ = write!(text, "{comma}[{first},{last}]");
            }
        };
        for &(seq, follows) in &self.numbers {
            match &mut open {
                Some((_, last)) if follows => *last = seq,
                _ => close(open.replace((seq, seq))),
            }
        }
        close(open);
        text.push('}');
        text
    }
}

/// Reads an `int8multirange` as PostgreSQL writes it; both ends of the result are included.
pub(crate) fn parse_ranges(text: &str) -> Option<Vec<(i64, i64)>> {
    let inside = text.strip_prefix('{')?.strip_suffix('}')?;
    let mut ranges = Vec::new();
    for range in inside.split(')').filter(|range| !range.is_empty()) {
        let (first, after) = range.trim_start_matches(',').strip_prefix('[')?.split_once(',')?;
        ranges.push((first.parse().ok()?, after.parse::<i64>().ok()? - 1));
    }
    Some(ranges)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_that_follow_each_other_become_one_range() {
        let mut set = Unsettled::default();
        for (seq, follows) in [(3, false), (19, true), (35, true), (90, false)] {
            set.push(seq, follows);
        }
        assert_eq!(set.to_text(), "{[3,35],[90,90]}");
        assert!(set.follows(19, 3) && !set.follows(35, 3) && !set.follows(90, 35));
        set.remove(19);
        assert_eq!(set.to_text(), "{[3,3],[35,35],[90,90]}");
        assert_eq!(Unsettled::default().to_text(), "{}");
    }

    #[test]
    fn a_late_row_between_two_parts_them_whether_or_not_it_is_unsettled() {
        let mut set = Unsettled::default();
        for (seq, follows) in [(3, false), (19, true), (35, true)] {
            set.push(seq, follows);
        }
        set.insert_late(10);
        assert_eq!(set.to_text(), "{[3,3],[10,10],[19,35]}");
        set.part(30);
        assert_eq!(set.to_text(), "{[3,3],[10,10],[19,19],[35,35]}");
    }

    #[test]
    fn what_goes_at_once_goes_as_one_by_one() {
        for gone in 0_i64..64 {
            let gone: Vec<i64> = (0..6).filter(|n| gone & (1 << n) != 0).collect();
            let mut set = Unsettled::default();
            for seq in 0..6 {
                set.push(seq, seq != 3 && seq != 0);
            }
            let mut one_by_one = set.clone();
            for seq in &gone {
                one_by_one.remove(*seq);
            }
            set.remove_all(&gone);
            assert_eq!(set, one_by_one);
            assert!((0..6).all(|seq| set.contains(seq) != gone.contains(&seq)), "{gone:?}");
            let parted = |seq: i64| seq == 3 || seq == 0 || gone.contains(&(seq - 1));
            assert!(set.numbers.iter().all(|(seq, follows)| *follows != parted(*seq)), "{gone:?}");
        }
    }

    #[test]
    fn ranges_are_read_as_the_server_writes_them() {
        assert_eq!(parse_ranges("{}"), Some(vec![]));
        assert_eq!(parse_ranges("{[3,36),[90,91)}"), Some(vec![(3, 35), (90, 90)]));
        assert_eq!(parse_ranges("[3,4)"), None);
    }
}
