//! A relay: the engines of all its routes, and the maintenance of their stores.

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::Shared;
use postroom_core::{Clock, RelayIdentity, Retention, Store, StoreError, StoreErrorKind};
use tokio::sync::Barrier;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::clock::SystemClock;
use crate::engine::{self, Surroundings};
use crate::observer::{NoObserver, Observer};
use crate::options::RelayOptions;
use crate::outage::StoreOutage;
use crate::ownership_epoch::OwnershipEpoch;
use crate::route::{Route, StoreRoute};
use crate::slots::Slots;

/// Longest and shortest time between two prunes of a store.
const PRUNE_INTERVAL: Duration = Duration::from_mins(1);
const PRUNE_INTERVAL_MIN: Duration = Duration::from_secs(1);

/// Relay of one store: takes events and delivers them, route by route.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(async {
/// use postroom_memory::MemoryStore;
/// use postroom_relay::{Noop, Relay, RelayOptions, Route};
///
/// let relay = Relay::new(MemoryStore::new())
///     .options(RelayOptions::default().drain(true))
///     .route(Route::named("orders").matching("order.*").to(Noop));
/// relay.run(std::future::pending()).await.unwrap();
/// # });
/// ```
pub struct Relay {
    store: Arc<dyn Store>,
    relay: MultiStoreRelay,
}

impl Relay {
    /// Creates a relay without routes.
    pub fn new(store: impl Store + 'static) -> Self {
        Self { store: Arc::new(store), relay: MultiStoreRelay::default() }
    }

    /// Adds a route.
    pub fn route(mut self, route: Route) -> Self {
        self.relay.routes.push(StoreRoute::new(Arc::clone(&self.store), route));
        self
    }

    /// Uses these options instead of the defaults.
    pub fn options(mut self, options: RelayOptions) -> Self {
        self.relay.options = options;
        self
    }

    /// Uses this clock instead of the system's.
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.relay.clock = Some(clock);
        self
    }

    /// Sets the observer of deliveries and of the health of routes.
    pub fn observer(mut self, observer: Arc<dyn Observer>) -> Self {
        self.relay.observer = observer;
        self
    }

    /// Fixes the boot id and the random seed, so that a simulation can be repeated.
    pub fn deterministic(mut self, boot: impl Into<String>, seed: u64) -> Self {
        self.relay.boot = boot.into();
        self.relay.rng = fastrand::Rng::with_seed(seed);
        self
    }

    /// Runs until `shutdown` resolves (or, draining, until nothing is left), then stops gracefully: no new deliveries,
    /// those on their way get `shutdown_grace`, lanes are released. Dropping the future is a crash: nothing is lost,
    /// what was on its way is repeated.
    ///
    /// A route that the store refuses for good stops the others gracefully and is the error.
    pub async fn run(self, shutdown: impl Future<Output = ()> + Send) -> Result<(), RelayError> {
        self.relay.run(shutdown).await
    }
}

impl fmt::Debug for Relay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Relay").field("relay", &self.relay).finish_non_exhaustive()
    }
}

/// Relay of several stores, some of which may not be reachable yet; used by the server.
#[derive(Debug)]
pub struct MultiStoreRelay {
    options: RelayOptions,
    clock: Option<Arc<dyn Clock>>,
    observer: Arc<dyn Observer>,
    boot: String,
    rng: fastrand::Rng,
    routes: Vec<StoreRoute>,
}

impl Default for MultiStoreRelay {
    fn default() -> Self {
        Self::new(RelayOptions::default(), Arc::new(NoObserver))
    }
}

/// Error of a route that cannot be served.
#[derive(Debug)]
pub struct RelayError {
    /// Name of the store.
    pub store: String,
    /// Name of the route.
    pub route: String,
    /// Error of the store.
    pub error: StoreError,
}

impl fmt::Display for RelayError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "route {:?} of store {:?} cannot be served: {}", self.route, self.store, self.error)
    }
}

impl std::error::Error for RelayError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.error.source()
    }
}

impl MultiStoreRelay {
    /// Creates a relay without routes.
    pub fn new(options: RelayOptions, observer: Arc<dyn Observer>) -> Self {
        Self {
            options,
            clock: None,
            observer,
            boot: uuid::Uuid::new_v4().simple().to_string(),
            rng: fastrand::Rng::new(),
            routes: Vec::new(),
        }
    }

    /// Returns the random part of the relay's identity.
    pub fn boot(&self) -> &str {
        &self.boot
    }

    /// Adds a route.
    pub fn route(mut self, route: StoreRoute) -> Self {
        self.routes.push(route);
        self
    }

    /// Runs as [`Relay::run`] does.
    pub async fn run(mut self, shutdown: impl Future<Output = ()> + Send) -> Result<(), RelayError> {
        let clock = self.clock.take().unwrap_or_else(|| Arc::new(SystemClock::new()));
        let options = Arc::new(self.options.with_take_for_window());
        let identity = RelayIdentity {
            name: options.name.clone(),
            boot: self.boot,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            lease: options.lease,
        };
        let slots = Slots::new(options.in_flight_max.max(1), self.routes.len());
        let bound = (options.in_flight_max / self.routes.len().max(1)).max(1);
        let stop = CancellationToken::new();
        let mut engines = JoinSet::new();
        let mut stores = BTreeMap::new();
        let mut epochs: BTreeMap<String, OwnershipEpoch> = BTreeMap::new();
        let mut outages: BTreeMap<String, StoreOutage> = BTreeMap::new();
        let mut routes_of: BTreeMap<String, usize> = BTreeMap::new();
        for route in &self.routes {
            *routes_of.entry(route.store_name.clone()).or_default() += 1;
        }
        let registered: BTreeMap<String, Arc<Barrier>> =
            routes_of.into_iter().map(|(store, routes)| (store, Arc::new(Barrier::new(routes)))).collect();
        for mut route in self.routes {
            let store: Shared<_> = route.store.shared();
            route.store = Box::pin(store.clone());
            stores.entry(route.store_name.clone()).or_insert(store);
            let around = Surroundings {
                identity: identity.clone(),
                options: options.clone(),
                clock: clock.clone(),
                observer: self.observer.clone(),
                share: slots.share(),
                bound,
                ownership_view: epochs.entry(route.store_name.clone()).or_default().view(),
                outage: outages.entry(route.store_name.clone()).or_default().clone(),
                registered: registered[&route.store_name].clone(),
                rng: self.rng.fork(),
            };
            let names = (route.store_name.clone(), route.route.spec.name.clone());
            let stop = stop.clone();
            engines.spawn(async move {
                let (store, route_name) = names;
                engine::serve(route, around, stop).await.map_err(|error| RelayError { store, route: route_name, error })
            });
        }
        let mut keepers = JoinSet::new();
        for store in stores.into_values() {
            keepers.spawn(keep(store, options.clone(), clock.clone()));
        }

        tokio::pin!(shutdown);
        let mut result = Ok(());
        loop {
            tokio::select! {
                biased;
                () = &mut shutdown, if !stop.is_cancelled() => stop.cancel(),
                ended = engines.join_next() => match ended {
                    None => break,
                    Some(Ok(Ok(()))) => {}
                    Some(Ok(Err(error))) => {
                        stop.cancel();
                        result = Err(error);
                    }
                    Some(Err(panic)) => {
                        stop.cancel();
                        if panic.is_panic() {
                            std::panic::resume_unwind(panic.into_panic());
                        }
                    }
                },
            }
        }
        result
    }
}

/// Returns how long to wait between two prunes.
///
/// A store whose log is partitioned by time can empty a partition only while that is old and its turn has not come
/// again. Both last about as long as things are kept: a relay that looks less often may meet the same partition each
/// time.
fn between_prunes(retention: &Retention) -> Duration {
    let kept = retention.delivered.into_iter().chain(retention.attempts).min();
    kept.map_or(PRUNE_INTERVAL, |kept| kept.clamp(PRUNE_INTERVAL_MIN, PRUNE_INTERVAL))
}

/// Applies retention once a minute, or as often as something becomes old.
///
/// Where everything is kept for ever, the store still removes what only it needs: checkpoints that newer ones replace,
/// sums of minutes, heartbeats of relays that are gone.
async fn keep(store: impl Future<Output = Arc<dyn Store>>, options: Arc<RelayOptions>, clock: Arc<dyn Clock>) {
    let retention = options.retention.unwrap_or(Retention { delivered: None, attempts: None, inbox: None });
    let store = store.await;
    loop {
        clock.sleep(between_prunes(&retention)).await;
        match store.retain().prune(&retention).await {
            Ok(pruned) => tracing::debug!(store = store.name(), events = pruned.events, "retention applied"),
            // That the store is away is told where deliveries find it out.
            Err(error) if error.kind == StoreErrorKind::Unreachable => {
                tracing::debug!(store = store.name(), %error, "retention could not be applied");
            }
            Err(error) => tracing::warn!(store = store.name(), %error, "retention could not be applied"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_for_less_than_a_minute_is_pruned_as_often() {
        let between = |delivered: Option<u64>, attempts: Option<u64>| {
            let of = |seconds: Option<u64>| seconds.map(Duration::from_secs);
            between_prunes(&Retention { delivered: of(delivered), attempts: of(attempts), inbox: None }).as_secs()
        };
        assert_eq!(between(None, None), 60);
        assert_eq!(between(Some(7 * 86_400), Some(3_600)), 60);
        assert_eq!(between(Some(20), None), 20);
        assert_eq!(between(Some(20), Some(4)), 4);
        assert_eq!(between(Some(0), None), 1);
    }
}
