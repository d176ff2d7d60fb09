//! What producers know of their own transactions: the truth that the checker compares the journal with.

use std::collections::{BTreeMap, HashSet};

/// One committed event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Written {
    /// Its id.
    pub id: String,
    /// Its key.
    pub key: String,
    /// Its number within the key, from 1.
    pub number: u64,
}

/// What producers did.
#[derive(Debug, Default)]
pub struct Ledger {
    /// What is there for good.
    pub committed: Vec<Written>,
    /// Ids of what was rolled back.
    pub rolled_back: HashSet<String>,
}

impl Ledger {
    /// Takes in what another producer did.
    pub(crate) fn add(&mut self, other: Self) {
        self.committed.extend(other.committed);
        self.rolled_back.extend(other.rolled_back);
    }

    /// Fails the test unless the business counted as many per key as the ledger has.
    pub(crate) fn agrees_with(&self, counters: impl Iterator<Item = (String, i64)>) {
        let mut numbers: BTreeMap<String, i64> = BTreeMap::new();
        for written in &self.committed {
            *numbers.entry(written.key.clone()).or_default() += 1;
        }
        assert_eq!(numbers, counters.collect(), "the ledger and the business agree");
    }
}
