//! What goes out: how much may be handed over now, and which.

use std::time::Duration;

use postroom_core::{Outbound, Phase as BreakerPhase};

use super::suspects::key_hash;
use super::{Engine, Flight, Phase};

/// Most deliveries handed over in one call.
const BATCH_MAX: usize = 1024;

impl Engine {
    /// How many may be handed over now, as far as pauses, lease, breaker and transport are concerned.
    pub(super) fn may_send(&mut self, now: Duration) -> usize {
        let leased = self.timing.lease_holds(now, self.clock.now());
        // What is sent while the store fails may belong to lanes that are lost already: it would only come twice.
        let stopped = self.phase != Phase::Serving || self.standing.paused || !leased || self.doubts.is_raised();
        if stopped || self.starved || self.ready.is_empty() || (self.wire_doubtful && !self.flights.is_empty()) {
            return 0;
        }
        let width = self.capabilities.in_flight_max.unwrap_or(usize::MAX).saturating_sub(self.flights.len());
        // What was sent before the outage does not stand in the way of the probe.
        self.breaker.window(now).saturating_sub(self.current_flights).min(width).min(BATCH_MAX)
    }

    /// The next batch for the transport, if anything may go. Each takes a slot; the lease is checked right here.
    pub(super) fn pump(&mut self, now: Duration) -> Option<Vec<Outbound>> {
        let room = self.may_send(now);
        if room == 0 {
            return None;
        }
        self.wire_doubtful = false;
        let mut batch = Vec::with_capacity(room.min(self.ready.len()));
        if self.breaker.phase(now) == BreakerPhase::HalfOpen {
            let probe = self.suspects.probe(self.ready.values())?;
            let (order, key) = (probe.order, key_hash(&probe.delivery));
            if self.hand_over(now, order, &mut batch) {
                self.suspects.probed(key);
            }
            self.tell_health(now);
        } else {
            while batch.len() < room {
                let Some((&order, _)) = self.ready.first_key_value() else { break };
                if !self.hand_over(now, order, &mut batch) {
                    break;
                }
            }
        }
        (!batch.is_empty()).then_some(batch)
    }

    /// Moves one ready delivery into the batch; false when there is no slot or no token for it.
    fn hand_over(&mut self, now: Duration, order: u64, batch: &mut Vec<Outbound>) -> bool {
        if !self.share.take() {
            self.starved = true;
            return false;
        }
        if self.bucket.as_mut().is_some_and(|bucket| !bucket.take(now)) {
            self.share.give_back(1);
            return false;
        }
        let Some(held) = self.ready.remove(&order) else {
            self.share.give_back(1);
            return false;
        };
        let ticket = self.next_ticket;
        self.next_ticket += 1;
        let delivery = &held.delivery;
        let attempt = delivery.attempts.saturating_add(1);
        let report = self.report.clone();
        let mut outbound = Outbound::new(ticket, attempt, delivery.event.clone(), delivery.position, report);
        outbound.burial.clone_from(&held.burial);
        batch.push(outbound);
        self.flights.insert(ticket, Flight { held, since: now, epoch: self.epoch });
        self.current_flights += 1;
        true
    }
}
