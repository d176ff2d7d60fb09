//! What goes out: how much may be sent now, and which.

use std::time::Duration;

use postroom_core::{Outbound, Phase as BreakerPhase};

use super::window::{Flight, Line};
use super::{Engine, Phase};

/// Most deliveries handed over in one call.
const BATCH_MAX: usize = 1024;

impl Engine {
    /// How many may be sent now, as far as pauses, lease, breaker, pace and transport are concerned.
    pub(super) fn may_send(&mut self, now: Duration) -> usize {
        let leased = self.timing.lease_holds(now, self.route.clock.now());
        // What is sent while the store fails may belong to lanes that are lost already: it would only come twice.
        let stopped = self.phase != Phase::Serving
            || self.ownership.is_paused()
            || !leased
            || self.ownership.is_uncertain()
            || (self.destination.is_wire_doubtful() && !self.window.is_empty());
        if stopped || self.window.is_out_of_slots() || self.queue.is_empty() {
            return 0;
        }
        let room = self.destination.room(now, self.window.in_flight_max(), self.window.slow_flights());
        room.min(self.window.room()).min(BATCH_MAX)
    }

    /// Makes the next batch for the transport, if anything may go. Each delivery takes a slot; the lease is checked
    /// here.
    pub(super) fn pump(&mut self, now: Duration) -> Option<Vec<Outbound>> {
        let room = self.may_send(now);
        if room == 0 {
            return None;
        }
        self.destination.begin_round();
        let mut batch = Vec::with_capacity(room.min(self.queue.len()));
        if self.destination.phase(now) == BreakerPhase::HalfOpen {
            self.pump_probes(now, room, &mut batch);
        } else if self.destination.pace().is_slow() {
            self.pump_slowly(now, room, &mut batch);
        } else {
            self.pump_all(now, room, &mut batch);
        }
        (!batch.is_empty()).then_some(batch)
    }

    /// After an outage: a few, which find out whether it is over.
    fn pump_probes(&mut self, now: Duration, room: usize, batch: &mut Vec<Outbound>) {
        for order in self.destination.choose_probes(self.queue.ready(), room) {
            if !self.send(now, order, Line::Plain, batch) {
                break;
            }
        }
        for probe in batch.iter() {
            self.destination.probed(&probe.event);
        }
        self.tell_health(now);
    }

    /// While everything is refused: a few that differ, with pauses.
    fn pump_slowly(&mut self, now: Duration, room: usize, batch: &mut Vec<Outbound>) {
        for (order, tried) in self.destination.choose_while_slow(self.queue.ready(), room) {
            // What was tried before leaves room for what was not, which may be the first to succeed.
            if tried && self.is_doubtful_full() {
                continue;
            }
            let line = if tried { Line::Doubtful } else { Line::Slow };
            if !self.send(now, order, line, batch) {
                break;
            }
        }
        if !batch.is_empty() {
            self.destination.sent_while_slow(now);
        }
    }

    fn pump_all(&mut self, now: Duration, room: usize, batch: &mut Vec<Outbound>) {
        let is_wary = self.destination.pace().is_wary(now);
        if !is_wary {
            self.queue.forget_ages();
        }
        while batch.len() < room {
            let is_doubtful_full = self.is_doubtful_full();
            let next = self.queue.next(self.destination.pace(), is_wary, is_doubtful_full);
            let Some((order, line)) = next else { break };
            if !self.send(now, order, line, batch) {
                break;
            }
            self.queue.end_turn();
        }
    }

    /// Whether deliveries that may well fail must wait for each other: others wait too, or retries do fail.
    pub(super) fn is_doubtful_full(&self) -> bool {
        let contested = self.queue.fresh() > 0 || self.destination.pace().again_fails();
        contested && self.window.is_doubtful_full()
    }

    /// Moves a ready delivery into the batch; false when there is no slot or no token for it.
    fn send(&mut self, now: Duration, order: u64, line: Line, batch: &mut Vec<Outbound>) -> bool {
        if !self.window.take_slot() {
            return false;
        }
        let held = if self.destination.take_token(now) { self.queue.remove(order) } else { None };
        let Some(held) = held else {
            self.window.give_back(1);
            return false;
        };
        let refused = if held.is_unsent() { held.delivery.refused.clone() } else { None };
        let flight = Flight { held, since: now, epoch: self.destination.sent(), line };
        let outbound = self.window.send(flight, self.destination.round());
        match refused {
            Some(failure) => outbound.report(Err(*failure)),
            None => batch.push(outbound),
        }
        true
    }
}
