//! A hint that there may be something to take. Losing one costs a poll interval, never an event.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::Notify;

/// Wakes the relays of this process; cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct Wake(Arc<Hints>);

/// Counts hints. (Not a `watch`: that one wakes its listeners in random order, and simulations must repeat.)
#[derive(Debug, Default)]
struct Hints {
    given: AtomicU64,
    notify: Notify,
}

impl Wake {
    /// Says that something was appended or changed by an operator.
    pub fn wake(&self) {
        self.0.given.fetch_add(1, Ordering::Release);
        self.0.notify.notify_waiters();
    }

    /// How many hints were given so far.
    pub fn given(&self) -> u64 {
        self.0.given.load(Ordering::Acquire)
    }

    /// An ear of one's own: hears every hint given from now on.
    pub fn listen(&self) -> Ear {
        Ear { heard: self.0.given.load(Ordering::Acquire), hints: self.0.clone() }
    }
}

/// Hears the hints of a [`Wake`].
#[derive(Debug, Clone)]
pub struct Ear {
    hints: Arc<Hints>,
    heard: u64,
}

impl Ear {
    /// Resolves at the next hint, or at once if one came since the last call.
    pub async fn heard(&mut self) {
        loop {
            let mut notified = pin!(self.hints.notify.notified());
            // Listening starts before the look, so that a hint in between is heard.
            notified.as_mut().enable();
            let given = self.hints.given.load(Ordering::Acquire);
            if given != self.heard {
                self.heard = given;
                return;
            }
            notified.await;
        }
    }
}

/// What an append returns: the ids, and the hint to give after the commit.
#[derive(Debug, Clone)]
#[must_use = "call wake() after the commit, so that a relay in this process looks at once"]
pub struct Appended {
    ids: Vec<String>,
    wake: Wake,
}

impl Appended {
    /// For stores.
    pub fn new(ids: Vec<String>, wake: Wake) -> Self {
        Self { ids, wake }
    }

    /// The ids of the events, in the order given; empty when `append_once` found its word already there.
    pub fn ids(&self) -> &[String] {
        &self.ids
    }

    /// Tells the relays of this process to look now rather than at the next poll. Call it after the commit.
    pub fn wake(&self) {
        self.wake.wake();
    }
}
