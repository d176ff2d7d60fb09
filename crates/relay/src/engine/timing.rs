//! When the engine looks, renews and wakes.

use std::time::Duration;

use postroom_core::{Phase as BreakerPhase, Timestamp};

use super::{Engine, Ongoing, Phase};
use crate::options::{Poll, RelayOptions};

/// First and longest pause after a store error.
const ERROR_PAUSE: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));
/// Between two looks when a drain waits for what it cannot take: another relay's, or a retry.
const ELSEWHERE_PAUSE: Duration = Duration::from_millis(100);
/// Between two looks while the source looks by itself.
const WATCHED_PAUSE: Duration = Duration::from_secs(5);
/// A first delivery is told within this time.
const RATE_RENEW_PAUSE: Duration = Duration::from_secs(2);
/// A change of health is told at once, but not more often than this.
const RENEW_PAUSE_MIN: Duration = Duration::from_millis(200);

/// The times at which the engine takes and renews, and until when its lease holds.
#[derive(Debug)]
pub(super) struct Timing {
    poll: Poll,
    lease: Duration,
    look_at: Duration,
    look_pause: Duration,
    error_pause: Duration,
    renew_at: Duration,
    renewed_at: Option<Duration>,
    lease_until: Duration,
    // The same by wall time: a machine that slept does not count that time otherwise.
    lease_until_wall: Timestamp,
    renewed_at_wall: Timestamp,
}

impl Timing {
    pub(super) fn new(options: &RelayOptions, poll: Poll) -> Self {
        Self {
            poll: Poll { max: poll.max.max(poll.min), ..poll },
            lease: options.lease,
            look_at: Duration::ZERO,
            look_pause: poll.min,
            error_pause: ERROR_PAUSE.0,
            renew_at: Duration::ZERO,
            renewed_at: None,
            lease_until: Duration::ZERO,
            lease_until_wall: Timestamp::MAX,
            renewed_at_wall: Timestamp::MIN,
        }
    }

    /// Whether it is time for a take; the first renewal comes before it.
    pub(super) fn look_is_due(&self, now: Duration) -> bool {
        self.has_renewed() && now >= self.look_at
    }

    fn has_renewed(&self) -> bool {
        self.lease_until > Duration::ZERO
    }

    /// Makes a take due at once, because a hint came.
    pub(super) fn look_now(&mut self) {
        self.look_at = Duration::ZERO;
        self.look_pause = self.poll.min;
    }

    /// Notes that a take ended; it `found` something, `more` may be there, `next_due` is known to come.
    pub(super) fn looked(&mut self, now: Duration, found: bool, more: bool, next_due: Option<Duration>, jitter: f64) {
        self.error_pause = ERROR_PAUSE.0;
        self.look_pause = if found { self.poll.min } else { (self.look_pause * 2).clamp(self.poll.min, self.poll.max) };
        let pause =
            self.look_pause.mul_f64(1.0 - 0.2 * jitter).min(next_due.unwrap_or(Duration::MAX).max(self.poll.min));
        self.look_at = if more { now } else { now + pause };
    }

    /// The pause between two looks, if nothing was found for so long that it has become as long as it gets.
    pub(super) fn longest_pause(&self) -> Option<Duration> {
        (self.look_pause >= self.poll.max).then_some(self.poll.max)
    }

    /// Makes the next take due late, because the source looks by itself.
    pub(super) fn watched(&mut self, now: Duration, next_due: Option<Duration>) {
        self.look_at = now + WATCHED_PAUSE.max(self.poll.max).min(next_due.unwrap_or(Duration::MAX).max(self.poll.min));
    }

    /// Makes the next take due after a pause, because one failed.
    pub(super) fn look_failed(&mut self, now: Duration) {
        self.look_at = now + self.error_pause;
        self.error_pause = (self.error_pause * 2).min(ERROR_PAUSE.1);
    }

    /// Makes the next take due soon, because a drain waits for what it cannot take.
    pub(super) fn look_elsewhere(&mut self, now: Duration) {
        self.look_at = now + ELSEWHERE_PAUSE;
    }

    /// Whether the lease holds, by both clocks; local time can only make us stop earlier.
    pub(super) fn lease_holds(&self, now: Duration, wall: Timestamp) -> bool {
        now < self.lease_until && wall < self.lease_until_wall
    }

    /// Whether there was a lease and it is over.
    pub(super) fn has_run_out(&self, now: Duration, wall: Timestamp) -> bool {
        self.has_renewed() && !self.lease_holds(now, wall)
    }

    pub(super) fn renew_is_due(&self, now: Duration, wall: Timestamp) -> bool {
        let slept = wall >= self.lease_until_wall && self.renewed_at.is_some_and(|at| now >= at + RENEW_PAUSE_MIN);
        now >= self.renew_at || slept
    }

    /// Notes that a renewal starts. The next one comes after a third of the lease, or after this pause.
    pub(super) fn renewing(&mut self, now: Duration, wall: Timestamp, pause: Duration) {
        self.renewed_at_wall = wall;
        self.renewed_at = Some(now);
        self.renew_at = now + pause.min(self.lease / 3);
    }

    /// Notes that the lease holds for `valid_for` from `since`; we stop a tenth of it earlier.
    pub(super) fn renewed(&mut self, since: Duration, valid_for: Duration) {
        let safe = valid_for.mul_f64(0.9);
        self.lease_until = since + safe;
        self.lease_until_wall = self.renewed_at_wall.checked_add(safe).unwrap_or(Timestamp::MAX);
    }

    /// Makes the next renewal due soon, because one failed.
    pub(super) fn renew_failed(&mut self, now: Duration) {
        self.renew_at = now + (self.lease / 10).min(Duration::from_secs(1));
    }

    /// Makes the next renewal due in two seconds at the latest, because the route began to deliver.
    pub(super) fn renew_within_seconds(&mut self) {
        if let Some(at) = self.renewed_at {
            self.renew_at = self.renew_at.min(at + RATE_RENEW_PAUSE);
        }
    }

    /// Makes the next renewal due soon, because the route's health changed.
    pub(super) fn renew_soon(&mut self) {
        if let Some(at) = self.renewed_at {
            self.renew_at = self.renew_at.min(at + RENEW_PAUSE_MIN);
        }
    }
}

impl Engine {
    /// When something is to be done at the latest, if nothing happens before. What is running reports by itself.
    pub(super) fn next_deadline(&mut self, now: Duration, running: Ongoing) -> Duration {
        let mut next = Duration::MAX;
        if !running.renew {
            next = next.min(self.timing.renew_at);
        }
        if !running.settle
            && let Some(at) = self.settler.next(self.urgency())
        {
            next = next.min(at);
        }
        if let Phase::Stopping { until } = self.phase {
            return next.min(until);
        }
        if !running.take && self.timing.has_renewed() && self.has_room(now) {
            next = next.min(self.timing.look_at);
        }
        if let BreakerPhase::Open { until } = self.destination.phase(now) {
            next = next.min(until);
        } else if let Some(round) = self.destination.pace().next_round().filter(|round| *round > now) {
            next = next.min(round);
        } else if !running.hand_over
            && self.may_send(now) > 0
            && let Some(at) = self.destination.next_token()
        {
            next = next.min(at);
        }
        next
    }
}
