//! What the engine knows of its destination: whether it answers, what it refuses, and how much it may be sent.
//!
//! The breaker is for a destination that does not answer, [`Pace`] for one that answers and refuses, [`PoisonDetector`]
//! for an event that brings it down. Only deliveries sent since the breaker last opened tell the breaker anything: an
//! answer from before an outage says nothing about the destination now.

use std::time::Duration;

use postroom_core::{Breaker, BreakerPolicy, Event, Failure, FailureKind, Outcome, Phase, RouteState};

use super::bucket::Bucket;
use super::keys::PendingDelivery;
use super::pace::Pace;
use super::poison::PoisonDetector;
use super::probes::{Probed, key_hash, kind_hash, while_slow};

/// A delivery that is not answered while one that was sent so much later gets through is not the destination's fault.
const OVERTAKEN: Duration = Duration::from_secs(1);

/// A route's destination.
#[derive(Debug)]
pub(super) struct Destination {
    breaker: Breaker,
    pace: Pace,
    poison: PoisonDetector,
    probed: Probed,
    bucket: Option<Bucket>,
    // How often the breaker has opened; how many of those in flight were sent since.
    epoch: u64,
    current_flights: usize,
    // Outages so far; a failed probe belongs to the one going on.
    outages: u64,
    // When the latest of those that got through was sent.
    through_sent: Option<Duration>,
    // With a transport that pipelines keys: an outage must be over on the wire before anything is sent again.
    pipelines_key: bool,
    wire_doubtful: bool,
    // How often that was so.
    round: u64,
    // The last failure that opened the breaker, and the last refusal.
    outage: String,
    refusal: String,
}

/// When a delivery in flight was sent, and whether that was since the breaker last opened.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sent {
    pub(super) at: Duration,
    pub(super) is_current: bool,
}

impl Destination {
    pub(super) fn new(breaker: BreakerPolicy, rate: Option<f64>, pipelines_key: bool) -> Self {
        Self {
            breaker: Breaker::new(breaker),
            pace: Pace::default(),
            poison: PoisonDetector::default(),
            probed: Probed::default(),
            bucket: rate.map(Bucket::new),
            epoch: 0,
            current_flights: 0,
            outages: 0,
            through_sent: None,
            pipelines_key,
            wire_doubtful: false,
            round: 0,
            outage: String::new(),
            refusal: String::new(),
        }
    }

    pub(super) fn pace(&self) -> &Pace {
        &self.pace
    }

    pub(super) fn phase(&mut self, now: Duration) -> Phase {
        self.breaker.phase(now)
    }

    /// What the destination makes of the route's health, and why.
    pub(super) fn state(&mut self, now: Duration) -> (RouteState, &str) {
        self.pace.expire(now);
        match self.breaker.phase(now) {
            Phase::Closed | Phase::Ramp { .. } if self.pace.is_slow() => (RouteState::Slowed, &self.refusal),
            Phase::Closed | Phase::Ramp { .. } => (RouteState::Running, ""),
            Phase::Open { .. } => (RouteState::BreakerOpen, &self.outage),
            Phase::HalfOpen => (RouteState::HalfOpen, &self.outage),
        }
    }

    /// Whether nothing is sent because the destination does not answer.
    pub(super) fn is_down(&mut self, now: Duration) -> bool {
        matches!(self.breaker.phase(now), Phase::Open { .. })
    }

    /// When a destination that is down or refuses everything is tried again.
    pub(super) fn next_try(&mut self, now: Duration) -> Option<Duration> {
        match self.breaker.phase(now) {
            Phase::Open { until } => Some(until),
            _ => self.pace.next_round().filter(|round| *round > now),
        }
    }

    /// Tries a destination that is down at once, because an operator asks for it.
    pub(super) fn probe_now(&mut self, now: Duration) {
        self.breaker.probe_now(now);
    }

    /// How many may be sent now, beside `probes` that were sent while it was slow, where `most` could be in flight.
    pub(super) fn room(&mut self, now: Duration, most: usize, probes: usize) -> usize {
        // What was sent before the outage does not stand in the way of the probe.
        let window = self.breaker.window(now).saturating_sub(self.current_flights);
        window.min(self.pace.room(now, most, probes))
    }

    /// Whether everything in flight must be reported before anything is sent again.
    pub(super) fn is_wire_doubtful(&self) -> bool {
        self.wire_doubtful
    }

    /// Notes that something may be sent: what was doubtful on the wire is over.
    pub(super) fn begin_round(&mut self) {
        if std::mem::take(&mut self.wire_doubtful) {
            self.round += 1;
        }
    }

    /// The round that [`postroom_core::Outbound::round`] tells the transport.
    pub(super) fn round(&self) -> u64 {
        self.round
    }

    /// Takes a token of the route's rate, if there is one.
    pub(super) fn take_token(&mut self, now: Duration) -> bool {
        self.bucket.as_mut().is_none_or(|bucket| bucket.take(now))
    }

    /// When to ask for the next token, if the route has a rate.
    pub(super) fn next_token(&self) -> Option<Duration> {
        self.bucket.as_ref().map(Bucket::next)
    }

    /// Counts a delivery that is sent. Returns the epoch it belongs to.
    pub(super) fn sent(&mut self) -> u64 {
        self.current_flights += 1;
        self.epoch
    }

    /// Counts a delivery that came back. Returns whether it was sent since the breaker last opened.
    pub(super) fn returned(&mut self, epoch: u64) -> bool {
        let is_current = epoch == self.epoch;
        self.current_flights -= usize::from(is_current);
        is_current
    }

    /// Chooses what the destination is asked with after an outage.
    pub(super) fn choose_probes<'a>(&self, ready: impl Iterator<Item = &'a PendingDelivery>, room: usize) -> Vec<u64> {
        self.probed.after_outage(ready, room)
    }

    /// Notes that the destination is asked with this event.
    pub(super) fn probed(&mut self, event: &Event) {
        self.probed.note(key_hash(event));
    }

    /// Chooses what a destination that refuses everything is asked with. Says of each whether it was tried before.
    pub(super) fn choose_while_slow<'a>(
        &self,
        ready: impl Iterator<Item = &'a PendingDelivery>,
        room: usize,
    ) -> Vec<(u64, bool)> {
        while_slow(ready, &self.pace, room)
    }

    /// Notes that a round of probes was sent to a destination that refuses everything.
    pub(super) fn sent_while_slow(&mut self, now: Duration) {
        self.pace.sent(now);
    }

    /// Whether this event is known to bring the destination down.
    pub(super) fn is_poison(&self, held: &PendingDelivery) -> bool {
        self.poison.is_blamed(held)
    }

    /// Takes in an answer: a success, or a failure that is the event's own.
    pub(super) fn answered(&mut self, now: Duration, held: &PendingDelivery, outcome: &Outcome, sent: Sent) {
        match outcome {
            Ok(_) => {
                self.poison.got_through();
                self.probed.forget();
                self.through_sent = self.through_sent.max(Some(sent.at));
                if sent.is_current {
                    self.breaker.succeeded();
                }
                // A dead letter that is published is no success of its event.
                if held.dead_letter.is_none() {
                    self.pace.succeeded(now, kind_hash(&held.delivery.event), held.delivery.attempts > 0);
                }
            }
            // It came too early, which says nothing about other events.
            Err(failure) if failure.kind == FailureKind::NotYet => {
                if sent.is_current {
                    self.breaker.answered();
                }
            }
            Err(failure) => {
                let probing = self.breaker.phase(now) == Phase::HalfOpen;
                if sent.is_current && self.breaker.refused(now) {
                    self.opened(failure, probing);
                }
                if !self.breaker.counts_all() {
                    self.refused(now, held, failure);
                }
            }
        }
    }

    /// Takes in that the destination did not answer. Returns whether that is the event's own fault: otherwise the
    /// delivery is as good as never sent, and waits until the destination is back.
    pub(super) fn unanswered(
        &mut self,
        now: Duration,
        held: &mut PendingDelivery,
        failure: &Failure,
        sent: Sent,
    ) -> bool {
        self.wire_doubtful |= self.pipelines_key;
        if !self.poison.is_blamed(held) {
            self.suspect(now, held, failure, sent);
        }
        let is_poison = self.poison.is_blamed(held);
        if is_poison {
            self.refused(now, held, failure);
        }
        is_poison
    }

    /// Finds out who is to blame. If the destination answered a delivery that was sent well after this one, that is
    /// this one; otherwise the destination is down.
    fn suspect(&mut self, now: Duration, held: &mut PendingDelivery, failure: &Failure, sent: Sent) {
        let is_wish = failure.kind == FailureKind::Gone || failure.retry_after.is_some();
        if !is_wish && self.through_sent.is_some_and(|through| through >= sent.at + OVERTAKEN) {
            self.poison.alone(held);
            self.refused(now, held, failure);
            return;
        }
        if sent.is_current {
            let probing = self.breaker.phase(now) == Phase::HalfOpen;
            if self.breaker.unavailable(now, failure.retry_after, self.current_flights) {
                self.opened(failure, probing);
            }
        }
        self.poison.outage(held, self.outages);
    }

    /// Notes a refusal, which is no other event's fault unless nothing succeeds any more.
    fn refused(&mut self, now: Duration, held: &PendingDelivery, failure: &Failure) {
        self.pace.refused(now, key_hash(&held.delivery.event), kind_hash(&held.delivery.event));
        self.refusal = format!("{}: {}", failure.code, failure.error);
    }

    /// Begins an epoch, because the breaker opened; a failed probe is the same outage going on.
    fn opened(&mut self, failure: &Failure, probing: bool) {
        self.outage = format!("{}: {}", failure.code, failure.error);
        self.epoch += 1;
        self.current_flights = 0;
        self.outages += u64::from(!probing);
    }
}
