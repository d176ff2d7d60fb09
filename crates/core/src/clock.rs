//! Time as the code may ask for it, so that tests own it.

use std::fmt::Debug;
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use jiff::Timestamp;

/// Clock. The engine measures durations with [`Clock::elapsed`] only; wall time is for people and signatures.
pub trait Clock: Debug + Send + Sync {
    /// Returns the wall time, which may jump.
    fn now(&self) -> Timestamp;
    /// Returns the time since some fixed moment, which never goes back.
    fn elapsed(&self) -> Duration;
    /// Waits for this long.
    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Future<Output = ()> + Send>>;
}
