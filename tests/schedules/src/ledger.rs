//! What producers did and what the destination saw: the truth that the stores are compared with.

use std::collections::{BTreeMap, HashMap};

/// Where the transaction of an event stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Written {
    /// Its transaction is open.
    Open,
    Committed,
    /// Rolled back, as a whole or to a savepoint.
    Undone,
}

/// One event.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub(crate) id: String,
    pub(crate) key: Option<String>,
    /// Appended with a time in the future: it keeps nobody's order.
    pub(crate) delayed: bool,
    pub(crate) written: Written,
    /// How often it was handed to the destination.
    pub(crate) handed: u32,
    /// How often it took effect there.
    pub(crate) arrived: u32,
    /// Whether the last copy that took effect was acknowledged to a relay.
    pub(crate) acknowledged: bool,
    /// Copies beyond an acknowledged one.
    pub(crate) copies: u32,
    pub(crate) transient: u32,
    pub(crate) permanent: u32,
    pub(crate) unavailable: u32,
    /// An operator let others pass it, or gave it up.
    pub(crate) touched: bool,
}

impl Entry {
    fn is_done(&self, attempts: u32) -> bool {
        self.arrived > 0 || self.is_given_up(attempts) || self.written != Written::Committed || self.delayed
    }

    /// Whether the destination has refused it for good.
    pub(crate) fn is_given_up(&self, attempts: u32) -> bool {
        self.touched || self.permanent > 0 || self.transient + self.unavailable / 3 >= attempts
    }
}

/// Everything producers and the destination know.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    pub(crate) entries: BTreeMap<String, Entry>,
    /// The events of each key in the order in which they were appended. Writers of a key come one after the other.
    pub(crate) of_key: HashMap<String, Vec<String>>,
    pub(crate) violations: Vec<String>,
    /// Tries in all before an event is given up.
    pub(crate) attempts: u32,
    /// Whether order is promised.
    pub(crate) ordered: bool,
}

impl Ledger {
    pub(crate) fn append(&mut self, id: &str, key: Option<&str>, delayed: bool) {
        let entry = Entry {
            id: id.to_owned(),
            key: key.map(str::to_owned),
            delayed,
            written: Written::Open,
            handed: 0,
            arrived: 0,
            acknowledged: false,
            copies: 0,
            transient: 0,
            permanent: 0,
            unavailable: 0,
            touched: false,
        };
        self.entries.insert(id.to_owned(), entry);
        if let Some(key) = key {
            self.of_key.entry(key.to_owned()).or_default().push(id.to_owned());
        }
    }

    pub(crate) fn ended(&mut self, ids: &[String], written: Written) {
        for id in ids {
            if let Some(entry) = self.entries.get_mut(id)
                && entry.written == Written::Open
            {
                entry.written = written;
            }
        }
    }

    /// An event is handed to the destination: the moment at which order and existence are judged.
    pub(crate) fn handed(&mut self, id: &str, relay: &str) {
        let Some(entry) = self.entries.get_mut(id) else {
            self.violations.push(format!("P2: {id} was handed over by {relay} and never appended"));
            return;
        };
        entry.handed += 1;
        let entry = entry.clone();
        if entry.written != Written::Committed {
            self.violations
                .push(format!("P2: {id} was handed over by {relay}, its transaction is {:?}", entry.written));
        }
        if entry.handed > 1 || entry.delayed || !self.ordered {
            return;
        }
        let earlier = entry.key.as_ref().and_then(|key| self.of_key.get(key)).into_iter().flatten();
        let passed = earlier
            .take_while(|other| **other != id)
            .find(|other| self.entries.get(*other).is_some_and(|other| !other.is_done(self.attempts)));
        if let Some(passed) = passed {
            let key = entry.key.as_deref().unwrap_or_default();
            self.violations.push(format!("P3: key {key}: {id} was handed over by {relay} before {passed} was done"));
        }
    }

    pub(crate) fn arrived(&mut self, id: &str, acknowledged: bool) {
        if let Some(entry) = self.entries.get_mut(id) {
            entry.copies += u32::from(entry.acknowledged);
            entry.arrived += 1;
            entry.acknowledged = acknowledged;
        }
    }

    pub(crate) fn committed(&self) -> impl Iterator<Item = &Entry> {
        self.entries.values().filter(|entry| entry.written == Written::Committed)
    }

    /// Committed and neither arrived nor given up.
    pub(crate) fn missing(&self) -> Vec<&Entry> {
        self.committed().filter(|entry| entry.arrived == 0 && !entry.is_given_up(self.attempts)).collect()
    }

    /// How many events nobody has handed over although nothing stands in front of them.
    pub(crate) fn due(&self) -> usize {
        let free = |entry: &&Entry| {
            let earlier = entry.key.as_ref().and_then(|key| self.of_key.get(key)).into_iter().flatten();
            let mut earlier =
                earlier.take_while(|other| **other != entry.id).filter_map(|other| self.entries.get(other));
            entry.handed == 0 && !entry.delayed && earlier.all(|other| other.written == Written::Undone)
        };
        self.committed().filter(free).count()
    }

    /// Deliveries that took effect.
    pub(crate) fn arrivals(&self) -> u64 {
        self.entries.values().map(|entry| u64::from(entry.arrived)).sum()
    }

    /// Events that the destination has refused for good.
    pub(crate) fn refused(&self) -> u64 {
        self.entries.values().filter(|entry| entry.is_given_up(self.attempts)).count() as u64
    }

    pub(crate) fn handed_in_all(&self) -> u64 {
        self.entries.values().map(|entry| u64::from(entry.handed)).sum()
    }

    pub(crate) fn copies(&self) -> u32 {
        self.entries.values().filter(|entry| !entry.touched).map(|entry| entry.copies).sum()
    }
}
