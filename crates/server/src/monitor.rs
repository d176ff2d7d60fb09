//! What a running relay shows of itself: its metrics, its health and its traces, kept by an observer.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use postroom_core::{ConsumerLags, Delivery, Outcome, RouteHealth, Verdict};
use postroom_relay::{Observer, RouteObserver};

#[cfg(feature = "http")]
use crate::admin_stores::AdminStores;
use crate::config::Config;
use crate::health::{Health, RouteProgress};
use crate::metrics::{Kinds, Metrics, RouteMeters};
use crate::pulls::Pulls;
#[cfg(feature = "otlp")]
use crate::telemetry::{RouteSpans, Tracer};

/// Watches the relays of this process.
#[derive(Debug)]
pub struct Monitor {
    /// Metrics of the relay.
    pub metrics: Arc<Metrics>,
    /// Health of the relay.
    pub health: Arc<Health>,
    /// Tracer, if a collector is configured.
    #[cfg(feature = "otlp")]
    pub tracer: Option<Tracer>,
    /// Deliveries settled since the start of the process.
    pub totals: Arc<Totals>,
    kinds: Mutex<Kinds>,
    #[cfg(feature = "http")]
    pub(crate) admin_stores: AdminStores,
    pub(crate) pulls: Pulls,
}

/// Numbers of settled deliveries, of all routes.
#[derive(Debug, Default)]
pub struct Totals {
    /// Delivered.
    pub delivered: AtomicU64,
    /// Failed, to be tried again.
    pub retried: AtomicU64,
    /// Given up.
    pub dead: AtomicU64,
}

impl Totals {
    fn settled(&self, verdict: &Verdict) {
        let number = match verdict {
            Verdict::Delivered(_) => &self.delivered,
            Verdict::Retry { .. } => &self.retried,
            Verdict::Dead { .. } => &self.dead,
            Verdict::Returned => return,
        };
        number.fetch_add(1, Ordering::Relaxed);
    }
}

impl Monitor {
    /// Creates the monitor of a relay with this configuration. Must run within a tokio runtime.
    pub fn new(config: &Config) -> Self {
        let metrics = Arc::<Metrics>::default();
        let new = Self {
            #[cfg(feature = "otlp")]
            tracer: Tracer::start(&config.telemetry, &metrics),
            metrics,
            health: Arc::new(Health::new(config.relay.lease, config.http.ready_max_lag)),
            totals: Arc::default(),
            kinds: Mutex::default(),
            #[cfg(feature = "http")]
            admin_stores: AdminStores::new(config),
            pulls: Pulls::default(),
        };
        new.learn(config);
        new
    }

    /// Waits, for a moment, until what was seen is where it should be.
    #[cfg_attr(not(feature = "otlp"), expect(clippy::unused_async, reason = "only spans are waited for"))]
    pub async fn stop(&self) {
        #[cfg(feature = "otlp")]
        if let Some(tracer) = &self.tracer {
            tracer.stop().await;
        }
    }

    /// From now on of a relay with this configuration; what was counted stays.
    pub(crate) fn reload(&self, config: &Config) {
        self.learn(config);
        #[cfg(feature = "http")]
        self.admin_stores.reload(config);
        self.health.reload(config.relay.lease, config.http.ready_max_lag);
    }

    /// Where routes go, by their names.
    #[cfg(feature = "http")]
    pub(crate) fn kinds(&self) -> Kinds {
        self.kinds.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Where routes go.
    fn learn(&self, config: &Config) {
        *self.kinds.lock().unwrap_or_else(PoisonError::into_inner) =
            config.routes.iter().map(|route| (route.definition.name.clone(), route.to.name())).collect();
        #[cfg(feature = "otlp")]
        if let Some(tracer) = &self.tracer {
            tracer.routes(&config.routes);
        }
    }
}

impl Observer for Monitor {
    fn route(self: Arc<Self>, store: &str, route: &str) -> Arc<dyn RouteObserver> {
        let kinds = self.kinds.lock().unwrap_or_else(PoisonError::into_inner);
        let meters = RouteMeters::new(&self.metrics, &kinds, store, route);
        let health = Arc::clone(&self.health);
        Arc::new(Watched {
            meters,
            totals: Arc::clone(&self.totals),
            #[cfg(feature = "otlp")]
            spans: self.tracer.as_ref().map(|tracer| tracer.route(store, route)),
            progress: health.route(store, route),
            health,
            name: (store.to_owned(), route.to_owned()),
        })
    }
}

/// One route that is watched.
struct Watched {
    meters: RouteMeters,
    totals: Arc<Totals>,
    #[cfg(feature = "otlp")]
    spans: Option<RouteSpans>,
    progress: Arc<RouteProgress>,
    health: Arc<Health>,
    /// The store and the route.
    name: (String, String),
}

impl RouteObserver for Watched {
    #[cfg_attr(not(feature = "otlp"), expect(unused_variables, reason = "only spans tell of which delivery"))]
    fn tried(&self, delivery: &Delivery, outcome: &Outcome, took: Duration) {
        self.meters.tried(outcome, took);
        #[cfg(feature = "otlp")]
        if let Some(spans) = &self.spans {
            spans.tried(delivery, outcome, took);
        }
    }

    fn settled(&self, delivery: &Delivery, verdict: &Verdict) {
        self.meters.settled(delivery, verdict);
        self.totals.settled(verdict);
    }

    fn health(&self, health: &RouteHealth) {
        self.meters.health(health);
        self.progress.health(health);
        self.health.changed.notify_one();
    }

    fn consumers(&self) -> Option<ConsumerLags> {
        self.health.consumers(&self.name)
    }

    fn in_flight(&self, deliveries: usize) {
        self.meters.in_flight(deliveries);
    }

    fn read(&self, _: usize, took: Duration) {
        self.meters.read(took);
    }

    fn wrote(&self, _: usize, took: Duration) {
        self.meters.wrote(took);
    }

    fn took_over(&self, lanes: usize) {
        self.meters.took_over(lanes);
    }

    fn turned(&self) {
        self.progress.turned();
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        self.health.ended(&self.progress);
    }
}

impl std::fmt::Debug for Watched {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Watched").field("progress", &self.progress).finish_non_exhaustive()
    }
}
