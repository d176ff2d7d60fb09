//! Sums: what routes did per minute, and dead letters by what they died of.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use postroom_core::view::{DeadGroup, DeliveryRow, MinuteRow};
use postroom_core::{Actor, DEAD_GROUPED_MAX, Selection};

use crate::inbox::Accepted;
use crate::state::State;

impl State {
    pub(super) fn minutes(&self, route: Option<&str>, from: Timestamp) -> Vec<MinuteRow> {
        let routes = self.routes.iter().filter(|(name, _)| route.is_none_or(|wanted| wanted == *name));
        let rows = routes.flat_map(|(name, route)| {
            route.minutes.range(from.as_second().div_euclid(60)..).map(|(minute, sums)| MinuteRow {
                store: self.name.clone(),
                route: name.clone(),
                minute: Timestamp::from_second(minute.saturating_mul(60)).unwrap_or(Timestamp::MAX),
                delivered: sums.delivered,
                retried: sums.retried,
                dead: sums.dead,
            })
        });
        rows.collect()
    }

    pub(super) fn dead_groups(&self, which: &Selection, limit: usize) -> Vec<DeadGroup> {
        let mut groups: BTreeMap<_, Vec<DeliveryRow>> = BTreeMap::new();
        let newest = self.dead_rows(which, 0, usize::MAX).into_iter().rev();
        for row in newest.take(usize::try_from(DEAD_GROUPED_MAX).unwrap_or(usize::MAX)) {
            groups.entry((row.route.clone(), row.code.clone(), row.event_type.clone())).or_default().push(row);
        }
        let mut groups: Vec<DeadGroup> = groups.into_values().filter_map(group).collect();
        groups.sort_by_key(|group| std::cmp::Reverse(group.count));
        groups.truncate(limit);
        groups
    }

    /// Forgets an acceptance; says whether there was one.
    pub(super) fn forget_inbox(&mut self, consumer: &str, id: &str, actor: &Actor, now: Timestamp) -> bool {
        let accepted = Accepted { consumer: consumer.to_owned(), id: id.to_owned() };
        let gone = self.inbox.remove(&accepted).is_some();
        if gone {
            self.note(now, actor, "inbox.forget", &format!("{consumer} {id}"), 1);
        }
        gone
    }
}

/// Rows of one kind, newest first, as one.
fn group(rows: Vec<DeliveryRow>) -> Option<DeadGroup> {
    let keys: BTreeSet<&str> = rows.iter().filter_map(|row| row.key.as_deref()).collect();
    let (count, keys) = (rows.len() as u64, keys.len() as u64);
    let times = || rows.iter().map(|row| row.since);
    let (first_at, last_at) = (times().min()?, times().max()?);
    let newest = rows.into_iter().next()?;
    Some(DeadGroup {
        store: newest.store,
        route: newest.route,
        code: newest.code,
        event_type: newest.event_type,
        count,
        keys,
        first_at,
        last_at,
        sample: newest.id,
        error: newest.error,
    })
}
