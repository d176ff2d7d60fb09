//! Time as the code may ask for it, so that tests own it.

use std::fmt::Debug;
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use jiff::Timestamp;

/// A clock. The engine measures durations with [`Clock::elapsed`] only; wall time is for people and signatures.
pub trait Clock: Debug + Send + Sync {
    /// Wall time; may jump.
    fn now(&self) -> Timestamp;
    /// Time since some fixed moment; never goes back.
    fn elapsed(&self) -> Duration;
    /// Resolves after this long.
    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Future<Output = ()> + Send>>;
}
