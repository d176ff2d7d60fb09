//! When a failed delivery is tried again, and when it is given up.

use std::time::Duration;

/// Retry policy of a route.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct RetryPolicy {
    /// Delay after each failure.
    pub delays: Delays,
    /// Random addition to each delay, as a share of it: 0.2 adds up to a fifth.
    ///
    /// At 0 a crowd that failed together comes back together. Defaults to 0.2.
    pub jitter: f64,
    /// Whether the random addition may make a delay longer than the longest one.
    ///
    /// Defaults to `false`: no delay is longer than [`Delays::Exponential::max`].
    pub jitter_beyond_max: bool,
    /// Number of attempts, the first included. Defaults to 12.
    pub attempts: u32,
    /// Number of attempts after which an event that ends the program that handles it is given up, if that is more than
    /// `attempts`; `None` never gives it up.
    ///
    /// At 1 a program that somebody else ended may cost an event its only try. Defaults to 3.
    pub crashes: Option<u32>,
}

/// Delay after the n-th failure.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Delays {
    /// Exponential delays, `min(base · 2^(n−1), max)`: the first delay is `base`.
    Exponential {
        /// First delay. Defaults to 1 s.
        base: Duration,
        /// Longest delay. Defaults to 15 min.
        max: Duration,
    },
    /// List of delays: the n-th entry; the last one repeats.
    Schedule(Vec<Duration>),
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self {
            delays: Delays::Exponential { base: Duration::from_secs(1), max: Duration::from_mins(15) },
            jitter: 0.2,
            jitter_beyond_max: false,
            attempts: 12,
            crashes: Some(3),
        }
    }
}

impl RetryPolicy {
    /// Sets the delay after each failure.
    pub fn delays(mut self, delays: Delays) -> Self {
        self.delays = delays;
        self
    }

    /// Sets the random addition to each delay, as a share of it.
    pub fn jitter(mut self, jitter: f64) -> Self {
        self.jitter = jitter;
        self
    }

    /// Sets whether the random addition may make a delay longer than the longest one.
    pub fn jitter_beyond_max(mut self, beyond: bool) -> Self {
        self.jitter_beyond_max = beyond;
        self
    }

    /// Sets the number of tries in all, the first included.
    pub fn attempts(mut self, attempts: u32) -> Self {
        self.attempts = attempts;
        self
    }

    /// Sets the number of attempts after which an event that ends its program is given up; `None` never gives it up.
    pub fn crashes(mut self, crashes: Option<u32>) -> Self {
        self.crashes = crashes;
        self
    }

    /// Returns the delay after `failures` failed attempts (at least 1), with `random` in 0..1.
    pub fn delay(&self, failures: u32, random: f64) -> Duration {
        let plain = match &self.delays {
            Delays::Exponential { base, max } => {
                let doublings = failures.saturating_sub(1).min(63);
                base.checked_mul(1u32.checked_shl(doublings.min(31)).unwrap_or(u32::MAX)).unwrap_or(*max).min(*max)
            }
            Delays::Schedule(list) => {
                let nth = (failures.max(1) - 1) as usize;
                list.get(nth).or(list.last()).copied().unwrap_or(Duration::ZERO)
            }
        };
        let delay = plain.mul_f64(1.0 + self.jitter.max(0.0) * random.clamp(0.0, 1.0));
        match &self.delays {
            Delays::Exponential { max, .. } if !self.jitter_beyond_max => delay.min(*max),
            _ => delay,
        }
    }

    /// Returns the longest time between the first and the last attempt: all delays, each with all its jitter.
    ///
    /// How long the tries themselves take is not in it, nor how long a destination is down.
    pub fn horizon(&self) -> Duration {
        let mut whole = Duration::ZERO;
        let last = self.attempts.saturating_sub(1);
        // Long before this the delays have stopped growing.
        let steps = last.min(64.max(self.scheduled()));
        for failures in 1..=steps {
            whole = whole.saturating_add(self.delay(failures, 1.0));
        }
        whole.saturating_add(self.delay(steps.max(1), 1.0).saturating_mul(last - steps))
    }

    fn scheduled(&self) -> u32 {
        match &self.delays {
            Delays::Exponential { .. } => 0,
            Delays::Schedule(list) => u32::try_from(list.len()).unwrap_or(u32::MAX),
        }
    }

    /// Reports whether a delivery that failed this often is given up, if the last failure ended its program.
    pub fn crashed_too_often(&self, failures: u32) -> bool {
        self.crashes.is_some_and(|crashes| failures >= crashes.max(self.attempts))
    }

    /// Reports whether a delivery that failed this often is given up.
    pub fn exhausted(&self, failures: u32) -> bool {
        failures >= self.attempts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_double_from_base_up_to_max() {
        let policy = RetryPolicy { jitter: 0.0, ..RetryPolicy::default() };
        let seconds: Vec<u64> = (1..=12).map(|n| policy.delay(n, 0.5).as_secs()).collect();
        assert_eq!(seconds, [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 900, 900]);
        assert_eq!(policy.delay(u32::MAX, 0.0).as_secs(), 900);
    }

    #[test]
    fn no_delay_is_longer_than_the_longest_unless_jitter_may_exceed_it() {
        let policy = RetryPolicy::default();
        assert_eq!(policy.delay(10, 0.5).as_millis(), 563_200);
        assert_eq!((policy.delay(10, 1.0).as_secs(), policy.delay(12, 1.0).as_secs()), (614, 900));
        assert_eq!(policy.jitter_beyond_max(true).delay(12, 1.0).as_secs(), 1080);
    }

    #[test]
    fn jitter_only_adds_and_stays_within_its_share() {
        let policy = RetryPolicy::default();
        assert_eq!(policy.delay(1, 0.0), Duration::from_secs(1));
        assert_eq!(policy.delay(1, 1.0), Duration::from_millis(1200));
    }

    #[test]
    fn the_horizon_is_the_sum_of_the_longest_delays() {
        let policy = RetryPolicy { jitter: 0.0, ..RetryPolicy::default() };
        assert_eq!(policy.horizon(), Duration::from_secs(1023 + 900));
        let beyond = RetryPolicy::default().jitter_beyond_max(true);
        assert_eq!(beyond.horizon(), Duration::from_millis(1_923_000 * 12 / 10));
        assert_eq!(RetryPolicy::default().horizon(), Duration::from_millis(1_023_000 * 12 / 10 + 900_000));
        assert_eq!(RetryPolicy { attempts: 1, ..RetryPolicy::default() }.horizon(), Duration::ZERO);
        let often = RetryPolicy { attempts: 1_000_012, ..policy };
        assert_eq!(often.horizon(), Duration::from_secs(1923 + 1_000_000 * 900));
        let delays = Delays::Schedule(vec![Duration::from_secs(5), Duration::from_mins(5)]);
        let scheduled = RetryPolicy { delays, jitter: 0.1, jitter_beyond_max: false, attempts: 4, crashes: None };
        assert_eq!(scheduled.horizon(), Duration::from_millis(605_000 * 11 / 10));
        assert_eq!(RetryPolicy { attempts: u32::MAX, ..scheduled }.horizon().as_secs() / 330, u64::from(u32::MAX) - 2);
    }

    #[test]
    fn a_schedule_repeats_its_last_entry() {
        let delays = Delays::Schedule(vec![Duration::from_secs(5), Duration::from_mins(5)]);
        let policy = RetryPolicy { delays, jitter: 0.0, jitter_beyond_max: false, attempts: 4, crashes: None };
        assert_eq!((1..=3).map(|n| policy.delay(n, 0.0).as_secs()).collect::<Vec<_>>(), [5, 300, 300]);
        assert!(!policy.exhausted(3) && policy.exhausted(4));
    }
}
