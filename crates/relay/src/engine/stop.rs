//! How an engine comes to its end: it stops sending, waits for what is in flight, and releases its lanes.

use std::time::Duration;

use postroom_core::{StoreError, StoreErrorKind};

use super::{Engine, Phase};

/// How long a stop waits for the store to take the lanes back.
const RELEASE_MAX: Duration = Duration::from_secs(2);

impl Engine {
    /// Stops sending; what was not sent stays unsettled for the next owner.
    pub(super) fn stop(&mut self) {
        let until = self.route.elapsed() + self.route.options.shutdown_grace;
        self.phase = Phase::Stopping { until };
        self.queue.close();
        self.route.transport.wind_down();
        tracing::info!(
            store = self.route.store_name,
            route = self.route.name(),
            in_flight = self.window.in_flight(),
            "stopping: no new deliveries, waiting for deliveries in flight"
        );
    }

    /// Whether the run is over: everything came to its end, or the grace did.
    pub(super) fn is_done(&mut self, now: Duration, quiet: bool) -> bool {
        let settled = self.window.is_empty() && self.settler.is_empty();
        match self.phase {
            Phase::Stopping { until } => (quiet && settled) || now >= until,
            Phase::Serving => {
                let nothing_waits =
                    self.ownership.is_paused() || (self.queue.is_empty() && !self.queue.has_followers());
                let drained = self.drain.is_exhausted() && settled && nothing_waits && quiet;
                if drained {
                    self.stop();
                }
                drained
            }
        }
    }

    /// Gives the lanes up and ends the transport.
    pub(super) async fn leave(self) {
        let unfinished = self.window.in_flight();
        if unfinished > 0 {
            tracing::warn!(
                store = self.route.store_name,
                route = self.route.name(),
                unfinished,
                "shutdown grace has ended; deliveries in flight will be repeated"
            );
        }
        for pause in [Some(Duration::from_millis(50)), Some(Duration::from_millis(500)), None] {
            let released = tokio::select! {
                biased;
                released = self.route.source.release() => released,
                () = self.route.clock.sleep(RELEASE_MAX) => Err(StoreError::new(
                    StoreErrorKind::Unreachable,
                    "release",
                    "the store does not answer",
                )),
            };
            match released {
                Ok(()) => break,
                Err(error) => {
                    tracing::warn!(
                        store = self.route.store_name,
                        route = self.route.name(),
                        %error,
                        "lanes could not be released"
                    );
                    if let Some(pause) = pause {
                        self.route.clock.sleep(pause).await;
                    }
                }
            }
        }
        self.route.transport.close().await;
    }
}
