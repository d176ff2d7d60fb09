//! Bounded waits on conditions that another process makes true.

use std::thread;
use std::time::{Duration, Instant};

/// Between two looks.
const LOOK: Duration = Duration::from_millis(5);

/// Looks until there is something to see; how long it took comes with it. Fails the test when it takes longer than `most`.
pub fn within<T>(most: Duration, what: &str, mut look: impl FnMut() -> Option<T>) -> (T, Duration) {
    let since = Instant::now();
    loop {
        if let Some(seen) = look() {
            return (seen, since.elapsed());
        }
        assert!(since.elapsed() < most, "after {most:?} still not: {what}");
        thread::park_timeout(LOOK);
    }
}

/// Waits until it is so. Fails the test after five minutes: long enough for a busy machine.
pub fn until(what: &str, mut so: impl FnMut() -> bool) {
    within(Duration::from_mins(5), what, || so().then_some(()));
}
