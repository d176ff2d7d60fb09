//! A set of log numbers kept as ranges: what a lane has read but not yet settled.

use std::collections::BTreeMap;

/// Set of numbers as disjoint, ordered, closed ranges. Small while settles follow reads closely.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ranges {
    // start → end, inclusive
    ranges: BTreeMap<i64, i64>,
}

impl Ranges {
    /// Creates the empty set.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a number, and joins adjacent ranges.
    pub fn insert(&mut self, n: i64) {
        if self.contains(n) {
            return;
        }
        let mut start = n;
        let mut end = n;
        if let Some((&s, &e)) = self.ranges.range(..n).next_back()
            && e == n - 1
        {
            self.ranges.remove(&s);
            start = s;
        }
        if let Some(&e) = self.ranges.get(&(n + 1)) {
            self.ranges.remove(&(n + 1));
            end = e;
        }
        self.ranges.insert(start, end);
    }

    /// Removes a number, and reports whether it was in the set.
    pub fn remove(&mut self, n: i64) -> bool {
        let Some((&start, &end)) = self.ranges.range(..=n).next_back() else { return false };
        if end < n {
            return false;
        }
        self.ranges.remove(&start);
        if start < n {
            self.ranges.insert(start, n - 1);
        }
        if n < end {
            self.ranges.insert(n + 1, end);
        }
        true
    }

    /// Reports whether the number is in the set.
    pub fn contains(&self, n: i64) -> bool {
        self.ranges.range(..=n).next_back().is_some_and(|(_, &end)| end >= n)
    }

    /// Returns how many numbers are in the set.
    pub fn len(&self) -> u64 {
        self.ranges.iter().map(|(s, e)| e.abs_diff(*s) + 1).sum()
    }

    /// Reports whether the set is empty.
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// Returns the ranges in order, both ends included.
    pub fn iter(&self) -> impl Iterator<Item = (i64, i64)> + '_ {
        self.ranges.iter().map(|(s, e)| (*s, *e))
    }

    /// Returns every number in order.
    pub fn numbers(&self) -> impl Iterator<Item = i64> + '_ {
        self.iter().flat_map(|(s, e)| s..=e)
    }
}

impl FromIterator<(i64, i64)> for Ranges {
    fn from_iter<I: IntoIterator<Item = (i64, i64)>>(ranges: I) -> Self {
        Self { ranges: ranges.into_iter().collect() }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_behaves_like_a_set(steps in prop::collection::vec((any::<bool>(), 0i64..40), 0..200)) {
            let (mut ranges, mut model) = (Ranges::new(), BTreeSet::new());
            for (add, n) in steps {
                if add { ranges.insert(n); model.insert(n); } else { prop_assert_eq!(ranges.remove(n), model.remove(&n)); }
                prop_assert_eq!(ranges.len(), model.len() as u64);
                prop_assert_eq!(ranges.numbers().collect::<Vec<_>>(), model.iter().copied().collect::<Vec<_>>());
                let joined: Vec<_> = ranges.iter().collect();
                prop_assert!(joined.windows(2).all(|w| w[0].1 + 1 < w[1].0), "ranges touch: {:?}", joined);
            }
        }
    }
}
