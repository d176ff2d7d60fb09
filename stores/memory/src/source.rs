//! One route as one relay sees it: take, settle, renew, release.
//!
//! Decides which lanes are the relay's. What is handed out of a lane is [`crate::hand`], what a verdict does to a delivery
//! is [`crate::lane`].

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use postroom_core::{
    Budget, Failure, LaneTerm, Lease, Notified, Ownership, RelayIdentity, RouteHealth, RouteSpec, Settlement, Source,
    StoreError, Take, Verdict, disabled_by, share_lanes,
};

use crate::MemoryStore;
use crate::batch::BatchBuilder;
use crate::delivery::Rules;
use crate::relay::live;
use crate::route::{Route, Sums};
use crate::state::{State, no_route};

/// Most rows one take looks at for each one it may bring, so that a route that wants little does not hold the lock long.
const LOOKS_PER_ROW: usize = 16;

#[derive(Debug)]
pub(crate) struct MemorySource {
    store: MemoryStore,
    relay: RelayIdentity,
    definition: RouteSpec,
    // Which lane goes first; moves on with every take, so that none starves.
    turn: AtomicUsize,
}

impl MemorySource {
    pub(crate) fn new(store: MemoryStore, relay: RelayIdentity, definition: RouteSpec) -> Self {
        Self { store, relay, definition, turn: AtomicUsize::new(0) }
    }

    fn name(&self) -> &str {
        &self.definition.name
    }

    fn elapsed(&self) -> Duration {
        self.store.inner.clock.elapsed()
    }

    /// Gives up recalled lanes that are empty, and says how things stand.
    fn ownership(&self, state: &mut State) -> Result<Ownership, StoreError> {
        let boot = self.relay.boot.as_str();
        let route = state.routes.get_mut(self.name()).ok_or_else(|| no_route(self.name(), "look at lanes"))?;
        let live = live(&state.relays, self.name(), self.elapsed());
        let mine_alone = matches!(live[..], [only] if only == boot);
        let shared = if mine_alone { Vec::new() } else { share_lanes(route.lanes.len(), &live) };
        let mut ownership = Ownership { paused: route.pause.is_some(), ..Ownership::default() };
        let mut owned = Vec::new();
        for (number, lane) in (0..).zip(&mut route.lanes) {
            if lane.holder.as_deref() != Some(boot) {
                continue;
            }
            let ours = LaneTerm { lane: number, term: lane.term };
            if shared.get(number as usize).is_some_and(|owner| owner.is_some_and(|owner| owner != boot)) {
                if lane.handed.is_empty() {
                    lane.vacate();
                    continue;
                }
                ownership.recalled.push(ours);
            }
            owned.push(ours);
        }
        ownership.lanes = owned.len();
        if let Some(serving) = state.relays.get_mut(boot).and_then(|relay| relay.serves.get_mut(&self.definition.name))
        {
            let gone = |old: &LaneTerm| {
                let lane = &route.lanes[old.lane as usize];
                // Given up by ourselves leaves no holder under the same term; anything else was taken from us.
                !owned.contains(old) && (lane.holder.is_some() || lane.term != old.term)
            };
            ownership.lost = serving.owned.iter().copied().filter(gone).collect();
            serving.owned = owned;
        }
        Ok(ownership)
    }

    /// Takes every lane that should be ours and that no live relay holds; none while our own heartbeat is late.
    /// Says how many another one had held.
    fn acquire(&self, state: &mut State) -> Result<usize, StoreError> {
        let boot = self.relay.boot.as_str();
        let elapsed = self.elapsed();
        let route = state.routes.get_mut(self.name()).ok_or_else(|| no_route(self.name(), "take"))?;
        if route.lanes.iter().all(|lane| lane.holder.as_deref() == Some(boot)) {
            return Ok(0);
        }
        let live = live(&state.relays, self.name(), elapsed);
        let shared = share_lanes(route.lanes.len(), &live);
        let (mut taken, mut taken_over) = (Vec::new(), 0);
        for ((number, lane), owner) in (0..).zip(&mut route.lanes).zip(shared) {
            let holder = lane.holder.as_deref();
            let is_free = holder != Some(boot)
                && !holder.is_some_and(|h| state.relays.get(h).is_some_and(|relay| relay.is_alive(elapsed)));
            if owner == Some(boot) && is_free {
                taken_over += usize::from(holder.is_some());
                taken.push(LaneTerm { lane: number, term: lane.give(boot) });
            }
        }
        if let Some(serving) = state.relays.get_mut(boot).and_then(|relay| relay.serves.get_mut(&self.definition.name))
        {
            serving.owned.extend(taken);
        }
        Ok(taken_over)
    }
}

#[async_trait]
impl Source for MemorySource {
    async fn take(&self, budget: Budget) -> Result<Take, StoreError> {
        let now = self.store.now();
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        let mut guard = self.store.lock();
        let state = &mut *guard;
        let alive = state
            .relays
            .get(&self.relay.boot)
            .is_some_and(|relay| relay.is_alive(self.elapsed()) && relay.serves.contains_key(&self.definition.name));
        let before = self.ownership(state)?;
        let taken_over = self.acquire(state)?;
        let mut ownership = self.ownership(state)?;
        ownership.lost.extend(before.lost);
        let State { log, routes, handles, .. } = state;
        let route = routes.get_mut(self.name()).ok_or_else(|| no_route(self.name(), "take"))?;
        let mut batch = BatchBuilder { log, handles, now, budget, bytes: 0, full: false, deliveries: Vec::new() };
        let Route { definition, lanes, .. } = route;
        // Without a heartbeat in time whatever we batch out may be somebody else's a moment later.
        let is_open = |n: &usize| alive && !ownership.paused && lanes[*n].holder.as_deref() == Some(&self.relay.boot);
        let mine: Vec<(usize, LaneTerm)> = in_turn(lanes.len(), turn)
            .filter(is_open)
            .map(|n| (n, LaneTerm { lane: u32::try_from(n).unwrap_or_default(), term: lanes[n].term }))
            .filter(|(_, lane)| !ownership.recalled.contains(lane))
            .collect();
        for (n, term) in &mine {
            batch.again(&mut lanes[*n], *term);
        }
        // Due rows get half of the room, rounded up every other time, and what fresh ones leave.
        let mut share = usize::midpoint(budget.rows.saturating_sub(batch.deliveries.len()), turn % 2);
        for (n, term) in &mine {
            batch.due(&mut lanes[*n], *term, &mut share);
        }
        let mut looks = budget.rows.saturating_mul(LOOKS_PER_ROW);
        for (n, term) in &mine {
            batch.fresh(&mut lanes[*n], *term, definition, &mut looks);
        }
        share = usize::MAX;
        for (n, term) in &mine {
            batch.due(&mut lanes[*n], *term, &mut share);
        }
        // Of our own lanes only: nobody should hurry for what he cannot take.
        let next = mine.iter().filter_map(|(n, _)| lanes[*n].due.first().map(|(due, _)| *due)).min();
        let next_due = next.map(|due| due.duration_since(now).try_into().unwrap_or_default());
        let retrying = lanes.iter().any(|lane| lane.retrying > 0);
        Ok(Take { more: batch.full, deliveries: batch.deliveries, next_due, retrying, taken_over, ownership })
    }

    async fn settle(&self, settlements: &[Settlement]) -> Result<Ownership, StoreError> {
        let (now, elapsed) = (self.store.now(), self.elapsed());
        let mut guard = self.store.lock();
        let state = &mut *guard;
        let route = state.routes.get_mut(self.name()).ok_or_else(|| no_route(self.name(), "settle"))?;
        let rules = Rules::from(&route.definition);
        let mut lost: Vec<LaneTerm> = Vec::new();
        let mut sums = Sums::default();
        for settlement in settlements {
            let in_force = route.lanes.get_mut(settlement.lane.lane as usize);
            match in_force.filter(|lane| lane.is_held(&self.relay.boot, settlement.lane)) {
                Some(lane) => {
                    let failed = u64::from(lane.handed.contains_key(&settlement.handle));
                    match settlement.verdict {
                        Verdict::Retry { .. } => sums.retried += failed,
                        Verdict::Dead { .. } => sums.dead += failed,
                        Verdict::Delivered(_) | Verdict::Returned => {}
                    }
                    sums.delivered += u64::from(lane.settle(settlement, &state.log, rules, now));
                }
                None if lost.contains(&settlement.lane) => {}
                None => lost.push(settlement.lane),
            }
        }
        if sums.delivered > 0 {
            route.pace.add(sums.delivered, elapsed);
        }
        if sums != Sums::default() {
            let minute = route.minutes.entry(now.as_second().div_euclid(60)).or_default();
            minute.delivered += sums.delivered;
            minute.retried += sums.retried;
            minute.dead += sums.dead;
        }
        let mut ownership = self.ownership(state)?;
        lost.retain(|lane| !ownership.lost.contains(lane));
        ownership.lost.extend(lost);
        Ok(ownership)
    }

    async fn renew(&self, health: &RouteHealth) -> Result<Lease, StoreError> {
        let (now, elapsed) = (self.store.now(), self.elapsed());
        let mut guard = self.store.lock();
        let state = &mut *guard;
        let ownership = match state.relays.get_mut(&self.relay.boot) {
            Some(relay) if relay.serves.contains_key(&self.definition.name) => {
                relay.seen_at = now;
                relay.alive_until = elapsed + self.relay.lease;
                if let Some(serving) = relay.serves.get_mut(&self.definition.name) {
                    serving.health = health.clone();
                }
                self.ownership(state)?
            }
            // It was forgotten after a long silence: it joins again, with nothing in its hands.
            _ => {
                state.join(&self.relay, &self.definition, now, elapsed)?;
                self.ownership(state)?
            }
        };
        let probe_asked = state.routes.get(&self.definition.name).and_then(|route| route.probe_at);
        Ok(Lease { valid_for: self.relay.lease, ownership, probe_asked })
    }

    async fn release(&self) -> Result<(), StoreError> {
        let mut guard = self.store.lock();
        let state = &mut *guard;
        if let Some(route) = state.routes.get_mut(self.name()) {
            for lane in route.lanes.iter_mut().filter(|lane| lane.holder.as_deref() == Some(&self.relay.boot)) {
                lane.vacate();
            }
        }
        if let Some(relay) = state.relays.get_mut(&self.relay.boot) {
            relay.serves.remove(self.name());
            if relay.serves.is_empty() {
                state.relays.remove(&self.relay.boot);
            }
        }
        drop(guard);
        self.store.inner.wake.wake();
        Ok(())
    }

    async fn disable(&self, failure: &Failure) -> Result<(), StoreError> {
        let now = self.store.now();
        self.store.lock().pause(self.name(), &disabled_by(failure), now).map(drop)
    }

    async fn is_drained(&self) -> Result<bool, StoreError> {
        Ok(self.store.lock().is_drained(self.name(), self.store.now()))
    }

    fn notified(&self) -> Notified {
        self.store.inner.wake.notified()
    }
}

/// Every lane once, beginning with another one each turn.
fn in_turn(lanes: usize, turn: usize) -> impl Iterator<Item = usize> {
    (0..lanes).map(move |n| (n + turn) % lanes)
}
