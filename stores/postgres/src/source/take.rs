//! Takes: looks who owns what, hands out what is due, reads on, and parks what cannot go yet.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use postroom_core::faults::{self, Fault as Old};
use postroom_core::{Budget, Ownership, StoreError, Take, share_lanes};

use super::batch::{self, BatchBuilder};
use super::change_probe::{ChangeProbe, IdleSnapshot};
use super::ownership_snapshot::{self, OwnershipSnapshot};
use super::watch::Watch;
use super::{InFlight, Shared, State, ownership};
use crate::clock::{Time, duration};
use crate::database::Kind;
use crate::error::Fault;

/// Most rows of the log that one take decides about; the rest is for the next one.
pub(super) const ROWS_MAX: usize = 20_000;
/// How long a take reads on: settles wait for it.
const READ_MAX: Duration = Duration::from_millis(200);

impl Shared {
    pub(super) async fn take(self: &Arc<Self>, budget: Budget) -> Result<Take, StoreError> {
        let mut guard = Arc::clone(&self.state).lock_owned().await;
        let state = &mut *guard;
        Watch::end(&self.inner, &self.relay.boot, &self.route.name);
        self.absorb(state);
        // A caller did not wait for it.
        let outgoing = std::mem::take(&mut state.outgoing);
        back(state, outgoing);
        for lane in state.lanes.values_mut() {
            (lane.complete, lane.shared) = (false, false);
        }
        let mut result = self.take_locked(state, budget).await?;
        result.ownership.lost.append(&mut state.lost);
        result.ownership.given_up = std::mem::take(&mut state.given_up);
        Ok(result)
    }

    async fn take_locked(&self, state: &mut State, budget: Budget) -> Result<Take, StoreError> {
        if let Some(result) = self.still_quiet(state).await? {
            return Ok(result);
        }
        let found = self.look(state).await?;
        let mut ownership = Ownership { paused: found.paused, ..Ownership::default() };
        let joined = found.live.contains(&self.relay.boot);
        let before: Vec<i16> = state.lanes.keys().copied().collect();
        let open = self.share(state, &found, joined, &mut ownership).await?;
        let boot = self.relay.boot.as_str();
        let over = |row: &&ownership_snapshot::LaneRow| {
            !before.contains(&row.lane)
                && state.lanes.contains_key(&row.lane)
                && row.holder.as_deref().is_some_and(|holder| holder != boot)
        };
        let taken_over = found.lanes.iter().filter(over).count();
        ownership.lanes = state.lanes.len();
        let behind = state.lanes.values().find_map(|lane| ownership::sequence_behind(lane, found.last));
        ownership.halted = state.halted.clone().or(behind);
        let moves = joined && !found.paused && ownership.halted.is_none();
        let mut batch = BatchBuilder::new(budget);
        let mut all = true;
        if moves {
            all = match self.choose(state, &found, &open, &mut batch).await {
                Ok(all) => all,
                Err(fault) => {
                    // What was chosen is in nobody's hands, and memory has moved on: begin again from what is written.
                    self.lose_all(state);
                    return Err(fault.at("take", &self.inner.db.place));
                }
            };
        }
        state.parked_due = batch.parked.iter().filter_map(|one| one.due).min();
        self.write(state, std::mem::take(&mut batch.parked)).await?;
        let moved = batch.chosen.iter().any(|one| !state.lanes.contains_key(&one.lane()));
        if moved {
            back(state, batch::outgoing(batch.chosen).1);
            return Ok(Take {
                more: true,
                taken_over,
                ownership: Ownership { lanes: state.lanes.len(), ..ownership },
                ..Take::default()
            });
        }
        let (deliveries, out) = batch::outgoing(batch.chosen);
        state.outgoing = out;
        let next_due = self.next_due(state, &found).await?;
        let result = Take {
            more: !all,
            next_due: next_due.map(|due| duration(due - state.now)),
            retrying: found.retrying,
            taken_over,
            ownership,
            deliveries,
        };
        if moves && result.more {
            self.read_ahead(state, &open);
        }
        self.rest(state, found, &result);
        Ok(result)
    }

    /// What the last look said, if still nothing can be found.
    async fn still_quiet(&self, state: &mut State) -> Result<Option<Take>, StoreError> {
        // Partitions that are left out are looked at again although nothing seems to happen: a clock that jumped hides it.
        if state.reader.as_ref().is_some_and(|reader| reader.partitions.check_is_due()) {
            state.quiet = None;
        }
        if state.quiet.is_none() || !state.lost.is_empty() {
            return Ok(None);
        }
        let (fingerprint, now) = match ChangeProbe::probe(&self.inner).await {
            Ok(felt) => felt,
            Err(error) => {
                self.lose_all(state);
                return Err(error);
            }
        };
        let Some(quiet) = state.quiet.as_ref().filter(|quiet| quiet.holds(&fingerprint, now, &self.route.name)) else {
            state.quiet = None;
            return Ok(None);
        };
        let next_due = quiet.result.next_due.and(quiet.due).map(|due| duration(due - now));
        Ok(Some(Take { next_due, taken_over: 0, ..quiet.result.clone() }))
    }

    /// How the route stands. Lanes that are no longer ours are lost; all of them, if the server is not the one it was.
    async fn look(&self, state: &mut State) -> Result<OwnershipSnapshot, StoreError> {
        let (route, clock) = (self.route.name.clone(), self.inner.clock());
        let found = self
            .inner
            .db
            .attempt("take", Kind::Statements, move |session| {
                Box::pin(async move { ownership_snapshot::look(session, &route, clock).await })
            })
            .await
            .map_err(|fault| self.failed(state, fault, "take"))?;
        (state.now, state.end) = (found.now, found.last);
        if state.server.is_some_and(|before| !before.goes_on_as(&found.server)) {
            self.lose_all(state);
        }
        state.server = Some(found.server);
        let boot = self.relay.boot.as_str();
        let gone = |(number, lane): (&i16, &super::Lane)| {
            (!found.lanes.iter().any(|row| row.is(*number, boot, lane.term))).then_some(*number)
        };
        let gone: Vec<i16> = state.lanes.iter().filter_map(gone).collect();
        for number in gone {
            self.lose(state, number);
        }
        Ok(found)
    }

    /// Takes the lanes that should be ours and are free, gives up those that should not be and are empty, or that the table says
    /// are ours and memory has lost. Returns the ones to batch out from.
    async fn share(
        &self,
        state: &mut State,
        found: &OwnershipSnapshot,
        joined: bool,
        ownership: &mut Ownership,
    ) -> Result<Vec<i16>, StoreError> {
        let boot = self.relay.boot.as_str();
        let live: Vec<&str> = found.live.iter().map(String::as_str).collect();
        let shared = share_lanes(found.lanes.len(), &live);
        let (mut free, mut forgotten) = (Vec::new(), Vec::new());
        let (mut empty, mut recalled) = (Vec::new(), BTreeSet::new());
        for (row, owner) in found.lanes.iter().zip(shared) {
            let ours = state.lanes.get(&row.lane);
            if let Some(lane) = ours {
                if owner.is_some_and(|owner| owner != boot) {
                    if state.out.values().any(|out| out.lane == row.lane) {
                        ownership.recalled.push(lane.lane_term());
                    } else {
                        empty.push(row.lane);
                    }
                    recalled.insert(row.lane);
                }
            } else if joined && owner == Some(boot) && (!row.held || row.holder.as_deref() == Some(boot)) {
                free.push(row.lane);
            } else if row.holder.as_deref() == Some(boot) {
                // As long as we live nobody else may take it.
                forgotten.push(row.lane);
            }
        }
        if !empty.is_empty() {
            self.give_up(state, empty).await?;
            self.inner.wake.wake();
        }
        if !forgotten.is_empty() {
            self.vacate_forgotten(state, forgotten).await?;
            self.inner.wake.wake();
        }
        if !free.is_empty() {
            self.acquire(state, free).await?;
        }
        let turn = state.turn % found.lanes.len().max(1);
        state.turn = state.turn.wrapping_add(1);
        let mut open: Vec<i16> = state.lanes.keys().copied().filter(|lane| !recalled.contains(lane)).collect();
        let middle = turn % open.len().max(1);
        open.rotate_left(middle);
        Ok(open)
    }

    /// Chooses from what was seen before, what is due, and what is fresh. Each may hold earlier events of a key than the next, so
    /// events seen before go first. Says whether there is nothing more.
    async fn choose(
        &self,
        state: &mut State,
        found: &OwnershipSnapshot,
        open: &[i16],
        batch: &mut BatchBuilder,
    ) -> Result<bool, Fault> {
        let all = self.again(state, open, batch).await? && self.share_room(state, found, open, batch).await?;
        self.load(&mut batch.chosen).await?;
        Ok(all)
    }

    /// Chooses due events and fresh ones, half of each where there are enough of both. Says whether there is nothing more.
    async fn share_room(
        &self,
        state: &mut State,
        found: &OwnershipSnapshot,
        open: &[i16],
        batch: &mut BatchBuilder,
    ) -> Result<bool, Fault> {
        let is_due = |row: &&ownership_snapshot::LaneRow| {
            open.contains(&row.lane) && row.due.is_some_and(|due| due <= found.now)
        };
        let due: Vec<i16> = found.lanes.iter().filter(is_due).map(|row| row.lane).collect();
        // Half of the room, rounded up every other time: with room for one, they take turns.
        let first = faults::is(Old::RetriesFirst);
        let share = if first { batch.rows() } else { usize::midpoint(batch.rows(), state.turn % 2) };
        let mut all_due = due.is_empty() || self.due(state, due.clone(), share, batch).await?;
        if first && !all_due {
            return Ok(false);
        }
        let all_fresh = self.fresh(state, open, batch).await?;
        if !all_due && all_fresh && batch.has_room() {
            all_due = self.due(state, due, batch.rows(), batch).await?;
        }
        Ok(all_due && all_fresh)
    }

    /// Reads on and chooses from what was read. Says whether there is nothing more.
    async fn fresh(&self, state: &mut State, open: &[i16], batch: &mut BatchBuilder) -> Result<bool, Fault> {
        let (began, mut seen, mut all) = (Instant::now(), 0, true);
        loop {
            self.end_sweep(state, batch).await?;
            // Late rows come back through `again`, so they are looked at before what was read behind them.
            all &= self.again(state, open, batch).await? && self.ready(state, open, batch).await?;
            if !all || !batch.has_room() || seen >= ROWS_MAX || began.elapsed() >= READ_MAX {
                let more = |lane: &super::Lane| open.contains(&lane.number) && !lane.complete;
                return Ok(all && !state.lanes.values().any(more));
            }
            let lanes = state.unread(open, 1, self.reach());
            if lanes.is_empty() {
                return Ok(state.sweeping.is_none());
            }
            seen += self.go_on(state, &lanes, batch).await?.max(1);
        }
    }

    /// When something parked in our lanes becomes due next.
    async fn next_due(&self, state: &mut State, found: &OwnershipSnapshot) -> Result<Option<i64>, StoreError> {
        let ours: Vec<i16> = state.lanes.keys().copied().collect();
        let in_our_lanes = || found.lanes.iter().filter(|row| ours.contains(&row.lane)).filter_map(|row| row.due);
        let parked = state.parked_due.take();
        if in_our_lanes().all(|due| due > found.now) {
            return Ok(in_our_lanes().chain(parked).min());
        }
        let (route, now) = (self.route.name.clone(), state.now);
        let next: Option<Time> = self
            .inner
            .db
            .attempt("take", Kind::Statements, move |session| {
                Box::pin(async move {
                    let statement = session.sql.scalar(include_str!("../sql/next_due.sql")).bind(route).bind(ours);
                    Ok(statement.bind(Time(now)).fetch_one(&mut *session.conn).await?)
                })
            })
            .await
            .map_err(|fault| self.failed(state, fault, "take"))?;
        Ok(next.map(|next| next.0).into_iter().chain(parked).min())
    }

    /// Remembers that there is nothing to find until something changes.
    fn rest(&self, state: &mut State, found: OwnershipSnapshot, result: &Take) {
        let idle =
            |lane: &super::Lane| lane.is_empty() && lane.unwritten_since.is_none() && lane.complete && !lane.shared;
        let quiet = result.deliveries.is_empty()
            && !result.more
            && state.out.is_empty()
            && result.ownership.halted.is_none()
            && !found.paused
            && state.lanes.values().all(idle);
        if !quiet {
            return;
        }
        let running = state.lanes.values().flat_map(|lane| lane.position.pending.keys().copied()).collect();
        let due = found.lanes.iter().filter_map(|row| row.due).min();
        if due.is_some_and(|due| due <= found.now) {
            return;
        }
        let lanes = found.marks();
        let boot = format!("{} ", self.relay.boot);
        let ours = |mark: &&Option<String>| mark.as_ref().is_some_and(|mark| mark.starts_with(&boot));
        if lanes.iter().filter(ours).count() != state.lanes.len() {
            return;
        }
        let OwnershipSnapshot { last, server, live, .. } = found;
        state.quiet = Some(Arc::new(IdleSnapshot { last, running, server, due, lanes, live, result: result.clone() }));
    }
}

/// What was chosen and is in nobody's hands is there for the next take.
fn back(state: &mut State, chosen: Vec<(i64, InFlight)>) {
    for (_, out) in chosen {
        if let (Some(row), Some(lane)) = (out.row, state.lanes.get_mut(&out.lane)) {
            lane.again.insert(row.seq, row);
        }
    }
}
