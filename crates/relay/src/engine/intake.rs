//! What comes in from the store: deliveries, and what became of our ownership.

use std::time::Duration;

use postroom_core::{Delivery, LaneTerm, Lease, Ownership, RouteState, StoreError, Verdict};

use super::context::chain;
use super::{Engine, Phase, Taken};

impl Engine {
    /// Whether another take makes sense now.
    pub(super) fn wants_more(&mut self, now: Duration) -> bool {
        self.phase == Phase::Serving && self.timing.look_is_due(now) && self.has_room(now)
    }

    /// Whether what a take brings could be held.
    pub(super) fn has_room(&mut self, now: Duration) -> bool {
        // A paused route is looked at too, and brings nothing: that is how its release is noticed.
        // Uncertainty about our lanes only a take can end; while settles fail it need not.
        let unsure = self.ownership.is_uncertain() && self.settler.is_empty();
        if self.ownership.is_paused() || unsure {
            return true;
        }
        if self.keeps_nothing() && self.destination.is_down(now) {
            return false;
        }
        let take = self.route.options.take;
        self.settler.returning() < take.rows
            && self.queue.has_room(take, self.destination.pace().is_wary(now), self.is_doubtful_full())
    }

    /// Whether what is taken keeps a transaction open, so that nothing may be held that cannot be sent.
    fn keeps_nothing(&self) -> bool {
        self.route.source.holds_transactions()
    }

    /// Returns what cannot be sent for now, if keeping it would keep transactions open for as long as an outage or a pause
    /// lasts.
    pub(super) fn return_stalled(&mut self, now: Duration) {
        if !self.keeps_nothing() || self.queue.holds_nothing() || self.phase != Phase::Serving {
            return;
        }
        if self.ownership.is_paused() || self.destination.is_down(now) {
            for held in self.queue.take_all() {
                self.settle_later(now, held.delivery, Verdict::Returned, Duration::ZERO);
            }
        }
    }

    /// Whether nothing is ready, in flight, or on its way into the store.
    pub(super) fn holds_nothing(&self) -> bool {
        self.window.is_empty() && self.queue.is_empty() && self.settler.is_empty()
    }

    /// Takes in what a take brings.
    pub(super) fn taken(&mut self, taken: Taken) {
        let now = self.route.elapsed();
        let (take, others_idle) = match taken {
            Ok(taken) => taken,
            Err(error) => {
                self.ownership.fail_take();
                self.timing.look_failed(now);
                self.route.log_store_error("take", &error);
                self.health.take_failed(now, chain(&error));
                self.tell_health(now);
                return;
            }
        };
        self.route.store_answered();
        let free = self.ownership.confirm_take();
        self.window.give_back(free);
        if take.taken_over > 0 {
            self.route.observer.took_over(take.taken_over);
        }
        let found = !take.deliveries.is_empty();
        let jitter = self.rng.f64();
        self.timing.looked(now, found, take.more, take.next_due, jitter);
        // What is settled after this take may leave something to look for.
        if !found
            && !take.more
            && self.holds_nothing()
            && let Some(every) = self.timing.longest_pause()
            && self.route.source.watch(every)
        {
            self.timing.watched(now, take.next_due);
        }
        if self.drain.took(&take, others_idle) {
            self.timing.look_elsewhere(now);
        }
        if self.health.took(&take.ownership) {
            tracing::info!(
                store = self.route.store_name,
                route = self.route.name(),
                "standing by: another relay owns this route, or its lease has not ended"
            );
        }
        // Ownership first: nothing of a lost lane may be admitted.
        self.update_ownership(&take.ownership);
        for delivery in take.deliveries {
            self.admit(now, delivery);
        }
        let number = self.ownership.end_take();
        self.queue.taken(number);
        self.tell_health(now);
    }

    fn admit(&mut self, now: Duration, delivery: Delivery) {
        if self.phase != Phase::Serving || self.ownership.was_lost_during_take(delivery.lane) {
            // Left unsettled: whoever owns the lane next gets it.
            return;
        }
        if let Some(delivery) = self.queue.admit(delivery) {
            self.settle_later(now, delivery, Verdict::Returned, Duration::ZERO);
        }
    }

    /// Takes in what a renewal brings.
    pub(super) fn renewed(&mut self, since: Duration, lease: Result<Lease, StoreError>) {
        let now = self.route.elapsed();
        match lease {
            Ok(lease) => {
                self.route.store_answered();
                // Ownership first: a lease that had run out may have cost us lanes. A take on its way may have found
                // that out, so that the store has nothing new to say of it here.
                self.health.renewed(&lease.ownership);
                self.update_ownership(&lease.ownership);
                if self.timing.has_run_out(now, self.route.clock.now()) {
                    self.ownership.invalidate();
                }
                self.timing.renewed(since, lease.valid_for);
                if self.health.probe_is_wanted(lease.probe_asked) {
                    self.destination.probe_now(now);
                }
                self.tell_health(now);
            }
            Err(error) => {
                self.timing.renew_failed(now);
                self.route.log_store_error("renew", &error);
            }
        }
    }

    /// Takes in what the store says of our ownership.
    pub(super) fn update_ownership(&mut self, ownership: &Ownership) {
        self.route.log_lost_lanes(ownership);
        for lane in &ownership.lost {
            self.lose(*lane);
        }
        for lane in &ownership.recalled {
            self.give_up(*lane);
        }
        if self.ownership.update(ownership) {
            let (store, route, lanes) = (&self.route.store_name, self.route.name(), ownership.lanes);
            if self.route.is_store_away() {
                tracing::debug!(store, route, lanes, "lanes of the route owned by this relay");
            } else {
                tracing::info!(store, route, lanes, "lanes of the route owned by this relay");
            }
        }
    }

    /// Drops what is held of a lane that another relay owns, and makes what still comes back of it void.
    fn lose(&mut self, lane: LaneTerm) {
        if self.window.holds(lane) {
            self.ownership.revoke(lane);
        }
        self.ownership.lose(lane);
        let gone = self.settler.drop_lane(lane);
        self.give_back_in_doubt(gone.slots);
        for (settlement, delivery) in gone.settlements.iter().zip(&gone.deliveries) {
            if settlement.verdict != Verdict::Returned {
                self.queue.forget(delivery);
            }
            // What never reaches the store must not hold its key here for ever.
            if self.route.goes_back(&settlement.verdict) {
                self.queue.release(delivery, None);
            }
        }
        self.queue.take_lane(lane);
    }

    /// Returns what was not sent of a lane that should go to another relay; the rest comes to its end here.
    fn give_up(&mut self, lane: LaneTerm) {
        let now = self.route.elapsed();
        for held in self.queue.take_lane(lane) {
            self.settle_later(now, held.delivery, Verdict::Returned, Duration::ZERO);
        }
    }

    /// Works out how the route is doing, and tells when that changed.
    pub(super) fn tell_health(&mut self, now: Duration) {
        // What goes back at the end is no outage.
        if matches!(self.phase, Phase::Stopping { .. }) {
            return;
        }
        let paused = self.ownership.is_paused();
        let before = self.health.state();
        let wall = self.route.clock.now();
        let Some(health) = self.health.update(now, wall, paused, &mut self.destination) else { return };
        let (store, route) = (&self.route.store_name, self.route.name());
        match health.state {
            // Only the time of the next attempt is another one.
            state if state == before => {}
            // The store's outage is told once, not once for each of its routes.
            state if self.route.is_store_away() && [before, state].contains(&RouteState::Down) => {
                tracing::debug!(store, route, state = state.as_str(), reason = health.message, "state of the route");
            }
            RouteState::Running => tracing::info!(store, route, "route is running"),
            state => {
                tracing::warn!(store, route, state = state.as_str(), reason = health.message, "route is not running");
            }
        }
        self.route.observer.health(health);
        self.timing.renew_soon();
    }
}
