//! Sends again, or gives up for good: dead letters and settled events.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use postroom_admin::view::{Affected, ArrivalRow, ReplayKind, ReplayRow, ReplayState};
use postroom_admin::{Pace, ReplayChange, ReplayOrder, Selection, check_selection, no_replay};
use postroom_core::{Actor, DeliveryState, StoreError, new_id};

use crate::delivery::Parked;
use crate::route::Route;
use crate::state::{State, no_route};

/// A replay, with how far each lane of each route had come when it was asked for.
#[derive(Debug)]
pub(crate) struct Replay {
    row: ReplayRow,
    until: BTreeMap<String, Vec<i64>>,
    /// The last one that was made due.
    last: Option<(i64, String)>,
}

impl Replay {
    pub(super) fn ended_at(&self) -> Option<Timestamp> {
        self.row.ended_at
    }

    /// Returns the id, if deliveries are still to be made due.
    pub(super) fn unfinished(&self) -> Option<&str> {
        matches!(self.row.state, ReplayState::Running | ReplayState::Paused).then_some(self.row.id.as_str())
    }
}

/// One delivery of a selection; in order of numbers, then of routes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Chosen {
    number: i64,
    route: String,
    lane: usize,
}

impl State {
    pub(super) fn preview_replay(
        &self,
        what: ReplayKind,
        which: &Selection,
        inbox_window: Option<Duration>,
        now: Timestamp,
    ) -> Result<Affected, StoreError> {
        check_selection(what, which)?;
        let chosen = match what {
            ReplayKind::Dead => self.chosen_dead(which),
            ReplayKind::Settled => {
                self.check_route(which)?;
                self.chosen_settled(which)
            }
        };
        Ok(self.affected(&chosen, inbox_window, now))
    }

    pub(super) fn start_replay(
        &mut self,
        order: &ReplayOrder,
        actor: &Actor,
        now: Timestamp,
    ) -> Result<ReplayRow, StoreError> {
        order.check()?;
        if order.what == ReplayKind::Settled {
            self.check_route(&order.which)?;
        }
        let reached = |(name, route): (&String, &Route)| (name.clone(), route.lanes.iter().map(|l| l.hwm).collect());
        let row = ReplayRow {
            store: self.name.clone(),
            id: new_id(),
            what: order.what,
            state: ReplayState::Running,
            total: order.total,
            done: 0,
            delivered: Some(0),
            pending: Some(0),
            dead: Some(0),
            rate: order.rate,
            selection: order.which.clone(),
            allow_duplicates: order.allow_duplicates,
            actor: actor.name.clone(),
            reason: actor.reason.clone(),
            cursor: String::new(),
            created_at: now,
            stepped_at: Pace::begin(order.rate, now),
            ended_at: None,
        };
        self.note(now, actor, order.what.action(), &order.describe(&row.id), order.total);
        let until = self.routes.iter().map(reached).collect();
        self.replays.push(Replay { row: row.clone(), until, last: None });
        Ok(row)
    }

    pub(super) fn replays(&self, state: Option<ReplayState>, limit: usize) -> Vec<ReplayRow> {
        let rows = self.replays.iter().rev().map(|replay| self.with_outcome(&replay.row));
        rows.filter(|row| state.is_none_or(|state| row.state == state)).take(limit).collect()
    }

    pub(super) fn find_replay(&self, id: &str) -> Option<ReplayRow> {
        self.replays.iter().find(|replay| replay.row.id == id).map(|replay| self.with_outcome(&replay.row))
    }

    /// A replay with what became of its deliveries.
    fn with_outcome(&self, row: &ReplayRow) -> ReplayRow {
        let lanes = || self.routes.values().flat_map(|route| &route.lanes);
        let is_ours = |replay: &Option<String>| replay.as_deref() == Some(row.id.as_str());
        let open = lanes().flat_map(|lane| lane.rows.values()).filter(|parked| is_ours(&parked.replayed_by));
        let (dead, pending): (Vec<_>, Vec<_>) = open.partition(|parked| parked.state == DeliveryState::Dead);
        let arrived = lanes().flat_map(|lane| lane.arrivals.values()).flatten();
        let delivered = arrived.filter(|one| is_ours(&one.replay) && !one.discarded).count();
        let state =
            if row.state == ReplayState::Done && !pending.is_empty() { ReplayState::Delivering } else { row.state };
        ReplayRow {
            state,
            delivered: Some(delivered as u64),
            pending: Some(pending.len() as u64),
            dead: Some(dead.len() as u64),
            ..row.clone()
        }
    }

    pub(super) fn change_replay(
        &mut self,
        id: &str,
        change: ReplayChange,
        actor: &Actor,
        now: Timestamp,
    ) -> Result<bool, StoreError> {
        let replay = self.replays.iter_mut().find(|replay| replay.row.id == id).ok_or_else(|| no_replay(id))?;
        let row = &mut replay.row;
        if !change.changes(id, row.state)? {
            return Ok(false);
        }
        row.state = change.to();
        match change {
            // Time that passed while it was paused allows nothing.
            ReplayChange::Resume => row.stepped_at = Pace::begin(row.rate, now),
            ReplayChange::Cancel => row.ended_at = Some(now),
            ReplayChange::Pause => {}
        }
        let done = row.done;
        self.note(now, actor, change.action(), id, done);
        Ok(true)
    }

    pub(super) fn step_replay(&mut self, id: &str, at_most: u64, now: Timestamp) -> Result<ReplayRow, StoreError> {
        let n = self.replays.iter().position(|replay| replay.row.id == id).ok_or_else(|| no_replay(id))?;
        let Replay { row, until, last } = &self.replays[n];
        let pace = Pace::new(row.rate, row.stepped_at, now);
        let allowed = pace.allowed(at_most);
        if row.state != ReplayState::Running || allowed == 0 {
            return Ok(self.with_outcome(row));
        }
        let mut chosen = match row.what {
            ReplayKind::Dead => self.chosen_dead(&row.selection),
            ReplayKind::Settled => self.chosen_settled(&row.selection),
        };
        chosen.retain(|one| {
            last.as_ref().is_none_or(|(number, route)| (one.number, &one.route) > (*number, route))
                && until.get(&one.route).is_some_and(|lanes| one.number <= lanes[one.lane])
                && (row.what == ReplayKind::Settled || self.dead_since(one) <= Some(row.created_at))
        });
        let ends = (chosen.len() as u64) < allowed;
        chosen.truncate(usize::try_from(allowed).unwrap_or(usize::MAX));
        let what = row.what;
        for one in &chosen {
            self.make_due(what, one, id, now);
        }
        let replay = &mut self.replays[n];
        replay.last = chosen.last().map(|one| (one.number, one.route.clone())).or(replay.last.take());
        let row = &mut replay.row;
        row.cursor = replay.last.as_ref().map(|(number, route)| format!("{number} {route}")).unwrap_or_default();
        row.done += chosen.len() as u64;
        row.stepped_at = pace.after(chosen.len() as u64);
        if ends {
            (row.state, row.ended_at) = (ReplayState::Done, Some(now));
        }
        Ok(self.with_outcome(&self.replays[n].row))
    }

    fn dead_since(&self, one: &Chosen) -> Option<Timestamp> {
        Some(self.routes.get(&one.route)?.lanes[one.lane].rows.get(&one.number)?.since)
    }

    fn make_due(&mut self, what: ReplayKind, one: &Chosen, replay: &str, now: Timestamp) {
        let (Some(route), Some(row)) = (self.routes.get_mut(&one.route), self.log.get(one.number)) else { return };
        let lane = &mut route.lanes[one.lane];
        match what {
            ReplayKind::Dead => lane.change(one.number, |row| {
                row.enter(DeliveryState::Due, now);
                row.attempts = 0;
                row.due_at = now;
                row.replayed_by = Some(replay.to_owned());
                // The head of a held key keeps its place; any other was passed long ago and blocks nobody.
                row.ordered = row.blocks;
            }),
            ReplayKind::Settled => {
                let mut parked = Parked::new(Arc::clone(&row.event), row.appended_at, DeliveryState::Due, now);
                parked.replay = true;
                parked.replayed_by = Some(replay.to_owned());
                parked.ordered = false;
                parked.blocks = false;
                lane.put(one.number, parked);
            }
        }
    }

    fn check_route(&self, which: &Selection) -> Result<(), StoreError> {
        match which.route.as_ref().filter(|name| !self.routes.contains_key(*name)) {
            Some(name) => Err(no_route(name, "replay")),
            None => Ok(()),
        }
    }

    pub(super) fn discard_dead(&mut self, which: &Selection, dry_run: bool, actor: &Actor, now: Timestamp) -> Affected {
        let mut chosen = self.chosen_dead(which);
        chosen.retain(|one| which.died_by.is_none_or(|died_by| self.dead_since(one) <= Some(died_by)));
        let affected = self.affected(&chosen, None, now);
        if dry_run {
            return affected;
        }
        for one in &chosen {
            let Some(route) = self.routes.get_mut(&one.route) else { continue };
            let lane = &mut route.lanes[one.lane];
            let Some(row) = lane.remove(one.number) else { continue };
            let gone = ArrivalRow { at: now, discarded: true, receipt: None, replay: row.replayed_by.clone() };
            lane.arrivals.entry(one.number).or_default().push(gone);
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

    fn chosen_dead(&self, which: &Selection) -> Vec<Chosen> {
        let mut chosen: Vec<Chosen> = self
            .dead_letters(which)
            .map(|(route, lane, number)| Chosen { route: route.to_owned(), lane, number })
            .collect();
        chosen.sort();
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
        let died_by = chosen.iter().filter_map(|one| self.dead_since(one)).max();
        let mut affected = Affected { deliveries: chosen.len() as u64, died_by, ..Affected::default() };
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
