//! What comes back from the transport, and what has reached the store.

use std::time::Duration;

use postroom_core::{
    Delivery, Failure, FailureKind, OnDead, OnFailure, Outcome, Standing, StoreError, Verdict, verdict,
};

use super::settler::Urgency;
use super::suspects::key_hash;
use super::{Batch, Engine, Flight, Held, Phase};

impl Engine {
    /// One delivery's outcome is known.
    pub(super) fn outcome(&mut self, now: Duration, ticket: u64, outcome: Outcome) {
        let Some(Flight { mut held, since }) = self.flights.remove(&ticket) else { return };
        if self.void.contains(&held.delivery.lane) {
            self.void_outcome(&held);
            return;
        }
        let outcome = match outcome {
            Err(failure) if failure.kind == FailureKind::Unavailable => {
                let Some(blamed) = self.suspects.outage(&mut held, &failure) else {
                    self.unavailable(now, held, &failure);
                    return;
                };
                Err(blamed)
            }
            known => known,
        };
        match &outcome {
            Ok(_) => {
                self.suspects.got_through();
                self.breaker.answered();
            }
            Err(failure) if failure.kind == FailureKind::Permanent => self.breaker.answered(),
            Err(failure) => {
                if self.breaker.failed(now, key_hash(&held.delivery)) {
                    self.outage = format!("{}: {}", failure.code, failure.error);
                }
            }
        }
        let verdict = verdict(held.delivery.attempts, outcome, &self.retry, self.rng.f64());
        self.log_verdict(&held.delivery, &verdict);
        if self.holds_key(&verdict) {
            self.hold_key(now, &held.delivery);
        } else {
            self.let_next_go(&held.delivery);
        }
        self.settler.tried(now, held.delivery, verdict, now.saturating_sub(since));
        self.tell_health(now);
    }

    /// The destination is down: the delivery is as good as never sent, and waits for the next probe.
    fn unavailable(&mut self, now: Duration, held: Held, failure: &Failure) {
        self.give_back(1);
        self.outage = format!("{}: {}", failure.code, failure.error);
        self.breaker.unavailable(now, failure.retry_after);
        if self.capabilities.pipelines_key {
            self.wire_doubtful = true;
        }
        if self.phase == Phase::Serving {
            if self.keys.is_failed(&held.delivery) {
                // An earlier one of its key failed by itself meanwhile.
                self.forget(&held.delivery);
                self.settler.returned(now, held.delivery);
            } else {
                self.ready.insert(held.order, held);
            }
        }
        self.tell_health(now);
    }

    /// Slots are free again.
    pub(super) fn give_back(&mut self, slots: usize) {
        self.share.give_back(slots);
        self.starved &= slots == 0;
    }

    /// A delivery of a lane we lost has come back: whatever came of it, another relay decides.
    fn void_outcome(&mut self, held: &Held) {
        self.give_back(1);
        self.forget(&held.delivery);
        self.let_next_go(&held.delivery);
        let lane = held.delivery.lane;
        if !self.flights.values().any(|flight| flight.held.delivery.lane == lane) {
            self.void.remove(&lane);
        }
    }

    /// Whether later events of the key wait from now on.
    fn holds_key(&self, verdict: &Verdict) -> bool {
        match verdict {
            Verdict::Retry { .. } => self.definition.on_failure == OnFailure::Block,
            Verdict::Dead { .. } => self.definition.on_dead == OnDead::Hold,
            Verdict::Delivered(_) | Verdict::Returned => false,
        }
    }

    fn hold_key(&mut self, now: Duration, delivery: &Delivery) {
        let mut behind = self.keys.fail(delivery);
        if self.capabilities.pipelines_key
            && let Some(key) = delivery.order_key()
        {
            let same = |held: &&Held| held.delivery.order_key() == Some(key);
            let orders: Vec<u64> = self.ready.values().filter(same).map(|held| held.order).collect();
            behind.extend(orders.iter().filter_map(|order| self.ready.remove(order)));
        }
        for held in behind {
            self.forget(&held.delivery);
            self.settler.returned(now, held.delivery);
        }
    }

    fn let_next_go(&mut self, delivery: &Delivery) {
        if self.capabilities.pipelines_key {
            return;
        }
        if let Some(next) = self.keys.done(delivery)
            && self.phase == Phase::Serving
        {
            self.ready.insert(next.order, next);
        }
    }

    /// A settle ended: only now do its slots come back.
    pub(super) fn settled(&mut self, batch: Batch, result: Result<Standing, StoreError>) {
        let now = self.clock.elapsed();
        let standing = match result {
            Ok(standing) => standing,
            Err(error) => {
                self.store_error("settle", &error);
                self.settler.failed(now, batch);
                return;
            }
        };
        self.settler.succeeded();
        self.give_back(batch.slots);
        let take = self.take_running.then_some(self.takes);
        for (settlement, delivery) in batch.settlements.iter().zip(&batch.deliveries) {
            if settlement.verdict != Verdict::Returned {
                self.forget(delivery);
            }
            if self.holds_key(&settlement.verdict) {
                self.keys.settled(delivery, take);
            }
            if !standing.lost.contains(&settlement.lane) {
                self.observer.settled(&self.store_name, &self.definition.name, delivery, &settlement.verdict);
            }
        }
        self.exhausted = false;
        self.stand(standing);
        self.tell_health(now);
    }

    /// Whether somebody waits for the next settle.
    pub(super) fn urgency(&self) -> Urgency {
        let drained = self.options.drain && self.flights.is_empty() && self.ready.is_empty();
        if drained || matches!(self.phase, Phase::Stopping { .. }) {
            Urgency::Now
        } else if self.pressed || self.starved {
            Urgency::Pressed
        } else {
            Urgency::Calm
        }
    }

    fn log_verdict(&self, delivery: &Delivery, verdict: &Verdict) {
        let event = &delivery.event;
        match verdict {
            Verdict::Retry { attempts, after, failure } => tracing::info!(
                store = self.store_name,
                route = self.definition.name,
                event_id = event.id,
                event_type = event.event_type,
                tenant = event.tenant,
                attempt = attempts,
                code = %failure.code,
                retry_in_ms = u64::try_from(after.as_millis()).unwrap_or(u64::MAX),
                "delivery failed and will be tried again"
            ),
            Verdict::Dead { attempts, failure } => tracing::warn!(
                store = self.store_name,
                route = self.definition.name,
                event_id = event.id,
                event_type = event.event_type,
                tenant = event.tenant,
                attempt = attempts,
                code = %failure.code,
                "delivery failed for good: dead letter"
            ),
            Verdict::Delivered(_) | Verdict::Returned => {}
        }
    }
}
