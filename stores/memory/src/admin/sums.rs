//! Sums: events and deliveries over time, and deliveries by what failed.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;
use postroom_admin::view::{AppendedRow, DeliveryGroup, DeliveryRow, ThroughputRow};
use postroom_admin::{GROUPED_MAX, Selection, SubGroup, merge};
use postroom_core::{Actor, DeliveryState};

use crate::inbox::Accepted;
use crate::state::State;

impl State {
    pub(super) fn minutes(&self, route: Option<&str>, from: Timestamp) -> Vec<ThroughputRow> {
        let routes = self.routes.iter().filter(|(name, _)| route.is_none_or(|wanted| wanted == *name));
        let rows = routes.flat_map(|(name, route)| {
            route.minutes.range(from.as_second().div_euclid(60)..).map(|(minute, sums)| ThroughputRow {
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

    pub(super) fn delivery_groups(
        &self,
        states: &[DeliveryState],
        which: &Selection,
        limit: usize,
    ) -> Vec<DeliveryGroup> {
        let mut newest: Vec<DeliveryRow> = self.parked_rows(states, which).collect();
        newest.sort_by_key(|row| std::cmp::Reverse(row.position));
        newest.truncate(usize::try_from(GROUPED_MAX).unwrap_or(usize::MAX));
        let mut alike: BTreeMap<_, Vec<DeliveryRow>> = BTreeMap::new();
        for row in newest {
            let kind = (row.route.clone(), row.state.as_str(), row.code.clone(), row.event_type.clone());
            alike.entry((kind, row.tenant.clone(), row.error.clone())).or_default().push(row);
        }
        merge(&self.name, alike.into_values().filter_map(subgroup).collect(), limit)
    }

    pub(super) fn appended(&self, from: Timestamp, interval: Duration) -> Vec<AppendedRow> {
        let interval = i64::try_from(interval.as_micros()).unwrap_or(i64::MAX).max(1);
        let mut counts: BTreeMap<i64, u64> = BTreeMap::new();
        for (_, row) in self.log.iter().filter(|(_, row)| row.appended_at >= from) {
            *counts.entry(row.appended_at.as_microsecond().div_euclid(interval)).or_default() += 1;
        }
        let row = |(number, appended): (i64, u64)| AppendedRow {
            store: self.name.clone(),
            at: postroom_admin::timestamp(number.saturating_mul(interval)),
            appended,
        };
        counts.into_iter().map(row).collect()
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

/// Rows that are alike, newest first, as one.
fn subgroup(rows: Vec<DeliveryRow>) -> Option<SubGroup> {
    let keys: BTreeSet<&str> = rows.iter().filter_map(|row| row.key.as_deref()).collect();
    let (count, keys) = (rows.len() as u64, keys.len() as u64);
    let times = || rows.iter().map(|row| row.since);
    let (first_at, last_at) = (times().min()?, times().max()?);
    let newest = rows.into_iter().next()?;
    Some(SubGroup {
        route: newest.route,
        state: newest.state,
        code: newest.code,
        event_type: newest.event_type,
        tenant: newest.tenant,
        error: newest.error,
        count,
        keys,
        first_at,
        last_at,
        sample: newest.id,
    })
}
