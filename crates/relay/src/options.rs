//! What a relay is told: who it is, its limits, its routes, and who watches.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use postroom_core::{BreakerPolicy, Budget, Retention, RetryPolicy, RouteDefinition, Store, Transport};

/// Settings of one relay process.
#[derive(Debug, Clone)]
pub struct RelayOptions {
    /// Name of the instance; a random boot id is added. Defaults to `postroom`.
    pub name: String,
    /// How long a relay may hold a lane before another relay may take it.
    ///
    /// Too short and a slow database makes lanes wander; too long and a crashed relay delays its share.
    ///
    /// Defaults to 30 seconds.
    pub lease: Duration,
    /// Most deliveries on their way or not yet settled, over all routes: the bound of duplicates after one crash.
    ///
    /// Too small and a slow destination idles; too large and a crash repeats much.
    ///
    /// Defaults to 512.
    pub in_flight_max: usize,
    /// How long a stop waits for what is in flight. Defaults to 20 seconds.
    pub shutdown_grace: Duration,
    /// How much one take brings; a quarter of a large `in_flight_max` if that is more. Defaults to 500 rows, 4 MiB.
    pub take: Budget,
    /// How long things are kept; applied once a minute by a relay that owns lanes. `None` keeps events, tries and
    /// acceptances for ever; superseded checkpoints and old heartbeats go all the same.
    pub retention: Option<Retention>,
    /// Return when nothing is due, in flight or retrying, instead of waiting for more. Defaults to false.
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
    /// A wide window is not filled in small steps: every take costs the store the same few round trips.
    pub(crate) fn with_take_for_window(mut self) -> Self {
        let rows = self.take.rows.max(self.in_flight_max / 4);
        let bytes = self.take.bytes.saturating_mul(rows) / self.take.rows.max(1);
        self.take = Budget { rows, bytes };
        self
    }
}

/// How often an engine looks into its store.
///
/// Shorter finds events of other processes sooner and costs the database more; appends of this process are seen at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Poll {
    /// Pause between two looks while events come. Defaults to 2 ms.
    pub min: Duration,
    /// Longest pause between two looks. Defaults to 50 ms.
    pub max: Duration,
}

impl Default for Poll {
    fn default() -> Self {
        Self { min: Duration::from_millis(2), max: Duration::from_millis(50) }
    }
}

/// A store that may not be reachable yet: resolves when it is.
pub type StoreReady = Pin<Box<dyn Future<Output = Arc<dyn Store>> + Send>>;

/// One route on one store, with everything needed to serve it.
pub struct RouteRun {
    /// Name of the store, for logs before it is reachable.
    pub store_name: String,
    /// The store, as soon as it is reachable.
    pub store: StoreReady,
    /// What the store keeps of the route.
    pub definition: RouteDefinition,
    /// Where it goes.
    pub transport: Arc<dyn Transport>,
    /// How it retries.
    pub retry: RetryPolicy,
    /// When it stops asking.
    pub breaker: BreakerPolicy,
    /// Most deliveries per second; `None` is no limit.
    pub rate: Option<f64>,
    /// How often it looks.
    pub poll: Poll,
}

impl RouteRun {
    /// A route on a store that is there, with default retries and breaker and no rate limit.
    pub fn new(store: impl Store + 'static, definition: RouteDefinition, transport: impl Transport + 'static) -> Self {
        let store: Arc<dyn Store> = Arc::new(store);
        Self {
            store_name: store.name().to_owned(),
            store: Box::pin(std::future::ready(store)),
            definition,
            transport: Arc::new(transport),
            retry: RetryPolicy::default(),
            breaker: BreakerPolicy::default(),
            rate: None,
            poll: Poll::default(),
        }
    }
}

impl fmt::Debug for RouteRun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RouteRun")
            .field("store", &self.store_name)
            .field("route", &self.definition.name)
            .finish_non_exhaustive()
    }
}
