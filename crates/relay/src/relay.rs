//! A relay: the engines of all its routes, and the upkeep of their stores.

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::Shared;
use postroom_core::{Clock, RelayIdentity, Retention, Store, StoreError};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::clock::SystemClock;
use crate::doubts::Doubts;
use crate::engine::{self, Surroundings};
use crate::observer::{NoObserver, Observer};
use crate::options::{RelayOptions, RouteRun};
use crate::slots::Slots;

/// How often a store is pruned, at least and at most.
const PRUNE_INTERVAL: Duration = Duration::from_mins(1);
const PRUNE_INTERVAL_MIN: Duration = Duration::from_secs(1);

/// Takes events from stores and delivers them, route by route.
#[derive(Debug)]
pub struct Relay {
    options: RelayOptions,
    clock: Option<Arc<dyn Clock>>,
    observer: Arc<dyn Observer>,
    boot: String,
    rng: fastrand::Rng,
    routes: Vec<RouteRun>,
}

/// A route that cannot be served.
#[derive(Debug)]
pub struct RelayError {
    /// The store.
    pub store: String,
    /// The route.
    pub route: String,
    /// Why.
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

impl Relay {
    /// A relay without routes.
    pub fn new(options: RelayOptions) -> Self {
        Self {
            options,
            clock: None,
            observer: Arc::new(NoObserver),
            boot: uuid::Uuid::new_v4().simple().to_string(),
            rng: fastrand::Rng::new(),
            routes: Vec::new(),
        }
    }

    /// Uses this clock instead of the system's.
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = Some(clock);
        self
    }

    /// Tells this observer what happens.
    pub fn observer(mut self, observer: Arc<dyn Observer>) -> Self {
        self.observer = observer;
        self
    }

    /// The random part of who it is.
    pub fn boot(&self) -> &str {
        &self.boot
    }

    /// Fixes what is otherwise random, so that a simulation can be repeated.
    pub fn deterministic(mut self, boot: impl Into<String>, seed: u64) -> Self {
        self.boot = boot.into();
        self.rng = fastrand::Rng::with_seed(seed);
        self
    }

    /// Serves this route too.
    pub fn serve(mut self, route: RouteRun) -> Self {
        self.routes.push(route);
        self
    }

    /// Runs until `shutdown` resolves (or, draining, until nothing is left), then stops gracefully: no new deliveries,
    /// those on their way get `shutdown_grace`, lanes are released. Dropping the future is a crash: nothing is lost,
    /// what was on its way is repeated.
    ///
    /// A route that a store refuses for good stops the others gracefully and is the error.
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
        let mut doubts: BTreeMap<String, Doubts> = BTreeMap::new();
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
                doubts: doubts.entry(route.store_name.clone()).or_default().watch(),
                rng: self.rng.fork(),
            };
            let names = (route.store_name.clone(), route.definition.name.clone());
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

/// A store whose log is a ring can empty a part of it only for as long as that is old and its turn has not come again. Both last
/// about as long as things are kept, so that who looks less often may meet the same part each time.
fn between_prunes(retention: &Retention) -> Duration {
    let kept = retention.delivered.into_iter().chain(retention.attempts).min();
    kept.map_or(PRUNE_INTERVAL, |kept| kept.clamp(PRUNE_INTERVAL_MIN, PRUNE_INTERVAL))
}

/// Applies retention once a minute, or as often as something becomes old. Where nothing is to be kept for a limited time, the store still removes what only it needs: checkpoints
/// that newer ones replace, sums of minutes, heartbeats of relays that are gone.
async fn keep(store: impl Future<Output = Arc<dyn Store>>, options: Arc<RelayOptions>, clock: Arc<dyn Clock>) {
    let retention = options.retention.unwrap_or(Retention { delivered: None, attempts: None, inbox: None });
    let store = store.await;
    loop {
        clock.sleep(between_prunes(&retention)).await;
        match store.desk().prune(&retention, false).await {
            Ok(pruned) => tracing::debug!(store = store.name(), events = pruned.events, "retention applied"),
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
