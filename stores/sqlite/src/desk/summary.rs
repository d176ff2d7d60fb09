//! What a selection touches, added up delivery by delivery.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::time::Duration;

use postroom_core::view::Affected;
use sqlx::Row;
use sqlx::sqlite::SqliteRow;

use crate::clock::{span, timestamp};
use crate::events::maybe_text;

/// Adds up what a selection touches.
pub(super) struct Summary {
    /// What was appended before is older than the inbox remembers.
    inbox_cut: Option<i64>,
    keys: BTreeSet<String>,
    oldest: Option<i64>,
    affected: Affected,
}

impl Summary {
    /// A sum that also counts what is older than the inbox remembers.
    pub(super) fn new(inbox_window: Option<Duration>, now: i64) -> Self {
        let inbox_cut = inbox_window.map(|window| now.saturating_sub(span(window)));
        Self { inbox_cut, keys: BTreeSet::new(), oldest: None, affected: Affected::default() }
    }

    /// Adds a delivery; the row has `ordering_key`, `occurred_at` and `appended_at`.
    pub(super) fn add(&mut self, route: &str, row: &SqliteRow) -> Result<(), sqlx::Error> {
        let occurred_at = row.try_get("occurred_at")?;
        let appended_at: i64 = row.try_get("appended_at")?;
        self.keys.extend(maybe_text(row, "ordering_key")?.map(Cow::into_owned));
        self.oldest = Some(self.oldest.map_or(occurred_at, |oldest| oldest.min(occurred_at)));
        self.affected.deliveries += 1;
        *self.affected.routes.entry(route.to_owned()).or_default() += 1;
        self.affected.older_than_inbox += u64::from(self.inbox_cut.is_some_and(|cut| appended_at < cut));
        Ok(())
    }

    /// How many have been added.
    pub(super) fn deliveries(&self) -> u64 {
        self.affected.deliveries
    }

    pub(super) fn finish(self) -> Affected {
        Affected { keys: self.keys.len() as u64, oldest: self.oldest.map(timestamp), ..self.affected }
    }
}
