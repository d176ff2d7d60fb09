//! A hint that there may be something to take. Losing one costs a poll interval, never an event.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::Notify;

/// Notifier of the relays in this process; cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct Notifier(Arc<Hints>);

/// Counts hints. (Not a `watch`: that one wakes its listeners in random order, and simulations must repeat.)
#[derive(Debug, Default)]
struct Hints {
    given: AtomicU64,
    notify: Notify,
}

impl Notifier {
    /// Notifies relays that an event was appended, or that an operator changed something.
    pub fn wake(&self) {
        self.0.given.fetch_add(1, Ordering::Release);
        self.0.notify.notify_waiters();
    }

    /// Returns the number of notifications so far.
    pub fn given(&self) -> u64 {
        self.0.given.load(Ordering::Acquire)
    }

    /// Returns a listener that sees every notification from now on.
    pub fn notified(&self) -> Notified {
        Notified { seen: self.0.given.load(Ordering::Acquire), hints: self.0.clone() }
    }
}

/// Listener to the notifications of a [`Notifier`].
#[derive(Debug, Clone)]
pub struct Notified {
    hints: Arc<Hints>,
    seen: u64,
}

impl Notified {
    /// Waits for the next notification, or returns at once if one came since the last call.
    pub async fn changed(&mut self) {
        loop {
            let mut notified = pin!(self.hints.notify.notified());
            // Listening starts before the look, so that a hint in between is noticed.
            notified.as_mut().enable();
            let given = self.hints.given.load(Ordering::Acquire);
            if given != self.seen {
                self.seen = given;
                return;
            }
            notified.await;
        }
    }
}

/// Result of an append: the ids, and the hint to give after the commit of a transaction of the caller's own pool.
///
/// A transaction that the store began gives that hint itself when it is committed.
#[derive(Debug, Clone)]
pub struct Appended {
    ids: Vec<String>,
    wake: Notifier,
}

impl Appended {
    /// Creates the result of an append, for stores.
    pub fn new(ids: Vec<String>, wake: Notifier) -> Self {
        Self { ids, wake }
    }

    /// Returns the ids of the events, in the order given; empty if `append_once` found its idempotency key in use.
    pub fn ids(&self) -> &[String] {
        &self.ids
    }

    /// Tells the relays of this process to look now rather than at the next poll. Call it after the commit of a
    /// transaction of your own pool; one of `store.begin()` does it by itself.
    pub fn wake(&self) {
        self.wake.wake();
    }
}
