//! What a relay is told: who it is, its limits, its routes, and who watches.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use postroom_core::{Budget, Retention, Store};

/// Options of a relay process.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct RelayOptions {
    /// Name of the instance; a random boot id is added. Defaults to `postroom`.
    pub name: String,
    /// Time after which another relay may take over a lane.
    ///
    /// Too short and a slow database makes lanes wander; too long and a crashed relay delays its share.
    ///
    /// Defaults to 30 seconds.
    pub lease: Duration,
    /// Maximum deliveries in flight or not yet settled, over all routes; also the maximum number of duplicates after a crash.
    ///
    /// Too small and a slow destination idles; too large and a crash repeats much.
    ///
    /// Defaults to 512.
    pub in_flight_max: usize,
    /// Time that a stop waits for deliveries in flight. Defaults to 20 seconds.
    pub shutdown_grace: Duration,
    /// Budget of a take; a quarter of a large `in_flight_max` if that is more. Defaults to 500 rows, 4 MiB.
    pub take: Budget,
    /// How long things are kept; applied once a minute by a relay that owns lanes. `None` keeps events, tries and
    /// acceptances for ever; superseded checkpoints and old heartbeats go all the same.
    pub retention: Option<Retention>,
    /// Whether a run returns when no delivery is due, in flight or retrying, instead of waiting for more. Defaults to false.
    pub drain: bool,
}

impl Default for RelayOptions {
    fn default() -> Self {
        Self {
            name: "postroom".to_owned(),
            lease: Duration::from_secs(30),
            in_flight_max: 512,
            shutdown_grace: Duration::from_secs(20),
            take: Budget { rows: 500, bytes: 4 * 1024 * 1024 },
            retention: Some(Retention::default()),
            drain: false,
        }
    }
}

impl RelayOptions {
    /// Sets the relay's name.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// Sets the time after which another relay may take over a lane.
    pub fn lease(mut self, lease: Duration) -> Self {
        self.lease = lease;
        self
    }

    /// Sets the maximum number of deliveries in flight or not yet settled.
    pub fn in_flight_max(mut self, in_flight_max: usize) -> Self {
        self.in_flight_max = in_flight_max;
        self
    }

    /// Sets how long a stop waits for deliveries in flight.
    pub fn shutdown_grace(mut self, shutdown_grace: Duration) -> Self {
        self.shutdown_grace = shutdown_grace;
        self
    }

    /// Sets the budget of a take.
    pub fn take(mut self, take: Budget) -> Self {
        self.take = take;
        self
    }

    /// Sets the retention of events, attempts and acceptances; `None` keeps them for ever.
    pub fn retention(mut self, retention: Option<Retention>) -> Self {
        self.retention = retention;
        self
    }

    /// Returns from a run when nothing is left, instead of waiting for more.
    pub fn drain(mut self, drain: bool) -> Self {
        self.drain = drain;
        self
    }

    /// A wide window is not filled in small steps: every take costs the store the same few round trips.
    pub(crate) fn with_take_for_window(mut self) -> Self {
        let rows = self.take.rows.max(self.in_flight_max / 4);
        let bytes = self.take.bytes.saturating_mul(rows) / self.take.rows.max(1);
        self.take = Budget { rows, bytes };
        self
    }
}

/// Polling of a store by an engine.
///
/// Shorter finds events of other processes sooner and costs the database more; appends of this process are seen at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Poll {
    /// Pause between two polls while events come. Defaults to 2 ms.
    pub min: Duration,
    /// Longest pause between two polls. Defaults to 50 ms.
    pub max: Duration,
}

impl Default for Poll {
    fn default() -> Self {
        Self { min: Duration::from_millis(2), max: Duration::from_millis(50) }
    }
}

impl Poll {
    /// Sets the pause between two polls while events come.
    pub fn min(mut self, min: Duration) -> Self {
        self.min = min;
        self
    }

    /// Sets the longest pause between two polls.
    pub fn max(mut self, max: Duration) -> Self {
        self.max = max;
        self
    }
}

/// Future of a store that may not be reachable yet: resolves when it is.
pub type StoreReady = Pin<Box<dyn Future<Output = Arc<dyn Store>> + Send>>;
