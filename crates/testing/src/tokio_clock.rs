//! A clock that follows tokio's time, so that paused time in a test is the whole test's time.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use postroom_core::Clock;
use tokio::time::Instant;

/// Where its wall time starts: 2026-01-01T00:00:00Z, in microseconds.
const START_MICROS: i64 = 1_767_225_600_000_000;

/// Wall time and durations both from tokio. Give it to the store of a test with `start_paused`, and leases, retries
/// and delays pass in no time. Clones share the time.
#[derive(Debug, Clone)]
pub struct TokioClock {
    start: Instant,
    jumped_micros: Arc<AtomicI64>,
}

impl TokioClock {
    /// A clock that shows 2026-01-01T00:00:00Z. Needs a tokio runtime.
    pub fn new() -> Self {
        Self { start: Instant::now(), jumped_micros: Arc::default() }
    }

    /// Moves wall time only, forth or back, as a corrected system clock does.
    pub fn jump_wall(&self, by: SignedDuration) {
        let micros = i64::try_from(by.as_micros()).unwrap_or(0);
        self.jumped_micros.fetch_add(micros, Ordering::Relaxed);
    }
}

impl Default for TokioClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for TokioClock {
    fn now(&self) -> Timestamp {
        let elapsed = i64::try_from(self.start.elapsed().as_micros()).unwrap_or(i64::MAX);
        let micros = START_MICROS.saturating_add(elapsed).saturating_add(self.jumped_micros.load(Ordering::Relaxed));
        Timestamp::from_microsecond(micros).unwrap_or(Timestamp::MAX)
    }

    fn elapsed(&self) -> Duration {
        self.start.elapsed()
    }

    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(tokio::time::sleep(duration))
    }
}
