//! Progress of long work, as one line on stderr that is rewritten in place. Only on a terminal, only from the second second
//! on, and gone at the end.

use std::future::Future;
use std::io::{self, IsTerminal as _, Write as _};
use std::pin::pin;
use std::time::{Duration, Instant};

use tokio::time::{MissedTickBehavior, interval};

use crate::when;

/// Time after which work is long.
const AFTER: Duration = Duration::from_secs(1);
/// Pause between two drawings.
const PAUSE: Duration = Duration::from_millis(200);

/// Progress line of a piece of work.
#[derive(Debug)]
pub(crate) struct Progress {
    terminal: bool,
    began: Instant,
    drawn: Option<Instant>,
}

impl Progress {
    /// The work begins.
    pub(crate) fn begin() -> Self {
        Self { terminal: io::stderr().is_terminal(), began: Instant::now(), drawn: None }
    }

    /// Draws how far the work is, if it is time.
    pub(crate) fn show(&mut self, text: impl FnOnce() -> String) {
        if self.is_time(Instant::now()) {
            // Nobody is told less when it cannot be drawn.
            let _ = write!(io::stderr(), "\r\x1b[K{}", text());
            self.drawn = Some(Instant::now());
        }
    }

    fn is_time(&self, now: Instant) -> bool {
        let waited = |since: Instant, pause: Duration| now.saturating_duration_since(since) >= pause;
        self.terminal && waited(self.began, AFTER) && self.drawn.is_none_or(|drawn| waited(drawn, PAUSE))
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.drawn.is_some() {
            let _ = write!(io::stderr(), "\r\x1b[K");
        }
    }
}

/// Does work that cannot tell how far it is; shows what is done, and for how long.
pub(crate) async fn during<T>(what: &str, work: impl Future<Output = T>) -> T {
    let mut progress = Progress::begin();
    let mut ticks = interval(PAUSE);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut work = pin!(work);
    loop {
        tokio::select! {
            done = &mut work => return done,
            _ = ticks.tick() => {
                let began = progress.began;
                progress.show(|| format!("{what}: {}", when::age(began.elapsed())));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_long_work_on_a_terminal_is_drawn_and_not_too_often() {
        let began = Instant::now();
        let at = |millis| began + Duration::from_millis(millis);
        let mut progress = Progress { terminal: true, began, drawn: None };
        assert!(!progress.is_time(at(999)) && progress.is_time(at(1000)));
        progress.drawn = Some(at(1000));
        assert!(!progress.is_time(at(1199)) && progress.is_time(at(1200)));
        progress = Progress { terminal: false, began, drawn: None };
        assert!(!progress.is_time(at(5000)));
    }

    #[tokio::test]
    async fn work_gives_back_what_it_made() {
        assert_eq!(during("counting", async { 7 }).await, 7);
    }
}
