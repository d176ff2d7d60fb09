//! A hint that there may be something to take. Losing one costs a poll interval, never an event.

use std::sync::Arc;

use tokio::sync::watch;

/// Wakes the relays of this process; cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct Wake(Arc<watch::Sender<u64>>);

impl Wake {
    /// Says that something was appended or changed by an operator.
    pub fn wake(&self) {
        self.0.send_modify(|n| *n = n.wrapping_add(1));
    }

    /// An ear of one's own: hears every hint given from now on.
    pub fn listen(&self) -> Ear {
        Ear(self.0.subscribe())
    }
}

/// Hears the hints of a [`Wake`].
#[derive(Debug, Clone)]
pub struct Ear(watch::Receiver<u64>);

impl Ear {
    /// Resolves at the next hint, or at once if one came since the last call.
    pub async fn heard(&mut self) {
        if self.0.changed().await.is_err() {
            // The store is gone; polling decides from here.
            std::future::pending::<()>().await;
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
