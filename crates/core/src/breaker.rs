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

/// Which failures open a route's breaker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum BreakerCounts {
    /// Only that the destination is unavailable; one such failure is enough.
    #[default]
    Unavailable,
    /// Any failure: so many in a row open it too, whatever the destination answered.
    ///
    /// A cluster of bad events then stops the whole route, again and again.
    All,
}

/// When a route's breaker opens and how long it stays so.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BreakerPolicy {
    /// Which failures open it. Defaults to those that say that the destination is unavailable.
    pub counts: BreakerCounts,
    /// With [`BreakerCounts::All`]: how many failures in a row open it.
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

/// Where the breaker stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Everything may go.
    Closed,
    /// Nothing may go until then.
    Open {
        /// By the clock that `now` comes from.
        until: Duration,
    },
    /// A few probes may go.
    HalfOpen,
    /// A probe was answered; so many may be in flight.
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

/// One route's breaker.
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
    /// A closed breaker.
    pub fn new(policy: BreakerPolicy) -> Self {
        Self { policy, phase: Phase::Closed, in_a_row: 0, trips: 0, failed_probes: 0, answers: 0 }
    }

    /// Where it stands now; an opening whose cool-down is over becomes half-open here.
    pub fn phase(&mut self, now: Duration) -> Phase {
        if let Phase::Open { until } = self.phase
            && now >= until
        {
            self.phase = Phase::HalfOpen;
            self.failed_probes = 0;
        }
        self.phase
    }

    /// How many deliveries may be in flight now.
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

    /// Whether single failures count: then there is no other protection against a destination that refuses everything.
    pub fn counts_all(&self) -> bool {
        self.policy.counts == BreakerCounts::All || faults::is(Fault::AnswersOpenTheBreaker)
    }

    /// A delivery succeeded.
    pub fn succeeded(&mut self) {
        self.in_a_row = 0;
        self.answered();
    }

    /// The destination refused one event, for now or for good, with `others` still in flight since it last opened. Says
    /// whether the breaker opened by it.
    pub fn refused(&mut self, now: Duration, others: usize) -> bool {
        match (self.policy.counts, self.phase) {
            (BreakerCounts::Unavailable, _) => {
                self.answered();
                false
            }
            (BreakerCounts::All, Phase::Open { .. }) => false,
            (BreakerCounts::All, Phase::HalfOpen) => self.probe_failed(now, None, others),
            (BreakerCounts::All, Phase::Closed | Phase::Ramp { .. }) => {
                self.in_a_row += 1;
                self.in_a_row >= self.policy.failures && self.open(now, None)
            }
        }
    }

    /// The destination is down, with `others` still in flight since it last opened. Says whether the breaker opened by it.
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

    /// The destination answered, which says nothing about whether it succeeds.
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

/// Longest wish of a receiver that is honoured; absurd values must not hold a route for a year.
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
            assert!(!b.refused(S, 0));
        }
        assert_eq!(b.phase(S), Phase::Closed);
        b.unavailable(S, None, 0);
        assert_eq!(b.phase(2 * S), Phase::HalfOpen);
        assert!(!b.refused(2 * S, 0), "a probe that is refused was answered");
        assert_eq!(b.phase(2 * S), Phase::Ramp { window: PROBES });
    }

    #[test]
    fn where_all_failures_count_so_many_in_a_row_open_it() {
        let mut b = counting_all();
        assert!(!b.refused(S, 9) && !b.refused(S, 9));
        b.succeeded();
        assert!(!b.refused(S, 9) && !b.refused(S, 9), "a success starts the count again");
        assert!(b.refused(S, 9));
        assert_eq!(b.window(S), 0);
        assert_eq!(b.window(2 * S), PROBES);
        assert!(!b.refused(2 * S, 1), "another probe is on its way");
        assert!(b.refused(2 * S, 0));
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
