//! Which leaves of the ring a read must look into: the memory of one reader, shared with nobody.
//!
//! It starts with all. A leaf drops out when it is not current nor next to the current one, every transaction that may have
//! chosen it while it was has ended, and its greatest numbers lie below all that the reader may still have to read. A leaf
//! that becomes current again, because the ring has turned or the clock was set, comes back; a read that finds the current
//! leaf missing is thrown away.

use std::collections::{BTreeMap, BTreeSet};

use super::position::{Position, Snapshot};

/// What a reader knows of the leaves.
#[derive(Debug, Clone)]
pub(super) struct Leaves {
    count: i16,
    /// Leaves that stopped being current: the next transaction id at that time, and what was found out since.
    past: BTreeMap<i16, Past>,
    out: BTreeSet<i16>,
}

#[derive(Debug, Clone)]
struct Past {
    next: i64,
    /// The greatest number per lane, once nobody can add to it.
    greatest: Option<BTreeMap<i16, i64>>,
}

impl Leaves {
    pub(super) fn all(count: i16) -> Self {
        Self { count, past: BTreeMap::new(), out: BTreeSet::new() }
    }

    /// The leaves to read.
    pub(super) fn open(&self) -> impl Iterator<Item = i16> + '_ {
        (0..self.count).filter(|leaf| !self.out.contains(leaf))
    }

    /// Whether a read that found this leaf current has looked into it.
    pub(super) fn has(&self, current: i16) -> bool {
        !self.out.contains(&current)
    }

    /// Takes note of a read; returns a leaf whose greatest numbers would be worth knowing.
    pub(super) fn note(&mut self, current: i16, snapshot: &Snapshot) -> Option<i16> {
        let near = [-1, 0, 1].map(|step| (current + step).rem_euclid(self.count));
        for leaf in near {
            self.past.remove(&leaf);
            self.out.remove(&leaf);
        }
        for leaf in (0..self.count).filter(|leaf| !near.contains(leaf)) {
            self.past.entry(leaf).or_insert_with(|| Past { next: snapshot.next(), greatest: None });
        }
        let ended = |past: &Past| past.greatest.is_none() && snapshot.xmin() >= past.next;
        self.past.iter().find(|(_, past)| ended(past)).map(|(leaf, _)| *leaf)
    }

    /// The greatest numbers of a leaf that nobody can add to any more.
    pub(super) fn learn(&mut self, leaf: i16, greatest: BTreeMap<i16, i64>) {
        if let Some(past) = self.past.get_mut(&leaf) {
            past.greatest = Some(greatest);
        }
    }

    /// Drops leaves that have nothing left for lanes at these positions.
    pub(super) fn drop_done(&mut self, lanes: &[(i16, &Position)]) {
        for (leaf, past) in &self.past {
            let Some(greatest) = &past.greatest else { continue };
            let done = |(lane, position): &(i16, &Position)| {
                let last = greatest.get(lane).copied().unwrap_or(0);
                last <= position.hwm && position.pending.values().all(|lo| last <= *lo)
            };
            if lanes.iter().all(done) {
                self.out.insert(*leaf);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn snapshot(text: &str) -> Snapshot {
        Snapshot::parse(text, 0).unwrap()
    }

    #[test]
    fn a_leaf_drops_out_when_its_writers_have_ended_and_all_of_it_was_read() {
        let mut leaves = Leaves::all(6);
        let position = Position { hwm: 100, pending: [(50, 40)].into() };
        assert_eq!(leaves.note(0, &snapshot("10:20:10")), None, "somebody may still write to leaf 2");
        assert_eq!(leaves.note(0, &snapshot("20:20:")), Some(2));
        leaves.learn(2, [(0, 40), (1, 90)].into());
        leaves.drop_done(&[(0, &position)]);
        assert_eq!(leaves.open().collect::<Vec<_>>(), [0, 1, 3, 4, 5], "2 has nothing left for lane 0");
        assert_eq!(leaves.note(0, &snapshot("20:20:")), Some(3));
        leaves.learn(3, [(0, 41)].into());
        leaves.drop_done(&[(0, &position)]);
        assert_eq!(leaves.open().collect::<Vec<_>>(), [0, 1, 3, 4, 5], "what is pending may still have number 41");
    }

    #[test]
    fn a_leaf_comes_back_before_the_ring_reaches_it() {
        let mut leaves = Leaves::all(6);
        leaves.note(0, &snapshot("20:20:"));
        leaves.learn(2, BTreeMap::new());
        leaves.drop_done(&[(0, &Position::default())]);
        assert!(!leaves.has(2));
        leaves.note(1, &snapshot("20:20:"));
        assert!(leaves.has(2), "it is next");
    }
}
