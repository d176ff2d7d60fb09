//! A clock that stands still until the test moves it.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use postroom_core::Clock;
use tokio::sync::watch;

/// A clock the test owns. Clones share the time.
///
/// ```
/// use std::time::Duration;
/// use postroom_core::Clock;
/// use postroom_testing::ManualClock;
///
/// let clock = ManualClock::new();
/// let before = clock.now();
/// clock.advance(Duration::from_secs(60));
/// assert_eq!(clock.now().duration_since(before).as_secs(), 60);
/// ```
#[derive(Debug, Clone)]
pub struct ManualClock {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    wall: Mutex<Timestamp>,
    elapsed: watch::Sender<Duration>,
    sleepers: watch::Sender<usize>,
}

impl ManualClock {
    /// A clock that shows 2026-01-01T00:00:00Z.
    pub fn new() -> Self {
        Self::at(Timestamp::constant(1_767_225_600, 0))
    }

    /// A clock that shows this time.
    pub fn at(now: Timestamp) -> Self {
        let inner = Inner {
            wall: Mutex::new(now),
            elapsed: watch::Sender::new(Duration::ZERO),
            sleepers: watch::Sender::new(0),
        };
        Self { inner: Arc::new(inner) }
    }

    /// Moves both times on together; sleeps that end by then resolve.
    pub fn advance(&self, by: Duration) {
        {
            let mut wall = self.wall();
            *wall = wall.checked_add(by).unwrap_or(Timestamp::MAX);
        }
        self.inner.elapsed.send_modify(|elapsed| *elapsed += by);
    }

    /// Moves wall time only, forth or back, as a corrected system clock does.
    pub fn jump_wall(&self, by: SignedDuration) {
        let mut wall = self.wall();
        *wall = wall.checked_add(by).unwrap_or(*wall);
    }

    /// Resolves when at least this many sleeps are waiting: the sign that everybody has nothing to do but wait.
    pub async fn sleepers(&self, count: usize) {
        // The sender lives in `self`, so that the wait cannot end early.
        let _ = self.inner.sleepers.subscribe().wait_for(|sleeping| *sleeping >= count).await;
    }

    fn wall(&self) -> MutexGuard<'_, Timestamp> {
        self.inner.wall.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for ManualClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        *self.wall()
    }

    fn elapsed(&self) -> Duration {
        *self.inner.elapsed.borrow()
    }

    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        let clock = self.clone();
        // Counted from the call, not from the first poll.
        let until = self.elapsed() + duration;
        Box::pin(async move {
            let mut elapsed = clock.inner.elapsed.subscribe();
            let _sleeping = Sleeping::new(&clock);
            let _ = elapsed.wait_for(|now| *now >= until).await;
        })
    }
}

/// Counted as a sleeper until dropped, however the sleep ends.
struct Sleeping<'a>(&'a ManualClock);

impl<'a> Sleeping<'a> {
    fn new(clock: &'a ManualClock) -> Self {
        clock.inner.sleepers.send_modify(|count| *count += 1);
        Self(clock)
    }
}

impl Drop for Sleeping<'_> {
    fn drop(&mut self) {
        self.0.inner.sleepers.send_modify(|count| *count -= 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_sleep_ends_when_the_clock_is_moved_that_far_and_not_before() {
        let clock = ManualClock::new();
        let sleep = tokio::spawn(clock.sleep(Duration::from_secs(10)));
        clock.sleepers(1).await;
        clock.advance(Duration::from_secs(9));
        tokio::task::yield_now().await;
        assert!(!sleep.is_finished());
        clock.advance(Duration::from_secs(1));
        sleep.await.unwrap();
    }

    #[test]
    fn a_jump_of_wall_time_leaves_elapsed_time_alone() {
        let clock = ManualClock::new();
        let before = clock.now();
        clock.jump_wall(SignedDuration::from_secs(-3600));
        assert_eq!(clock.now().duration_since(before).as_secs(), -3600);
        assert_eq!(clock.elapsed(), Duration::ZERO);
    }
}
