//! The machine's clock, for stores that are given none.
//!
//! All processes on one file share a machine, so its wall clock is the database's clock.

use std::future::Future;
use std::pin::Pin;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use postroom_core::Clock;

/// The machine's clock.
#[derive(Debug)]
pub(crate) struct SystemClock(Instant);

impl Default for SystemClock {
    fn default() -> Self {
        Self(Instant::now())
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }

    fn elapsed(&self) -> Duration {
        self.0.elapsed()
    }

    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(tokio::time::sleep(duration))
    }
}

/// A time as the tables hold it.
pub(crate) fn micros(time: Timestamp) -> i64 {
    time.as_microsecond()
}

/// A time out of the tables; what no calendar can hold becomes the nearest one it can.
pub(crate) fn timestamp(micros: i64) -> Timestamp {
    Timestamp::from_microsecond(micros).unwrap_or(if micros < 0 { Timestamp::MIN } else { Timestamp::MAX })
}

/// A length of time as the tables hold it.
pub(crate) fn span(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX / 4)
}

/// A length of time out of the tables; a negative one is none.
pub(crate) fn duration(micros: i64) -> Duration {
    Duration::from_micros(u64::try_from(micros).unwrap_or(0))
}
