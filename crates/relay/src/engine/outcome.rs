//! What comes back from the transport, and what has reached the store.

use std::sync::Arc;
use std::time::Duration;

use postroom_core::{
    DeadLetterCause, Delivery, Failure, FailureKind, Outcome, Ownership, RetryPolicy, StoreError, Verdict, verdict,
};

use super::destination::Sent;
use super::keys::PendingDelivery;
use super::settler::{Batch, Urgency};
use super::window::Flight;
use super::{Engine, Phase};

impl Engine {
    /// Takes in what the transport reports of a delivery.
    pub(super) fn outcome(&mut self, now: Duration, ticket: u64, outcome: Outcome) {
        let Some(Flight { mut held, since, epoch, .. }) = self.window.land(ticket) else { return };
        let sent = Sent { at: since, is_current: self.destination.returned(epoch) };
        if self.ownership.is_revoked(held.delivery.lane) {
            self.void_outcome(&held);
            return;
        }
        let took = now.saturating_sub(since);
        self.route.observer.tried(&held.delivery, &outcome, took);
        let outcome = match outcome {
            Err(failure) if failure.kind.is_outage() => {
                if failure.kind == FailureKind::Gone && !self.destination.is_poison(&held) {
                    self.route.disable(&failure);
                }
                if !self.destination.unanswered(now, &mut held, &failure, sent) {
                    self.send_again(now, held);
                    return;
                }
                Err(Failure { kind: FailureKind::Transient, ..failure })
            }
            known => {
                // What was never sent says nothing about the destination.
                if !held.is_unsent() {
                    self.destination.answered(now, &held, &known, sent);
                }
                known
            }
        };
        let Some(verdict) = self.judge(&mut held, outcome) else {
            self.send_again(now, held);
            return;
        };
        self.route.log_verdict(&held.delivery, &verdict, took);
        if self.route.keeps_key(&verdict) {
            // The failure first: what waits behind it must find it in the store.
            self.settle_later(now, held.delivery.clone(), verdict, took);
            for follower in self.queue.take_followers(&held) {
                self.settle_later(now, follower.delivery, Verdict::Returned, Duration::ZERO);
            }
        } else {
            self.queue.done(&held.delivery);
            self.settle_later(now, held.delivery, verdict, took);
        }
    }

    /// Decides what an outcome means for its delivery. A death has no verdict yet if the transport has a place for dead
    /// letters: the event goes there before the death is settled.
    fn judge(&mut self, held: &mut PendingDelivery, outcome: Outcome) -> Option<Verdict> {
        let random = self.rng.f64();
        let (delivery, retry) = (&held.delivery, &self.route.retry);
        if let Some(dead_letter) = held.dead_letter.take() {
            // The payload may be all that the place for dead letters does not take.
            if outcome.as_ref().is_err_and(|no| !no.kind.is_retried())
                && held.delivery.event.is_payload_worth_omitting()
            {
                held.delivery.event = Arc::new(held.delivery.event.omit_payload());
                held.dead_letter = Some(dead_letter);
                return None;
            }
            // A transient failure is logged as what it is: another try.
            if let Err(no) = &outcome
                && !no.kind.is_retried()
            {
                self.route.log_unpublished_dead_letter(delivery, dead_letter.attempts, no);
            }
            return Some(dead_letter_verdict(*dead_letter, outcome, delivery, retry, random));
        }
        match verdict(delivery.attempts, outcome, retry, random) {
            Verdict::Dead { attempts, failure, .. } if self.route.capabilities.takes_dead_letters => {
                let at = self.route.clock.now();
                held.dead_letter = Some(Box::new(DeadLetterCause { failure, attempts, at }));
                None
            }
            known => Some(known),
        }
    }

    /// Sends a delivery once more, before what came after it.
    fn send_again(&mut self, now: Duration, held: PendingDelivery) {
        self.window.give_back(1);
        if self.phase != Phase::Serving {
            return;
        }
        if let Some(held) = self.queue.send_again(held) {
            self.queue.done(&held.delivery);
            self.queue.forget(&held.delivery);
            self.settle_later(now, held.delivery, Verdict::Returned, Duration::ZERO);
        }
    }

    /// Gives back slots of deliveries that will come twice, as soon as no other lane may be lost.
    pub(super) fn give_back_in_doubt(&mut self, slots: usize) {
        let free = self.ownership.free_slots(slots);
        self.window.give_back(free);
    }

    /// Drops the outcome of a delivery whose lane was lost: another relay decides what becomes of it.
    fn void_outcome(&mut self, held: &PendingDelivery) {
        self.give_back_in_doubt(1);
        self.queue.forget(&held.delivery);
        self.queue.done(&held.delivery);
        let lane = held.delivery.lane;
        if !self.window.holds(lane) {
            self.ownership.forget_revoked(lane);
        }
    }

    /// Puts a verdict on its way into the store; nothing later of its key goes out before it is there, if it must not.
    pub(super) fn settle_later(&mut self, now: Duration, delivery: Delivery, verdict: Verdict, took: Duration) {
        if self.route.goes_back(&verdict) {
            self.queue.hold(&delivery);
        }
        self.settler.push(now, delivery, verdict, took);
    }

    /// Takes in the end of a settle: only now do its slots come back.
    pub(super) fn settled(&mut self, batch: Batch, result: Result<Ownership, StoreError>) {
        let now = self.route.elapsed();
        let ownership = match result {
            Ok(ownership) => ownership,
            Err(error) => {
                self.route.log_store_error("settle", &error);
                self.ownership.invalidate();
                self.settler.failed(now, batch);
                return;
            }
        };
        self.route.store_answered();
        self.settler.succeeded();
        if ownership.lost.is_empty() {
            self.window.give_back(batch.slots);
        } else {
            self.ownership.invalidate();
            self.give_back_in_doubt(batch.slots);
        }
        let delivered = batch
            .settlements
            .iter()
            .filter(|one| matches!(one.verdict, Verdict::Delivered(_)) && !ownership.lost.contains(&one.lane));
        if self.health.delivered(now, delivered.count()) {
            self.timing.renew_within_seconds();
        }
        let running_take = self.ownership.running_take();
        for (settlement, delivery) in batch.settlements.iter().zip(&batch.deliveries) {
            if settlement.verdict != Verdict::Returned {
                self.queue.forget(delivery);
            }
            if self.route.goes_back(&settlement.verdict) {
                self.queue.release(delivery, running_take);
            }
            if !ownership.lost.contains(&settlement.lane) {
                self.route.observer.settled(delivery, &settlement.verdict);
            }
        }
        self.drain.settled();
        self.update_ownership(&ownership);
        self.tell_health(now);
    }

    /// Whether somebody waits for the next settle.
    pub(super) fn urgency(&self) -> Urgency {
        let drained = self.drain.is_last_settle() && self.window.is_empty() && self.queue.is_empty();
        if drained || self.window.wants_settle() || matches!(self.phase, Phase::Stopping { .. }) {
            Urgency::Now
        } else {
            Urgency::Calm
        }
    }
}

/// Decides about a dead event once the transport has answered its dead letter.
fn dead_letter_verdict(
    cause: DeadLetterCause,
    outcome: Outcome,
    delivery: &Delivery,
    retry: &RetryPolicy,
    random: f64,
) -> Verdict {
    let DeadLetterCause { failure, attempts, .. } = cause;
    match outcome {
        Err(no) if no.kind.is_retried() => {
            // As if the last try had not been: it comes again, and with it the dead letter.
            let after = retry.delay(attempts, random).max(no.retry_after.unwrap_or_default());
            Verdict::Retry { attempts: delivery.attempts, after, failure: no }
        }
        Ok(_) => Verdict::Dead { attempts, failure, published: true },
        Err(_) => Verdict::Dead { attempts, failure, published: false },
    }
}
