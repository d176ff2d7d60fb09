//! What comes back from the transport, and what has reached the store.

use std::time::Duration;

use postroom_core::{
    Actor, Burial, Delivery, Failure, FailureKind, OnDead, OnFailure, Outcome, Phase as BreakerPhase, RetryPolicy,
    Standing, StoreError, Verdict, disabled_by, verdict,
};

use super::probes::{key_hash, kind_hash};
use super::settler::Urgency;
use super::{Batch, Engine, Flight, Held, Line, Phase};

/// A delivery that is not answered while one that was sent so much later gets through is not the destination's fault.
const OVERTAKEN: Duration = Duration::from_secs(1);

impl Engine {
    /// One delivery's outcome is known.
    pub(super) fn outcome(&mut self, now: Duration, ticket: u64, outcome: Outcome) {
        let Some(Flight { mut held, since, epoch, line }) = self.flights.remove(&ticket) else { return };
        // An answer from before an outage says nothing about the destination now.
        let current = epoch == self.epoch;
        self.current_flights -= usize::from(current);
        self.doubtful_flights -= usize::from(line == Line::Doubtful);
        self.slow_flights -= usize::from(line == Line::Slow);
        if self.void.contains(&held.delivery.lane) {
            self.void_outcome(&held);
            return;
        }
        self.observer.tried(&held.delivery, &outcome, now.saturating_sub(since));
        let outcome = match outcome {
            Err(failure) if failure.kind == FailureKind::Unavailable => {
                self.wire_doubtful |= self.capabilities.pipelines_key;
                if !self.suspects.is_blamed(&held) {
                    self.not_answered(now, &mut held, &failure, since, current);
                }
                if !self.suspects.is_blamed(&held) {
                    self.unavailable(now, held);
                    return;
                }
                self.refused(now, &held, &failure);
                Err(Failure { kind: FailureKind::Transient, ..failure })
            }
            known => {
                self.answered(now, &held, &known, since, current);
                known
            }
        };
        let verdict = match held.burial.take() {
            Some(burial) => {
                // A transient one is logged as what it is: another try.
                if let Err(no) = &outcome
                    && no.kind != FailureKind::Transient
                {
                    self.log_unburied(&held.delivery, burial.attempts, no);
                }
                buried(*burial, outcome, &held.delivery, &self.retry, self.rng.f64())
            }
            None => match verdict(held.delivery.attempts, outcome, &self.retry, self.rng.f64()) {
                Verdict::Dead { attempts, failure } if self.capabilities.buries => {
                    // There is a place for such: it goes there before the death is settled.
                    held.burial = Some(Box::new(Burial { failure, attempts, at: self.clock.now() }));
                    self.send_again(now, held);
                    return;
                }
                other => other,
            },
        };
        self.log_verdict(&held.delivery, &verdict);
        let took = now.saturating_sub(since);
        if self.keeps_key(&verdict) {
            // The failure first: what waits behind it must find it in the store.
            self.settle_later(now, held.delivery.clone(), verdict, took);
            self.return_followers(now, &held);
        } else {
            self.let_next_go(&held.delivery);
            self.settle_later(now, held.delivery, verdict, took);
        }
    }

    /// The receiver is gone for good: the route is paused in the store, for every relay, until an operator resumes it.
    fn disable(&self, failure: &Failure) {
        let (desk, route) = (self.store.desk(), self.definition.name.clone());
        let store = self.store_name.clone();
        let actor = Actor { name: disabled_by(failure), reason: None };
        // Beside the work: until it is done, and if it fails, the breaker waits and the next probe comes here again.
        tokio::spawn(async move {
            if let Err(error) = desk.pause(&route, &actor).await {
                tracing::warn!(store, route, %error, "the route could not be disabled, trying again");
            }
        });
    }

    /// The destination answered: what that says about it, and about others.
    fn answered(&mut self, now: Duration, held: &Held, outcome: &Outcome, since: Duration, current: bool) {
        match outcome {
            Ok(_) => {
                self.suspects.got_through();
                self.probed.forget();
                self.through_sent = self.through_sent.max(Some(since));
                if current {
                    self.breaker.succeeded();
                }
                // A dead letter that is published is no success of its event.
                if held.burial.is_none() {
                    self.pace.succeeded(now, kind_hash(&held.delivery.event), held.delivery.attempts > 0);
                }
            }
            // It came too early, which says nothing about other events.
            Err(failure) if failure.waits => {
                if current {
                    self.breaker.answered();
                }
            }
            Err(failure) => {
                let probing = self.breaker.phase(now) == BreakerPhase::HalfOpen;
                if current && self.breaker.refused(now, self.current_flights) {
                    self.opened(failure, probing);
                }
                if !self.breaker.counts_all() {
                    self.refused(now, held, failure);
                }
            }
        }
    }

    /// A delivery was refused, which is nobody else's fault unless nothing succeeds any more.
    fn refused(&mut self, now: Duration, held: &Held, failure: &Failure) {
        self.pace.refused(now, key_hash(&held.delivery.event), kind_hash(&held.delivery.event));
        self.refusal = format!("{}: {}", failure.code, failure.error);
    }

    /// The destination did not answer this one. If it answered another that was sent well after it, that is this one's own
    /// fault; otherwise the destination is down.
    fn not_answered(&mut self, now: Duration, held: &mut Held, failure: &Failure, since: Duration, current: bool) {
        let is_wish = failure.disables || failure.retry_after.is_some();
        if !is_wish && self.through_sent.is_some_and(|sent| sent >= since + OVERTAKEN) {
            self.suspects.alone(held);
            self.refused(now, held, failure);
            return;
        }
        if current {
            let probing = self.breaker.phase(now) == BreakerPhase::HalfOpen;
            if self.breaker.unavailable(now, failure.retry_after, self.current_flights) {
                self.opened(failure, probing);
            }
        }
        if failure.disables {
            self.disable(failure);
        }
        self.suspects.outage(held, self.outages);
    }

    /// The breaker opened; a failed probe is the same outage going on.
    fn opened(&mut self, failure: &Failure, probing: bool) {
        self.outage = format!("{}: {}", failure.code, failure.error);
        self.epoch += 1;
        self.current_flights = 0;
        self.outages += u64::from(!probing);
    }

    /// The delivery is as good as never sent, and waits until the destination is back.
    fn unavailable(&mut self, now: Duration, held: Held) {
        self.send_again(now, held);
    }

    /// The delivery goes out once more, before what came after it.
    fn send_again(&mut self, now: Duration, held: Held) {
        self.give_back(1);
        if self.phase == Phase::Serving {
            if self.keys.is_held(&held.delivery) {
                // Something of its key goes back meanwhile: so does this one.
                self.let_next_go(&held.delivery);
                self.forget(&held.delivery);
                self.settle_later(now, held.delivery, Verdict::Returned, Duration::ZERO);
            } else {
                self.ready.insert(held);
            }
        }
    }

    /// Slots are free again.
    pub(super) fn give_back(&mut self, slots: usize) {
        self.share.give_back(slots);
        self.starved &= slots == 0;
    }

    /// Slots of deliveries that will come twice: free only when there is no doubt about other lanes.
    pub(super) fn owe(&mut self, slots: usize) {
        if self.doubts.is_raised() {
            self.owed += slots;
        } else {
            self.give_back(slots);
        }
    }

    /// A delivery of a lane we lost has come back: whatever came of it, another relay decides.
    fn void_outcome(&mut self, held: &Held) {
        self.owe(1);
        self.forget(&held.delivery);
        self.let_next_go(&held.delivery);
        let lane = held.delivery.lane;
        if !self.flights.values().any(|flight| flight.held.delivery.lane == lane) {
            self.void.remove(&lane);
        }
    }

    /// Puts a verdict on its way into the store; nothing later of its key goes out before it is there, if it must not.
    pub(super) fn settle_later(&mut self, now: Duration, delivery: Delivery, verdict: Verdict, took: Duration) {
        if self.goes_back(&verdict) {
            self.keys.hold(&delivery);
        }
        self.settler.push(now, delivery, verdict, took);
    }

    /// Whether later events of the key must wait until this is in the store.
    pub(super) fn goes_back(&self, verdict: &Verdict) -> bool {
        *verdict == Verdict::Returned || self.keeps_key(verdict)
    }

    /// Whether later events of the key must not go on at once. A death must be in the store first: otherwise a crash
    /// brings the event back after those behind it.
    fn keeps_key(&self, verdict: &Verdict) -> bool {
        match verdict {
            Verdict::Retry { .. } => self.definition.on_failure == OnFailure::Block,
            Verdict::Dead { .. } => {
                self.definition.on_failure == OnFailure::Block || self.definition.on_dead == OnDead::Hold
            }
            Verdict::Delivered(_) | Verdict::Returned => false,
        }
    }

    fn return_followers(&mut self, now: Duration, failed: &Held) {
        let mut behind = self.keys.fail(&failed.delivery);
        if self.capabilities.pipelines_key
            && let Some(key) = failed.delivery.order_key()
        {
            let later = self.ready.after(failed.order);
            let orders: Vec<u64> =
                later.filter(|held| held.delivery.order_key() == Some(key)).map(|held| held.order).collect();
            behind.extend(orders.iter().filter_map(|order| self.ready.remove(*order)));
        }
        for held in behind {
            self.forget(&held.delivery);
            self.settle_later(now, held.delivery, Verdict::Returned, Duration::ZERO);
        }
    }

    fn let_next_go(&mut self, delivery: &Delivery) {
        if self.capabilities.pipelines_key {
            return;
        }
        if let Some(next) = self.keys.done(delivery)
            && self.phase == Phase::Serving
        {
            self.ready.insert(next);
        }
    }

    /// A settle ended: only now do its slots come back.
    pub(super) fn settled(&mut self, batch: Batch, result: Result<Standing, StoreError>) {
        let now = self.clock.elapsed();
        let standing = match result {
            Ok(standing) => standing,
            Err(error) => {
                self.store_error("settle", &error);
                self.doubts.raise();
                self.settler.failed(now, batch);
                return;
            }
        };
        self.settler.succeeded();
        if standing.lost.is_empty() {
            self.give_back(batch.slots);
        } else {
            self.doubts.raise();
            self.owe(batch.slots);
        }
        let take = self.take_running.then_some(self.takes);
        for (settlement, delivery) in batch.settlements.iter().zip(&batch.deliveries) {
            if settlement.verdict != Verdict::Returned {
                self.forget(delivery);
            }
            if self.goes_back(&settlement.verdict) {
                self.keys.release(delivery, take);
            }
            if !standing.lost.contains(&settlement.lane) {
                self.observer.settled(delivery, &settlement.verdict);
            }
        }
        self.exhausted = false;
        self.settles += 1;
        self.stand(standing);
        self.tell_health(now);
    }

    /// Whether somebody waits for the next settle.
    pub(super) fn urgency(&self) -> Urgency {
        let drained = self.options.drain && !self.more && self.flights.is_empty() && self.ready.is_empty();
        if drained || self.pressed || self.starved || matches!(self.phase, Phase::Stopping { .. }) {
            Urgency::Now
        } else {
            Urgency::Calm
        }
    }

    fn log_unburied(&self, delivery: &Delivery, attempts: u32, no: &Failure) {
        tracing::warn!(
            store = self.store_name,
            route = self.definition.name,
            event_id = delivery.event.id,
            event_type = delivery.event.event_type,
            tenant = delivery.event.tenant,
            attempt = attempts,
            code = %no.code,
            "a dead letter could not be buried"
        );
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

/// What becomes of a dead event once its burial has an outcome.
fn buried(burial: Burial, outcome: Outcome, delivery: &Delivery, retry: &RetryPolicy, random: f64) -> Verdict {
    let Burial { failure, attempts, .. } = burial;
    match outcome {
        Err(no) if no.kind == FailureKind::Transient => {
            // As if the last try had not been: it comes again, and with it the burial.
            let after = retry.delay(attempts, random).max(no.retry_after.unwrap_or_default());
            Verdict::Retry { attempts: delivery.attempts, after, failure: no }
        }
        Ok(_) | Err(_) => Verdict::Dead { attempts, failure },
    }
}
