//! A route's own speed limit.

use std::time::Duration;

/// A token bucket with room for a tenth of a second.
#[derive(Debug)]
pub(super) struct Bucket {
    per_second: f64,
    tokens: f64,
    at: Duration,
}

impl Bucket {
    pub(super) fn new(per_second: f64) -> Self {
        Self { per_second, tokens: 1.0, at: Duration::ZERO }
    }

    /// Takes a token, if there is one.
    pub(super) fn take(&mut self, now: Duration) -> bool {
        let room = (self.per_second / 10.0).max(1.0);
        self.tokens = (self.tokens + now.saturating_sub(self.at).as_secs_f64() * self.per_second).min(room);
        self.at = now;
        let taken = self.tokens >= 1.0;
        if taken {
            self.tokens -= 1.0;
        }
        taken
    }

    /// When to ask for the next token; timers tick in milliseconds, so never sooner.
    pub(super) fn next(&self) -> Duration {
        let seconds = ((1.0 - self.tokens) / self.per_second).clamp(0.001, 3600.0);
        let wait = Duration::from_secs_f64(seconds);
        self.at + wait
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn over_ten_seconds_it_lets_pass_what_it_says() {
        let mut bucket = Bucket::new(50.0);
        let mut now = Duration::ZERO;
        let mut passed = 0;
        while now < Duration::from_secs(10) {
            while bucket.take(now) {
                passed += 1;
            }
            now = bucket.next();
        }
        assert!((495..=506).contains(&passed), "{passed}");
    }
}
