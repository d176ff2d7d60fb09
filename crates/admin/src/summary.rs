//! What a selection touches, added up delivery by delivery.

use std::collections::BTreeSet;
use std::time::Duration;

use jiff::Timestamp;

use crate::view::Affected;

/// Adds up what a selection touches.
#[derive(Debug)]
pub struct Summary {
    /// Events appended before are older than the inbox remembers.
    inbox_cut: Option<Timestamp>,
    keys: BTreeSet<String>,
    oldest: Option<Timestamp>,
    affected: Affected,
}

impl Summary {
    /// A sum that also counts what is older than the inbox remembers.
    pub fn new(inbox_window: Option<Duration>, now: Timestamp) -> Self {
        let inbox_cut = inbox_window.map(|window| now.checked_sub(window).unwrap_or(Timestamp::MIN));
        Self { inbox_cut, keys: BTreeSet::new(), oldest: None, affected: Affected::default() }
    }

    /// Adds a delivery of an event.
    pub fn add(&mut self, route: &str, key: Option<String>, occurred_at: Timestamp, appended_at: Timestamp) {
        self.keys.extend(key);
        self.oldest = Some(self.oldest.map_or(occurred_at, |oldest| oldest.min(occurred_at)));
        self.affected.deliveries += 1;
        *self.affected.routes.entry(route.to_owned()).or_default() += 1;
        self.affected.older_than_inbox += u64::from(self.inbox_cut.is_some_and(|cut| appended_at < cut));
    }

    /// Adds the time at which one of them died.
    pub(crate) fn died(&mut self, at: Timestamp) {
        self.affected.died_by = self.affected.died_by.max(Some(at));
    }

    /// How many deliveries were added.
    pub fn deliveries(&self) -> u64 {
        self.affected.deliveries
    }

    /// The sum.
    pub fn finish(self) -> Affected {
        Affected { keys: self.keys.len() as u64, oldest: self.oldest, ..self.affected }
    }
}
