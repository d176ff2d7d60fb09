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
    /// Ids of what is not there after a commit that was not answered: rolled back, or gone with its server.
    pub unanswered: HashSet<String>,
    /// What producers were told is there for good, and what a server that took over does not have.
    pub gone: Vec<Written>,
}

impl Ledger {
    /// Takes in what another producer did.
    pub(crate) fn add(&mut self, other: Self) {
        self.committed.extend(other.committed);
        self.rolled_back.extend(other.rolled_back);
        self.unanswered.extend(other.unanswered);
        self.gone.extend(other.gone);
    }

    /// Of what was committed, only these ids are still there.
    pub(crate) fn keep(&mut self, there: &HashSet<String>) {
        let (kept, gone) = std::mem::take(&mut self.committed).into_iter().partition(|w| there.contains(&w.id));
        (self.committed, self.gone) = (kept, gone);
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
