//! What a running relay shows of itself: its metrics, its health and its traces, kept by an observer.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use postroom_core::{Delivery, Outcome, RouteHealth, Verdict};
use postroom_relay::{Observer, RouteObserver};

use crate::config::Config;
#[cfg(feature = "http")]
use crate::desks::Desks;
use crate::health::{Health, RoutePulse};
use crate::metrics::{Kinds, Metrics, RouteMeters};
use crate::pulls::Pulls;
#[cfg(feature = "otlp")]
use crate::telemetry::{RouteSpans, Tracer};

/// Watches the relays of this process.
#[derive(Debug)]
pub struct Operating {
    /// What they do, counted.
    pub metrics: Arc<Metrics>,
    /// How they are doing.
    pub health: Arc<Health>,
    /// Who makes spans of it, if somebody does.
    #[cfg(feature = "otlp")]
    pub tracer: Option<Tracer>,
    kinds: Mutex<Kinds>,
    #[cfg(feature = "http")]
    pub(crate) desks: Desks,
    pub(crate) pulls: Pulls,
}

impl Operating {
    /// Of a relay with this configuration. Within a tokio runtime.
    pub fn new(config: &Config) -> Self {
        let metrics = Arc::<Metrics>::default();
        let new = Self {
            #[cfg(feature = "otlp")]
            tracer: Tracer::start(&config.telemetry, &metrics),
            metrics,
            health: Arc::new(Health::new(config.relay.lease, config.http.late)),
            kinds: Mutex::default(),
            #[cfg(feature = "http")]
            desks: Desks::new(config),
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
    pub(crate) fn begin_again(&self, config: &Config) {
        self.learn(config);
        #[cfg(feature = "http")]
        self.desks.begin_again(config);
        self.health.begin_again(config.relay.lease, config.http.late);
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

impl Observer for Operating {
    fn route(self: Arc<Self>, store: &str, route: &str) -> Arc<dyn RouteObserver> {
        let kinds = self.kinds.lock().unwrap_or_else(PoisonError::into_inner);
        let meters = RouteMeters::new(&self.metrics, &kinds, store, route);
        let health = Arc::clone(&self.health);
        Arc::new(Watched {
            meters,
            #[cfg(feature = "otlp")]
            spans: self.tracer.as_ref().map(|tracer| tracer.route(store, route)),
            pulse: health.route(store, route),
            health,
        })
    }
}

/// One route that is watched.
struct Watched {
    meters: RouteMeters,
    #[cfg(feature = "otlp")]
    spans: Option<RouteSpans>,
    pulse: Arc<RoutePulse>,
    health: Arc<Health>,
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
    }

    fn health(&self, health: &RouteHealth) {
        self.meters.health(health);
        self.pulse.health(health);
        self.health.changed.notify_one();
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
        self.pulse.turned();
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        self.health.ended(&self.pulse);
    }
}

impl std::fmt::Debug for Watched {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Watched").field("pulse", &self.pulse).finish_non_exhaustive()
    }
}
