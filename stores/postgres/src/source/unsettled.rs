//! The numbers a lane has seen and not settled, kept so that they can be written as few ranges.
//!
//! Numbers are shared by all lanes, so the neighbours of one lane are rarely neighbours in number. A written range means:
//! *every seen row of this lane in here*. Two numbers may stand in one range when no other seen row of the lane lies
//! between them; whoever reads the ranges back leaves out what is not seen yet.

use std::collections::BTreeMap;
use std::fmt::Write as _;

/// A set of numbers; each knows whether it follows the one before without another seen row of the lane in between.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Unsettled {
    numbers: BTreeMap<i64, bool>,
}

impl Unsettled {
    /// Adds a number that was read in its turn; `follows` says whether the row of the lane before it is in the set.
    pub(crate) fn push(&mut self, seq: i64, follows: bool) {
        self.numbers.insert(seq, follows);
    }

    /// Adds a number that was read late, between others.
    pub(crate) fn insert_late(&mut self, seq: i64) {
        self.part(seq);
        self.numbers.insert(seq, false);
    }

    /// Says that a row that is not in the set was seen at this number, between others.
    pub(crate) fn part(&mut self, seq: i64) {
        if let Some((_, follows)) = self.numbers.range_mut(seq..).next() {
            *follows = false;
        }
    }

    /// Removes a number; says whether it was there.
    pub(crate) fn remove(&mut self, seq: i64) -> bool {
        let there = self.numbers.remove(&seq).is_some();
        if there {
            self.part(seq);
        }
        there
    }

    pub(crate) fn contains(&self, seq: i64) -> bool {
        self.numbers.contains_key(&seq)
    }

    pub(crate) fn len(&self) -> usize {
        self.numbers.len()
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
        for (&seq, &follows) in &self.numbers {
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
    fn ranges_are_read_as_the_server_writes_them() {
        assert_eq!(parse_ranges("{}"), Some(vec![]));
        assert_eq!(parse_ranges("{[3,36),[90,91)}"), Some(vec![(3, 35), (90, 90)]));
        assert_eq!(parse_ranges("[3,4)"), None);
    }
}
