//! The system's time, for stores that are given no clock.

use std::future::Future;
use std::pin::Pin;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use postroom_core::Clock;

#[derive(Debug)]
pub(crate) struct SystemClock {
    started: Instant,
}

impl Default for SystemClock {
    fn default() -> Self {
        Self { started: Instant::now() }
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }

    fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(tokio::time::sleep(duration))
    }
}
