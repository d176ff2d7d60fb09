//! What comes in from the store: deliveries, and what became of our ownership.

use std::error::Error;
use std::time::Duration;

use postroom_core::{
    Delivery, LaneTerm, Lease, Phase as BreakerPhase, RouteHealth, RouteState, Standing, StoreError, Verdict,
};

use super::{Engine, Held, Phase, Taken};

/// Most deliveries held behind earlier ones of their keys; beyond, no more is taken until some are done.
const FOLLOWERS_MAX: usize = 10_000;
/// Most deliveries on their way again that are held while they wait for each other.
const AGAIN_MAX: usize = 10_000;
/// Bytes held in all, and rows while many are refused, as a multiple of what one take may bring.
const HELD_TAKES_MAX: usize = 8;
/// How long takes may fail before the route counts as down.
const TROUBLE_MIN: Duration = Duration::from_secs(5);

impl Engine {
    /// Whether another take makes sense now.
    pub(super) fn wants_more(&mut self, now: Duration) -> bool {
        self.phase == Phase::Serving && self.timing.look_is_due(now) && self.has_room(now)
    }

    /// Whether what a take brings could be held.
    pub(super) fn has_room(&mut self, now: Duration) -> bool {
        // A paused route is looked at too, and brings nothing: that is how its release is noticed.
        // Doubts about our lanes only a take can end; while settles fail it need not.
        let unsure = self.doubts.is_raised() && self.settler.is_empty();
        if self.standing.paused || unsure {
            return true;
        }
        let rows = self.options.take.rows;
        // Behind a cluster of bad events there may be good ones.
        let ahead = if self.pace.is_wary(now) && !self.ready.is_one_line() { HELD_TAKES_MAX } else { 1 };
        // Those on their way again, which may have to wait for each other, keep no fresh ones out.
        let crowded = self.ready.again() >= rows && !(self.ready.fresh() == 0 && self.is_doubtful_full());
        self.ready.fresh() < rows.saturating_mul(ahead)
            && !crowded
            && self.ready.again() < AGAIN_MAX
            && self.keys.waiting() < FOLLOWERS_MAX
            && self.settler.returning() < rows
            && self.held_bytes < self.options.take.bytes.saturating_mul(HELD_TAKES_MAX)
    }

    pub(super) fn taken(&mut self, taken: Taken) {
        let now = self.clock.elapsed();
        let number = self.takes;
        self.take_running = false;
        let (take, others_idle) = match taken {
            Ok(taken) => taken,
            Err(error) => {
                self.lost_meanwhile.clear();
                self.timing.look_failed(now);
                self.store_error("take", &error);
                self.doubts.raise();
                let since = self.trouble.take().map_or(now, |(since, _)| since);
                self.trouble = Some((since, chain(&error)));
                self.tell_health(now);
                return;
            }
        };
        self.doubts.clear();
        let owed = std::mem::take(&mut self.owed);
        self.owe(owed);
        if take.taken_over > 0 {
            self.observer.took_over(take.taken_over);
        }
        let found = !take.deliveries.is_empty();
        self.more = take.more;
        let jitter = self.rng.f64();
        self.timing.looked(now, found, take.more, take.next_due, jitter);
        // What is settled after this take may leave something to look for.
        let nothing_held = self.flights.is_empty() && self.ready.is_empty() && self.settler.is_empty();
        if !found
            && !take.more
            && nothing_held
            && let Some(every) = self.timing.longest_pause()
            && self.source.watch(every)
        {
            self.timing.watched(now, take.next_due);
        }
        let idle = !found && !take.more && (take.standing.paused || (!take.retrying && others_idle));
        if self.options.drain && !found && !idle {
            self.timing.look_elsewhere(now);
        }
        // What was settled while it looked may have left something to wait for.
        self.exhausted = idle && self.settles == self.settles_before_take;
        self.halted.clone_from(&take.standing.halted);
        self.trouble = None;
        if take.standing.lanes == 0 && !self.stands_by {
            tracing::info!(
                store = self.store_name,
                route = self.definition.name,
                "standing by: another relay holds this route, or its lease is not over yet"
            );
        }
        self.stands_by = take.standing.lanes == 0;
        // Ownership first: nothing of a lost lane may be admitted.
        self.stand(take.standing);
        for delivery in take.deliveries {
            self.admit(now, delivery);
        }
        self.lost_meanwhile.clear();
        self.keys.taken(number);
        self.tell_health(now);
    }

    fn admit(&mut self, now: Duration, delivery: Delivery) {
        if self.phase != Phase::Serving || self.lost_meanwhile.contains(&delivery.lane) {
            // Left unsettled: whoever owns the lane next gets it.
            return;
        }
        self.keys.brought(&delivery);
        if self.keys.is_held(&delivery) {
            self.settle_later(now, delivery, Verdict::Returned, Duration::ZERO);
            return;
        }
        self.held_bytes += delivery.event.size();
        let held =
            Held { delivery, order: self.next_order, outages: 0, through_before: 0, last_outage: None, burial: None };
        self.next_order += 1;
        let sendable = if self.capabilities.pipelines_key { Some(held) } else { self.keys.admit(held) };
        if let Some(held) = sendable {
            self.ready.insert(held);
        }
    }

    pub(super) fn renewed(&mut self, since: Duration, lease: Result<Lease, StoreError>) {
        let now = self.clock.elapsed();
        match lease {
            Ok(lease) => {
                // Ownership first: a lease that had run out may have cost us lanes. A take on its way may have found that out,
                // so that the store has nothing new to say of it here.
                self.differs.clone_from(&lease.standing.differs);
                self.stand(lease.standing);
                if self.timing.has_run_out(now, self.clock.now()) {
                    self.doubts.raise();
                }
                self.timing.renewed(since, lease.valid_for);
                self.tell_health(now);
            }
            Err(error) => {
                self.timing.renew_failed(now);
                self.store_error("renew", &error);
            }
        }
    }

    /// Takes in what the store says of our ownership.
    pub(super) fn stand(&mut self, mut standing: Standing) {
        for lane in std::mem::take(&mut standing.lost) {
            self.lose(lane);
        }
        for lane in std::mem::take(&mut standing.recalled) {
            self.give_up(lane);
        }
        if standing.lanes != self.standing.lanes {
            tracing::info!(
                store = self.store_name,
                route = self.definition.name,
                lanes = standing.lanes,
                "lanes of this route held by this relay"
            );
        }
        self.standing = standing;
    }

    /// Another relay owns the lane: drop what is held of it, and do not believe what still comes back.
    fn lose(&mut self, lane: LaneTerm) {
        if self.take_running {
            self.lost_meanwhile.push(lane);
        }
        if self.flights.values().any(|flight| flight.held.delivery.lane == lane) {
            self.void.insert(lane);
        }
        self.doubts.raise();
        let gone = self.settler.drop_lane(lane);
        self.owe(gone.slots);
        for (settlement, delivery) in gone.settlements.iter().zip(&gone.deliveries) {
            if settlement.verdict != Verdict::Returned {
                self.forget(delivery);
            }
            // What never reaches the store must not hold its key here for ever.
            if self.goes_back(&settlement.verdict) {
                self.keys.release(delivery, None);
            }
        }
        for held in self.unsent(lane) {
            self.forget(&held.delivery);
        }
        tracing::warn!(
            store = self.store_name,
            route = self.definition.name,
            lane = lane.lane,
            term = lane.term,
            "another relay has taken this lane"
        );
    }

    /// The lane should go to another relay: return what was not handed over, finish the rest.
    fn give_up(&mut self, lane: LaneTerm) {
        let now = self.clock.elapsed();
        for held in self.unsent(lane) {
            self.held_bytes = self.held_bytes.saturating_sub(held.delivery.event.size());
            self.settle_later(now, held.delivery, Verdict::Returned, Duration::ZERO);
        }
    }

    /// Removes from our hands what was taken under this ownership and not handed over.
    fn unsent(&mut self, lane: LaneTerm) -> Vec<Held> {
        let mut unsent = self.keys.drain_lane(lane);
        let orders: Vec<u64> = self.ready.values().filter(|h| h.delivery.lane == lane).map(|h| h.order).collect();
        for order in orders {
            if let Some(held) = self.ready.remove(order) {
                if !self.capabilities.pipelines_key
                    && let Some(next) = self.keys.done(&held.delivery)
                {
                    self.ready.insert(next);
                }
                unsent.push(held);
            }
        }
        unsent.sort_unstable_by_key(|held| held.order);
        unsent
    }

    /// A delivery has left our hands.
    pub(super) fn forget(&mut self, delivery: &Delivery) {
        self.held_bytes = self.held_bytes.saturating_sub(delivery.event.size());
    }

    /// No new deliveries from here on; what was not handed over stays unsettled for the next owner.
    pub(super) fn stop(&mut self) {
        let until = self.clock.elapsed() + self.options.shutdown_grace;
        self.phase = Phase::Stopping { until };
        self.ready.clear();
        self.transport.wind_down();
        tracing::info!(
            store = self.store_name,
            route = self.definition.name,
            in_flight = self.flights.len(),
            "stopping: no new deliveries, waiting for those on their way"
        );
    }

    /// Works out how the route is doing, and tells when that changed.
    pub(super) fn tell_health(&mut self, now: Duration) {
        // What goes back at the end is no outage.
        if matches!(self.phase, Phase::Stopping { .. }) {
            return;
        }
        let state = if self.halted.is_some() {
            RouteState::Halted
        } else if self.standing.paused {
            RouteState::Paused
        } else if self.trouble.as_ref().is_some_and(|(since, _)| now >= *since + TROUBLE_MIN) {
            RouteState::Down
        } else if self.differs.is_some() {
            RouteState::CountsDiffer
        } else {
            self.pace.expire(now);
            match self.breaker.phase(now) {
                BreakerPhase::Closed | BreakerPhase::Ramp { .. } if self.pace.is_slow() => RouteState::Slowed,
                BreakerPhase::Closed | BreakerPhase::Ramp { .. } => RouteState::Running,
                BreakerPhase::Open { .. } => RouteState::BreakerOpen,
                BreakerPhase::HalfOpen => RouteState::HalfOpen,
            }
        };
        let note = match state {
            RouteState::Halted => self.halted.clone().unwrap_or_default(),
            RouteState::CountsDiffer => self.differs.clone().unwrap_or_default(),
            RouteState::Down => self.trouble.as_ref().map(|(_, why)| why.clone()).unwrap_or_default(),
            RouteState::BreakerOpen | RouteState::HalfOpen => self.outage.clone(),
            RouteState::Slowed => self.refusal.clone(),
            _ => String::new(),
        };
        let health = RouteHealth { state, note };
        if health == self.health {
            return;
        }
        if state == RouteState::Running {
            tracing::info!(store = self.store_name, route = self.definition.name, "route is running");
        } else {
            tracing::warn!(
                store = self.store_name,
                route = self.definition.name,
                state = state.as_str(),
                note = health.note,
                "route is not running"
            );
        }
        self.observer.health(&health);
        self.health = health;
        self.timing.renew_soon();
    }

    pub(super) fn store_error(&self, operation: &str, error: &StoreError) {
        let error = chain(error);
        tracing::warn!(
            store = self.store_name,
            route = self.definition.name,
            operation,
            error,
            "store error, trying again"
        );
    }
}

/// The error with its causes, in one line.
fn chain(error: &StoreError) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text
}
