//! Large actions in turns: each a transaction of its own, with room for everybody else in between.
//!
//! Whoever calls this sees to it that what is done so far stands by itself: the rest may never come.

use std::time::{Duration, Instant};

/// How long a writer that waits for the file may take to look again; SQLite's own number.
const WAITERS_LOOK_AGAIN: Duration = Duration::from_millis(100);

/// The turns of one action.
pub(super) struct Turns(Option<Instant>);

impl Turns {
    pub(super) fn new() -> Self {
        Self(None)
    }

    /// Waits before every turn but the first as long as the one before took: a writer in another process only tries now
    /// and then, and between transactions that follow each other it would hardly ever get in.
    pub(super) async fn next(&mut self) {
        if let Some(began) = self.0 {
            make_room(began.elapsed()).await;
        }
        self.0 = Some(Instant::now());
    }
}

/// Waits as long as a transaction took, or until every writer that waits has looked.
pub(super) async fn make_room(took: Duration) {
    tokio::time::sleep(took.min(WAITERS_LOOK_AGAIN)).await;
}
