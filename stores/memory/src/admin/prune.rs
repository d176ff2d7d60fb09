//! Retention: removes what everybody is done with and nobody will ask for.

use std::time::Duration;

use jiff::Timestamp;
use postroom_core::Retention;
use postroom_core::view::Pruned;

use crate::log::Row;
use crate::state::State;

impl State {
    pub(super) fn prune(&mut self, retention: &Retention, dry_run: bool, now: Timestamp) -> Pruned {
        let mut pruned = Pruned::default();
        if !dry_run {
            let yesterday = now.as_second().div_euclid(60) - 24 * 60;
            self.routes.values_mut().for_each(|route| route.minutes.retain(|minute, _| *minute >= yesterday));
        }
        if let Some(cutoff) = before(now, retention.delivered) {
            // Appended in this order, so that the first one too young ends the look.
            let old = self.log.iter().take_while(|(_, row)| row.appended_at <= cutoff);
            let numbers: Vec<i64> = old.filter(|(n, row)| self.is_done(*n, row)).map(|(n, _)| n).collect();
            pruned.events = numbers.len() as u64;
            if !dry_run {
                for lane in self.routes.values_mut().flat_map(|route| &mut route.lanes) {
                    lane.discarded.retain(|n| numbers.binary_search(n).is_err());
                }
                self.log.prune(&numbers);
            }
        }
        if let Some(cutoff) = before(now, retention.attempts) {
            if !dry_run {
                self.replays.retain(|replay| replay.ended_at().is_none_or(|at| at > cutoff));
            }
            for lane in self.routes.values_mut().flat_map(|route| &mut route.lanes) {
                let rows = &lane.rows;
                let old = |number: &i64, at: Timestamp| at <= cutoff && !rows.contains_key(number);
                for (number, tries) in &mut lane.attempts {
                    pruned.attempts += tries.iter().filter(|one| old(number, one.at)).count() as u64;
                    if !dry_run {
                        tries.retain(|one| !old(number, one.at));
                    }
                }
                for (number, arrivals) in &mut lane.arrivals {
                    pruned.receipts += arrivals.iter().filter(|one| old(number, one.at)).count() as u64;
                    if !dry_run {
                        arrivals.retain(|one| !old(number, one.at));
                    }
                }
                if !dry_run {
                    lane.attempts.retain(|_, tries| !tries.is_empty());
                    lane.arrivals.retain(|_, arrivals| !arrivals.is_empty());
                }
            }
        }
        if let Some(cutoff) = before(now, retention.inbox) {
            pruned.inbox = self.inbox.values().filter(|at| **at <= cutoff).count() as u64;
            pruned.append_keys = self.idempotency_keys.values().filter(|at| **at <= cutoff).count() as u64;
            if !dry_run {
                self.inbox.retain(|_, at| *at > cutoff);
                self.idempotency_keys.retain(|_, at| *at > cutoff);
            }
        }
        pruned
    }

    /// Whether no route needs this event any more: all have passed it, none has it unsettled or parked.
    fn is_done(&self, number: i64, row: &Row) -> bool {
        self.routes.values().all(|route| {
            let lane = &route.lanes[row.lane as usize];
            number <= lane.hwm && !lane.unsettled.contains(number) && !lane.rows.contains_key(&number)
        })
    }
}

fn before(now: Timestamp, kept: Option<Duration>) -> Option<Timestamp> {
    kept.map(|kept| now.checked_sub(kept).unwrap_or(Timestamp::MIN))
}
