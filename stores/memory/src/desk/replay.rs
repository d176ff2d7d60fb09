//! Sends again, or gives up for good: dead letters and settled events.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use postroom_core::view::Affected;
use postroom_core::{Actor, DeliveryState, ReplayOptions, Selection, StoreError};

use crate::delivery::Parked;
use crate::lane::later;
use crate::route::Route;
use crate::state::{State, no_route};

/// One delivery of a selection.
struct Chosen {
    route: String,
    lane: usize,
    number: i64,
}

impl State {
    pub(super) fn replay_dead(
        &mut self,
        which: &Selection,
        how: ReplayOptions,
        actor: &Actor,
        now: Timestamp,
    ) -> Affected {
        let chosen = self.chosen_dead(which);
        let affected = self.affected(&chosen, how.inbox_window, now);
        if how.dry_run {
            return affected;
        }
        for (nth, one) in chosen.iter().enumerate() {
            let Some(route) = self.routes.get_mut(&one.route) else { continue };
            route.lanes[one.lane].change(one.number, |row| {
                row.enter(DeliveryState::Due, now);
                row.attempts = 0;
                row.due_at = spaced(now, nth, how.rate);
                // The head of a held key keeps its place; any other was passed long ago and blocks nobody.
                row.ordered = row.blocks;
            });
        }
        self.note(now, actor, "dead.replay", &which.describe(), affected.deliveries);
        affected
    }

    pub(super) fn discard_dead(&mut self, which: &Selection, dry_run: bool, actor: &Actor, now: Timestamp) -> Affected {
        let chosen = self.chosen_dead(which);
        let affected = self.affected(&chosen, None, now);
        if dry_run {
            return affected;
        }
        for one in &chosen {
            let Some(route) = self.routes.get_mut(&one.route) else { continue };
            let lane = &mut route.lanes[one.lane];
            let Some(row) = lane.remove(one.number) else { continue };
            if !row.replay {
                lane.counts.discarded += 1;
                lane.discarded.insert(one.number);
            }
            if row.blocks
                && let Some(key) = row.event.ordering_key()
            {
                lane.release(key, now);
            }
        }
        self.note(now, actor, "dead.discard", &which.describe(), affected.deliveries);
        affected
    }

    pub(super) fn replay(
        &mut self,
        which: &Selection,
        how: ReplayOptions,
        actor: &Actor,
        now: Timestamp,
    ) -> Result<Affected, StoreError> {
        if let Some(name) = which.route.as_ref().filter(|name| !self.routes.contains_key(*name)) {
            return Err(no_route(name, "replay"));
        }
        let chosen = self.chosen_settled(which);
        let affected = self.affected(&chosen, how.inbox_window, now);
        if how.dry_run {
            return Ok(affected);
        }
        for (nth, one) in chosen.iter().enumerate() {
            let (Some(route), Some(row)) = (self.routes.get_mut(&one.route), self.log.get(one.number)) else {
                continue;
            };
            let mut parked = Parked::new(Arc::clone(&row.event), row.appended_at, DeliveryState::Due, now);
            parked.replay = true;
            parked.ordered = false;
            parked.blocks = false;
            parked.due_at = spaced(now, nth, how.rate);
            route.lanes[one.lane].put(one.number, parked);
        }
        self.note(now, actor, "event.replay", &which.describe(), affected.deliveries);
        Ok(affected)
    }

    fn chosen_dead(&self, which: &Selection) -> Vec<Chosen> {
        let mut chosen: Vec<Chosen> = self
            .dead_letters(which)
            .map(|(route, lane, number)| Chosen { route: route.to_owned(), lane, number })
            .collect();
        chosen.sort_by_key(|one| one.number);
        chosen
    }

    /// Events that a route wants and is done with, in order; those still on their way are left alone.
    fn chosen_settled(&self, which: &Selection) -> Vec<Chosen> {
        let mut chosen = Vec::new();
        for (number, row) in self.log.iter().filter(|(_, row)| which.fits(&row.event)) {
            for (name, route) in &self.routes {
                let lane = &route.lanes[row.lane as usize];
                let settled = number > lane.start
                    && number <= lane.hwm
                    && !lane.unsettled.contains(number)
                    && !lane.rows.contains_key(&number);
                if settled && which.route.as_ref().is_none_or(|r| r == name) && Route::wants(&route.definition, row) {
                    chosen.push(Chosen { route: name.clone(), lane: row.lane as usize, number });
                }
            }
        }
        chosen
    }

    fn affected(&self, chosen: &[Chosen], inbox_window: Option<Duration>, now: Timestamp) -> Affected {
        let mut affected = Affected { deliveries: chosen.len() as u64, ..Affected::default() };
        let mut keys = BTreeSet::new();
        let remembered = inbox_window.map(|window| now.checked_sub(window).unwrap_or(Timestamp::MIN));
        for one in chosen {
            *affected.routes.entry(one.route.clone()).or_default() += 1;
            let Some(row) = self.log.get(one.number) else { continue };
            keys.extend(row.event.ordering_key());
            let at = row.event.occurred_at;
            affected.oldest = Some(affected.oldest.map_or(at, |oldest| oldest.min(at)));
            affected.older_than_inbox += u64::from(remembered.is_some_and(|since| row.appended_at < since));
        }
        affected.keys = keys.len() as u64;
        affected
    }
}

/// When the n-th of a replay is due.
fn spaced(now: Timestamp, nth: usize, rate: Option<f64>) -> Timestamp {
    let after = rate.filter(|rate| *rate > 0.0).map(|rate| Duration::try_from_secs_f64(nth as f64 / rate));
    later(now, after.and_then(Result::ok).unwrap_or_default())
}
