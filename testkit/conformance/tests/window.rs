//! The window in memory passes the suite, and stays within its bounds.

use std::sync::Arc;
use std::time::Duration;

use postroom_conformance::windows::DedupWindowHarness;
use postroom_consumer::dedup::{DedupClaim, DedupWindow as _, DedupWindowError, DedupWindowOptions, MemoryDedupWindow};
use postroom_core::{FailureKind, RetryPolicy};
use postroom_testing::ManualClock;

struct MemoryStore(ManualClock);

impl DedupWindowHarness for MemoryStore {
    type DedupWindow = MemoryDedupWindow;

    async fn fresh() -> Self {
        Self(ManualClock::new())
    }

    fn window(&self, options: &DedupWindowOptions) -> Result<MemoryDedupWindow, DedupWindowError> {
        Ok(MemoryDedupWindow::new(options)?.clock(Arc::new(self.0.clone())))
    }

    async fn pass(&self, time: Duration) {
        self.0.advance(time);
    }
}

postroom_conformance::window_suite!(MemoryStore);

#[tokio::test]
async fn a_full_window_takes_no_more_rather_than_forget_and_gives_room_back_when_entries_end() {
    let harness = MemoryStore(ManualClock::new());
    let options = DedupWindowOptions::new(&RetryPolicy::default().attempts(1)).entries_max(100);
    let window = harness.window(&options).unwrap();
    for n in 0..100 {
        let DedupClaim::New(ticket) = window.claim("mailer", &n.to_string()).await.unwrap() else {
            panic!("{n} is new")
        };
        assert!(window.confirm(ticket).await.is_ok());
    }
    let full = window.claim("mailer", "one more").await.unwrap_err();
    assert_eq!((full.kind, &*full.code), (FailureKind::Unavailable, "dedup.full"));
    assert_eq!(window.claim("mailer", "7").await, Ok(DedupClaim::Duplicate), "what is remembered stays remembered");
    harness.pass(Duration::from_mins(10)).await;
    assert!(matches!(window.claim("mailer", "one more").await, Ok(DedupClaim::New(_))));
    assert_eq!(window.entries(), 1);
}

#[test]
fn a_window_without_room_is_not_built() {
    let options = DedupWindowOptions::new(&RetryPolicy::default().attempts(1)).entries_max(0);
    assert_eq!(MemoryDedupWindow::new(&options).err(), Some(DedupWindowError::NoEntries));
}
