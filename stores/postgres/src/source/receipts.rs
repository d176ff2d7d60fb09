//! When and where events went, a row per settled batch and lane instead of one per event.

use serde_json::{Map, Value};

use crate::sql::stored;

/// An event that got through.
#[derive(Debug, Clone)]
pub(super) struct Arrived {
    /// Where the destination put it, if it said so.
    pub(super) words: Option<String>,
    /// Whether it follows the one before it without another seen row of the lane in between: then they share a range.
    pub(super) follows: bool,
    /// Replay that sent it.
    pub(super) replay: Option<String>,
}

/// Receipts, column by column: first and last number of each, its ranges, and the destination's words by number.
#[derive(Debug, Clone, Default)]
pub(super) struct Receipts {
    pub(super) lanes: Vec<i16>,
    pub(super) firsts: Vec<i64>,
    pub(super) lasts: Vec<i64>,
    pub(super) ranges: Vec<String>,
    pub(super) coordinates: Vec<Option<String>>,
    pub(super) replays: Vec<Option<String>>,
}

impl Receipts {
    /// Adds numbers of one lane that got through, in order, all of them by themselves or sent by one replay.
    pub(super) fn add(&mut self, lane: i16, numbers: &[(i64, &Arrived)]) {
        let (Some((first, arrived)), Some((last, _))) = (numbers.first(), numbers.last()) else { return };
        let mut ranges: Vec<(i64, i64)> = Vec::new();
        let mut words = Map::new();
        for (number, arrived) in numbers {
            match ranges.last_mut() {
                Some((_, end)) if arrived.follows => *end = *number,
                _ => ranges.push((*number, *number)),
            }
            if let Some(said) = &arrived.words {
                words.insert(number.to_string(), Value::String(stored(said)));
            }
        }
        let ranges: Vec<String> = ranges.iter().map(|(first, last)| format!("[{first},{last}]")).collect();
        self.lanes.push(lane);
        self.firsts.push(*first);
        self.lasts.push(*last);
        self.ranges.push(format!("{{{}}}", ranges.join(",")));
        self.replays.push(arrived.replay.clone());
        self.coordinates.push((!words.is_empty()).then(|| Value::Object(words).to_string()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_follows_without_a_gap_is_one_range() {
        let arrived = |follows| Arrived { words: None, follows, replay: None };
        let said = Arrived { words: Some("here@1".to_owned()), follows: false, replay: None };
        let mut receipts = Receipts::default();
        receipts.add(3, &[(5, &arrived(false)), (21, &arrived(true)), (37, &arrived(false)), (53, &said)]);
        assert_eq!(receipts.ranges, ["{[5,21],[37,37],[53,53]}"]);
        assert_eq!((receipts.firsts, receipts.lasts), (vec![5], vec![53]));
        assert_eq!(receipts.coordinates, [Some("{\"53\":\"here@1\"}".to_owned())]);
    }
}
