//! Stops asking a destination that is down, and finds out gently when it is back.
//!
//! ```text
//!              "unavailable" (with `counts = "all"` also N failures in a row)
//!   closed ──────────────────────────────────────────────────────────► open
//!     ▲                                                               │  ▲
//!     │ ramp: 4, 8, 16 … in flight                       cool-down over│  │ no probe is answered
//!     └──────────── one is answered ── half-open (a few probes) ◄──────┘  │
//!                                          └──────────────────────────────┘
//! ```
//!
//! A destination that answers is not down, whatever it answers: refusals of single events do not open the breaker unless
//! the route says so. Pure: time comes in, nothing goes out. Which deliveries are the probes is the engine's choice.

use std::time::Duration;

use crate::faults::{self, Fault};

/// Failures that open the breaker of a route.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum BreakerCounts {
    /// Only failures of an unavailable destination; one is enough.
    #[default]
    Unavailable,
    /// Any failure: so many in a row open it too, whatever the destination answered.
    ///
    /// A crowd of bad events then stops the whole route again and again, for `cooldown` after each `failures` of them.
    All,
}

/// Policy of a route's breaker: when it opens, and for how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct BreakerPolicy {
    /// Failures that open the breaker. Defaults to those of an unavailable destination.
    pub counts: BreakerCounts,
    /// Number of failures in a row that open the breaker, with [`BreakerCounts::All`].
    ///
    /// Too few and a handful of bad events stops a healthy route; too many and a broken destination burns attempts.
    ///
    /// Defaults to 10.
    pub failures: usize,
    /// First cool-down; doubles while probes fail. Defaults to 1 s.
    pub cooldown: Duration,
    /// Longest cool-down. Defaults to 30 s.
    pub cooldown_max: Duration,
}

impl BreakerPolicy {
    /// Sets which failures open the breaker.
    pub fn counts(mut self, counts: BreakerCounts) -> Self {
        self.counts = counts;
        self
    }

    /// Sets how many failures in a row open it, with [`BreakerCounts::All`].
    pub fn failures(mut self, failures: usize) -> Self {
        self.failures = failures;
        self
    }

    /// Sets the first cool-down.
    pub fn cooldown(mut self, cooldown: Duration) -> Self {
        self.cooldown = cooldown;
        self
    }

    /// Sets the longest cool-down.
    pub fn cooldown_max(mut self, cooldown_max: Duration) -> Self {
        self.cooldown_max = cooldown_max;
        self
    }
}

impl Default for BreakerPolicy {
    fn default() -> Self {
        Self {
            counts: BreakerCounts::Unavailable,
            failures: 10,
            cooldown: Duration::from_secs(1),
            cooldown_max: Duration::from_secs(30),
        }
    }
}

/// Phase of a breaker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Closed: all deliveries may be sent.
    Closed,
    /// Open: no delivery may be sent until this time.
    Open {
        /// By the clock that `now` comes from.
        until: Duration,
    },
    /// Half-open: a few probes may be sent.
    HalfOpen,
    /// Ramp: a probe was answered, and this many deliveries may be in flight.
    Ramp {
        /// The window; doubles as deliveries are answered.
        window: usize,
    },
}

/// Probes of one half-open phase.
const PROBES: usize = 4;
/// So often a half-open phase has one probe only: where all that is in flight shares one fate (a child process), an
/// event that ends it would take the other probes with it, each time.
const ALONE_EVERY: u32 = 3;
/// From here on a ramp counts as closed.
const RAMP_END: usize = 1024;

/// Breaker of a route.
#[derive(Debug)]
pub struct Breaker {
    policy: BreakerPolicy,
    phase: Phase,
    // Failures since the last success.
    in_a_row: usize,
    // Openings since a probe was last answered.
    trips: u32,
    // Probes of this half-open phase that failed.
    failed_probes: usize,
    // Answers in the current ramp step.
    answers: usize,
}

impl Breaker {
    /// Creates a closed breaker.
    pub fn new(policy: BreakerPolicy) -> Self {
        Self { policy, phase: Phase::Closed, in_a_row: 0, trips: 0, failed_probes: 0, answers: 0 }
    }

    /// Returns the current phase; an open breaker whose cool-down has ended becomes half-open here.
    pub fn phase(&mut self, now: Duration) -> Phase {
        if let Phase::Open { until } = self.phase
            && now >= until
        {
            self.phase = Phase::HalfOpen;
            self.failed_probes = 0;
        }
        self.phase
    }

    /// Returns how many deliveries may be in flight now.
    pub fn window(&mut self, now: Duration) -> usize {
        match self.phase(now) {
            Phase::Closed => usize::MAX,
            Phase::Open { .. } => 0,
            Phase::HalfOpen => {
                let probes = if self.trips.is_multiple_of(ALONE_EVERY) { 1 } else { PROBES };
                probes.saturating_sub(self.failed_probes)
            }
            Phase::Ramp { window } => window,
        }
    }

    /// Ends the cool-down of an open breaker: the next probes may be sent at once.
    pub fn probe_now(&mut self, now: Duration) {
        if let Phase::Open { until } = &mut self.phase {
            *until = now.min(*until);
        }
    }

    /// Reports whether single failures count: then there is no other protection against a destination that refuses everything.
    pub fn counts_all(&self) -> bool {
        self.policy.counts == BreakerCounts::All || faults::is(Fault::AnswersOpenTheBreaker)
    }

    /// Records a successful delivery.
    pub fn succeeded(&mut self) {
        self.in_a_row = 0;
        self.answered();
    }

    /// Records that the destination refused an event. Reports whether the breaker opened.
    pub fn refused(&mut self, now: Duration) -> bool {
        match (self.policy.counts, self.phase) {
            (BreakerCounts::Unavailable, _) => {
                self.answered();
                false
            }
            (BreakerCounts::All, Phase::Open { .. }) => false,
            (BreakerCounts::All, Phase::HalfOpen | Phase::Closed | Phase::Ramp { .. }) => {
                // A probe that is refused was answered: the pause is over, as short as the first, and so many may fail again.
                // Otherwise a crowd of bad events, four to each of ever longer pauses, would hold the good ones up for hours.
                if self.phase == Phase::HalfOpen {
                    self.answered();
                }
                self.in_a_row += 1;
                self.in_a_row >= self.policy.failures && self.open(now, None)
            }
        }
    }

    /// Records that the destination is down, with `others` still in flight since the breaker last opened. Reports whether it opened.
    pub fn unavailable(&mut self, now: Duration, retry_after: Option<Duration>, others: usize) -> bool {
        match self.phase {
            Phase::Open { until } => {
                // The rest of the same outage; only a later wish of the receiver counts.
                if let Some(after) = retry_after {
                    self.phase = Phase::Open { until: until.max(now + after.min(RETRY_AFTER_MAX)) };
                }
                false
            }
            Phase::HalfOpen => self.probe_failed(now, retry_after, others),
            Phase::Closed | Phase::Ramp { .. } => self.open(now, retry_after),
        }
    }

    /// Records that the destination answered, whether or not it succeeded.
    pub fn answered(&mut self) {
        match self.phase {
            // A late answer from before an outage says nothing about now.
            Phase::Closed | Phase::Open { .. } => {}
            Phase::HalfOpen => {
                self.answers = 0;
                // The destination is back: the next outage is a new one, with a short cool-down.
                self.trips = 0;
                self.phase = Phase::Ramp { window: PROBES };
            }
            Phase::Ramp { window } => {
                self.answers += 1;
                if self.answers >= window {
                    self.answers = 0;
                    self.phase = Phase::Ramp { window: window * 2 };
                }
                if window >= RAMP_END {
                    self.phase = Phase::Closed;
                }
            }
        }
    }

    /// One of several probes failed: the others may still tell that the destination is there, unless it asks for a pause.
    fn probe_failed(&mut self, now: Duration, retry_after: Option<Duration>, others: usize) -> bool {
        self.failed_probes += 1;
        (others == 0 || retry_after.is_some()) && self.open(now, retry_after)
    }

    fn open(&mut self, now: Duration, retry_after: Option<Duration>) -> bool {
        let doublings = self.trips.min(16);
        let cooldown = self.policy.cooldown.saturating_mul(1 << doublings).min(self.policy.cooldown_max);
        let wait = cooldown.max(retry_after.unwrap_or_default().min(RETRY_AFTER_MAX));
        self.trips = self.trips.saturating_add(1);
        self.in_a_row = 0;
        self.phase = Phase::Open { until: now + wait };
        true
    }
}

/// Longest delay of a receiver that is honoured; absurd values must not hold a route for a year.
pub const RETRY_AFTER_MAX: Duration = Duration::from_hours(1);

#[cfg(test)]
mod tests {
    use super::*;

    const S: Duration = Duration::from_secs(1);

    fn breaker() -> Breaker {
        Breaker::new(BreakerPolicy::default())
    }

    fn counting_all() -> Breaker {
        Breaker::new(BreakerPolicy { counts: BreakerCounts::All, failures: 3, ..BreakerPolicy::default() })
    }

    #[test]
    fn a_destination_that_answers_is_not_down() {
        let mut b = breaker();
        for _ in 0..1000 {
            assert!(!b.refused(S));
        }
        assert_eq!(b.phase(S), Phase::Closed);
        b.unavailable(S, None, 0);
        assert_eq!(b.phase(2 * S), Phase::HalfOpen);
        assert!(!b.refused(2 * S), "a probe that is refused was answered");
        assert_eq!(b.phase(2 * S), Phase::Ramp { window: PROBES });
    }

    #[test]
    fn where_all_failures_count_so_many_in_a_row_open_it() {
        let mut b = counting_all();
        assert!(!b.refused(S) && !b.refused(S));
        b.succeeded();
        assert!(!b.refused(S) && !b.refused(S), "a success starts the count again");
        for pause in 1..=9 {
            assert!(b.refused(pause * S), "so many in a row after each pause");
            assert_eq!(b.window(pause * S), 0);
            assert_eq!(b.window((pause + 1) * S), PROBES, "no pause is longer than the first");
            assert!(!b.refused((pause + 1) * S) && !b.refused((pause + 1) * S));
        }
    }

    #[test]
    fn unavailable_opens_at_once_and_honours_the_receivers_wish_within_reason() {
        let mut b = breaker();
        assert!(b.unavailable(S, Some(20 * S), 0));
        assert_eq!(b.phase(20 * S), Phase::Open { until: 21 * S });
        assert_eq!(b.phase(21 * S), Phase::HalfOpen);
        let mut b = breaker();
        b.unavailable(S, Some(Duration::from_secs(1 << 40)), 0);
        assert_eq!(b.phase(S), Phase::Open { until: S + RETRY_AFTER_MAX });
    }

    #[test]
    fn failed_probes_double_the_cool_down_up_to_its_limit() {
        let mut b = breaker();
        let mut now = S;
        let (mut waits, mut probes) = (Vec::new(), Vec::new());
        for _ in 0..8 {
            b.unavailable(now, None, 0);
            let Phase::Open { until } = b.phase(now) else { panic!("not open") };
            waits.push(until.abs_diff(now).as_secs());
            now = until;
            probes.push(b.window(now));
        }
        assert_eq!(waits, [1, 2, 4, 8, 16, 30, 30, 30]);
        assert_eq!(probes, [4, 4, 1, 4, 4, 1, 4, 4], "now and then one goes alone");
    }

    #[test]
    fn it_opens_again_only_when_no_probe_was_answered() {
        let mut b = breaker();
        b.unavailable(S, None, 0);
        assert_eq!(b.window(2 * S), 4);
        assert!(!b.unavailable(2 * S, None, 3) && !b.unavailable(2 * S, None, 2));
        assert_eq!(b.window(2 * S), 2, "no further probe takes the place of one that failed");
        b.succeeded();
        assert_eq!(b.phase(2 * S), Phase::Ramp { window: 4 });
        b.unavailable(2 * S, None, 0);
        b.phase(3 * S);
        assert!(b.unavailable(3 * S, Some(5 * S), 3), "a wish to be asked later is no silence");
    }

    #[test]
    fn after_the_probe_it_ramps_up_and_closes() {
        let mut b = breaker();
        b.unavailable(S, None, 0);
        assert_eq!(b.phase(2 * S), Phase::HalfOpen);
        b.succeeded();
        let mut windows = vec![b.window(2 * S)];
        while b.phase(2 * S) != Phase::Closed {
            b.succeeded();
            if windows.last() != Some(&b.window(2 * S)) {
                windows.push(b.window(2 * S));
            }
        }
        assert!(windows.starts_with(&[4, 8, 16, 32]), "{windows:?}");
    }

    #[test]
    fn a_late_answer_does_not_close_an_open_breaker() {
        let mut b = breaker();
        b.unavailable(S, None, 0);
        b.succeeded();
        assert_eq!(b.window(S), 0);
    }
}
