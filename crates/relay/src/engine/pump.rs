//! What goes out: how much may be handed over now, and which.

use std::time::Duration;

use postroom_core::{Outbound, Phase as BreakerPhase};

use super::probes::{key_hash, while_slow};
use super::{Engine, Flight, Line, Phase};

/// Most deliveries handed over in one call.
const BATCH_MAX: usize = 1024;
/// Those that may well fail get so much of what may be in flight while others wait, or while they do fail.
const DOUBTFUL_SHARE: usize = 4;

impl Engine {
    /// How many may be handed over now, as far as pauses, lease, breaker, pace and transport are concerned.
    pub(super) fn may_send(&mut self, now: Duration) -> usize {
        let leased = self.timing.lease_holds(now, self.clock.now());
        // What is sent while the store fails may belong to lanes that are lost already: it would only come twice.
        let stopped = self.phase != Phase::Serving || self.standing.paused || !leased || self.doubts.is_raised();
        if stopped || self.starved || self.ready.is_empty() || (self.wire_doubtful && !self.flights.is_empty()) {
            return 0;
        }
        let width = self.capabilities.in_flight_max.unwrap_or(usize::MAX).saturating_sub(self.flights.len());
        // What was sent before the outage does not stand in the way of the probe.
        let window = self.breaker.window(now).saturating_sub(self.current_flights);
        let pace = self.pace.room(now, self.in_flight_max(), self.slow_flights);
        window.min(pace).min(width).min(BATCH_MAX)
    }

    /// How many deliveries of this route could be in flight.
    fn in_flight_max(&self) -> usize {
        self.capabilities.in_flight_max.unwrap_or(usize::MAX).min(self.share.reachable())
    }

    /// The next batch for the transport, if anything may go. Each takes a slot; the lease is checked right here.
    pub(super) fn pump(&mut self, now: Duration) -> Option<Vec<Outbound>> {
        let room = self.may_send(now);
        if room == 0 {
            return None;
        }
        if std::mem::take(&mut self.wire_doubtful) {
            self.round += 1;
        }
        let mut batch = Vec::with_capacity(room.min(self.ready.len()));
        if self.breaker.phase(now) == BreakerPhase::HalfOpen {
            for order in self.probed.after_outage(self.ready.values(), room) {
                if !self.hand_over(now, order, Line::Plain, &mut batch) {
                    break;
                }
            }
            for probe in &batch {
                self.probed.note(key_hash(&probe.event));
            }
            self.tell_health(now);
        } else if self.pace.is_slow() {
            for (order, tried) in while_slow(self.ready.values(), &self.pace, room) {
                // What was tried before leaves room for what was not, which may be the first to succeed.
                if tried && self.is_doubtful_full() {
                    continue;
                }
                let line = if tried { Line::Doubtful } else { Line::Slow };
                if !self.hand_over(now, order, line, &mut batch) {
                    break;
                }
            }
            if !batch.is_empty() {
                self.pace.sent(now);
            }
        } else {
            let wary = self.pace.is_wary(now);
            if !wary {
                self.ready.forget_ages();
            }
            while batch.len() < room {
                let Some((order, line)) = self.next_ready(wary) else { break };
                if !self.hand_over(now, order, line, &mut batch) {
                    break;
                }
                self.turn += 1;
            }
        }
        (!batch.is_empty()).then_some(batch)
    }

    /// Chooses what goes next. Fresh deliveries and those on their way again take turns; while many are refused so do the old
    /// and the new end of the fresh ones.
    fn next_ready(&mut self, wary: bool) -> Option<(u64, Line)> {
        let (oldest, again) = (self.ready.oldest_fresh(), self.ready.oldest_again());
        if self.ready.is_one_line() {
            return oldest.map(|order| (order, Line::Plain));
        }
        let (turn, plain) = if wary {
            let turns = [again, oldest, None, None];
            (turns[self.turn % turns.len()], self.ready.newest_fresh(|kind| self.pace.is_doubtful(kind)))
        } else {
            ([again, None][self.turn % 2], oldest)
        };
        let full = self.is_doubtful_full();
        let doubtful = |order: Option<u64>| order.filter(|_| !full).map(|order| (order, Line::Doubtful));
        doubtful(turn).or_else(|| plain.map(|order| (order, Line::Plain))).or_else(|| doubtful(again))
    }

    /// Whether those that may well fail have their share: what fails slowly must leave places to the others.
    pub(super) fn is_doubtful_full(&self) -> bool {
        let contested = self.ready.fresh() > 0 || self.pace.again_fails();
        contested && self.doubtful_flights >= (self.in_flight_max() / DOUBTFUL_SHARE).max(1)
    }

    /// Moves one ready delivery into the batch; false when there is no slot or no token for it.
    fn hand_over(&mut self, now: Duration, order: u64, line: Line, batch: &mut Vec<Outbound>) -> bool {
        if !self.share.take() {
            self.starved = true;
            return false;
        }
        if self.bucket.as_mut().is_some_and(|bucket| !bucket.take(now)) {
            self.share.give_back(1);
            return false;
        }
        let Some(held) = self.ready.remove(order) else {
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
        outbound.round = self.round;
        batch.push(outbound);
        self.flights.insert(ticket, Flight { held, since: now, epoch: self.epoch, line });
        self.current_flights += 1;
        self.doubtful_flights += usize::from(line == Line::Doubtful);
        self.slow_flights += usize::from(line == Line::Slow);
        true
    }
}
