//! Stops asking a destination that is down, and finds out gently when it is back.
//!
//! ```text
//!             N failures of distinct keys in a row, or one "unavailable"
//!   closed ──────────────────────────────────────────────────────────► open
//!     ▲                                                               │  ▲
//!     │ ramp: 1, 2, 4 … in flight                        cool-down over│  │ the probe fails
//!     └────────────────────────────── half-open (one probe) ◄──────────┘  │
//!                                          └──────────────────────────────┘
//! ```
//!
//! Pure: time comes in, nothing goes out. Which delivery is the probe is the engine's choice.

use std::collections::HashSet;
use std::time::Duration;

/// When a route's breaker opens and how long it stays so.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BreakerPolicy {
    /// How many failures of distinct keys in a row open it.
    ///
    /// Too few and a handful of bad events pauses a healthy route; too many and a dead destination burns attempts.
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
        Self { failures: 10, cooldown: Duration::from_secs(1), cooldown_max: Duration::from_secs(30) }
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
    /// One probe may go.
    HalfOpen,
    /// The probe got through; so many may be in flight.
    Ramp {
        /// The window; doubles as deliveries succeed.
        window: usize,
    },
}

/// From here on a ramp counts as closed.
const RAMP_END: usize = 1024;

/// One route's breaker.
#[derive(Debug)]
pub struct Breaker {
    policy: BreakerPolicy,
    phase: Phase,
    // Keys that failed since the last success; a set, so that one bad key never opens the breaker alone.
    failing: HashSet<u64>,
    // Openings since something last got through.
    trips: u32,
    // Successes in the current ramp step.
    successes: usize,
}

impl Breaker {
    /// A closed breaker.
    pub fn new(policy: BreakerPolicy) -> Self {
        Self { policy, phase: Phase::Closed, failing: HashSet::new(), trips: 0, successes: 0 }
    }

    /// Where it stands now; an opening whose cool-down is over becomes half-open here.
    pub fn phase(&mut self, now: Duration) -> Phase {
        if let Phase::Open { until } = self.phase
            && now >= until
        {
            self.phase = Phase::HalfOpen;
        }
        self.phase
    }

    /// How many deliveries may be in flight now.
    pub fn window(&mut self, now: Duration) -> usize {
        match self.phase(now) {
            Phase::Closed => usize::MAX,
            Phase::Open { .. } => 0,
            Phase::HalfOpen => 1,
            Phase::Ramp { window } => window,
        }
    }

    /// The destination answered: delivered, or refused this one event for good.
    pub fn answered(&mut self) {
        self.failing.clear();
        match self.phase {
            // A late answer from before an outage says nothing about now.
            Phase::Closed | Phase::Open { .. } => {}
            Phase::HalfOpen => {
                self.successes = 0;
                // The destination is back: the next outage is a new one, with a short cool-down.
                self.trips = 0;
                self.phase = Phase::Ramp { window: 2 };
            }
            Phase::Ramp { window } => {
                self.successes += 1;
                if self.successes >= window {
                    self.successes = 0;
                    self.phase = Phase::Ramp { window: window * 2 };
                }
                if window >= RAMP_END {
                    self.phase = Phase::Closed;
                }
            }
        }
    }

    /// A delivery of this key failed and will be tried again. Says whether the breaker opened by it.
    pub fn failed(&mut self, now: Duration, key: u64) -> bool {
        match self.phase {
            Phase::Open { .. } => false,
            Phase::HalfOpen => self.open(now, None),
            Phase::Closed | Phase::Ramp { .. } => {
                self.failing.insert(key);
                self.failing.len() >= self.policy.failures && self.open(now, None)
            }
        }
    }

    /// The destination is down. Says whether the breaker opened by it.
    pub fn unavailable(&mut self, now: Duration, retry_after: Option<Duration>) -> bool {
        if let Phase::Open { until } = self.phase {
            // The rest of the same outage; only a later wish of the receiver counts.
            if let Some(after) = retry_after {
                self.phase = Phase::Open { until: until.max(now + after.min(RETRY_AFTER_MAX)) };
            }
            return false;
        }
        self.open(now, retry_after)
    }

    fn open(&mut self, now: Duration, retry_after: Option<Duration>) -> bool {
        let doublings = self.trips.min(16);
        let cooldown = self.policy.cooldown.saturating_mul(1 << doublings).min(self.policy.cooldown_max);
        let wait = cooldown.max(retry_after.unwrap_or_default().min(RETRY_AFTER_MAX));
        self.trips = self.trips.saturating_add(1);
        self.failing.clear();
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
        Breaker::new(BreakerPolicy { failures: 3, ..BreakerPolicy::default() })
    }

    #[test]
    fn distinct_keys_in_a_row_open_it_and_one_bad_key_does_not() {
        let mut b = breaker();
        for _ in 0..100 {
            assert!(!b.failed(S, 1));
        }
        assert!(!b.failed(S, 2));
        b.answered();
        assert!(!b.failed(S, 1) && !b.failed(S, 2), "a success starts the count again");
        assert!(b.failed(S, 3));
        assert_eq!(b.window(S), 0);
    }

    #[test]
    fn unavailable_opens_at_once_and_honours_the_receivers_wish_within_reason() {
        let mut b = breaker();
        assert!(b.unavailable(S, Some(20 * S)));
        assert_eq!(b.phase(20 * S), Phase::Open { until: 21 * S });
        assert_eq!(b.phase(21 * S), Phase::HalfOpen);
        let mut b = breaker();
        b.unavailable(S, Some(Duration::from_secs(1 << 40)));
        assert_eq!(b.phase(S), Phase::Open { until: S + RETRY_AFTER_MAX });
    }

    #[test]
    fn failed_probes_double_the_cool_down_up_to_its_limit() {
        let mut b = breaker();
        let mut now = S;
        let mut waits = Vec::new();
        for _ in 0..8 {
            b.unavailable(now, None);
            let Phase::Open { until } = b.phase(now) else { panic!("not open") };
            waits.push(until.abs_diff(now).as_secs());
            now = until;
            assert_eq!(b.window(now), 1);
        }
        assert_eq!(waits, [1, 2, 4, 8, 16, 30, 30, 30]);
    }

    #[test]
    fn after_the_probe_it_ramps_up_and_closes() {
        let mut b = breaker();
        b.unavailable(S, None);
        assert_eq!(b.phase(2 * S), Phase::HalfOpen);
        b.answered();
        let mut windows = vec![b.window(2 * S)];
        while b.phase(2 * S) != Phase::Closed {
            b.answered();
            if windows.last() != Some(&b.window(2 * S)) {
                windows.push(b.window(2 * S));
            }
        }
        assert!(windows.starts_with(&[2, 4, 8, 16]), "{windows:?}");
    }

    #[test]
    fn a_late_answer_does_not_close_an_open_breaker() {
        let mut b = breaker();
        b.unavailable(S, None);
        b.answered();
        assert_eq!(b.window(S), 0);
    }
}
