//! What a running relay shows of itself: its metrics and its health, kept by an observer.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use postroom_core::{Delivery, Outcome, RouteHealth, Verdict};
use postroom_relay::{Observer, RouteObserver};

use crate::config::Config;
use crate::desks::Desks;
use crate::health::{Health, RoutePulse};
use crate::metrics::{Kinds, Metrics, RouteMeters};
use crate::pulls::Pulls;

/// Watches the relays of this process.
#[derive(Debug)]
pub struct Operating {
    /// What they do, counted.
    pub metrics: Arc<Metrics>,
    /// How they are doing.
    pub health: Arc<Health>,
    kinds: Mutex<Kinds>,
    pub(crate) desks: Desks,
    pub(crate) pulls: Pulls,
}

impl Operating {
    /// Of a relay with this configuration.
    pub fn new(config: &Config) -> Self {
        Self {
            metrics: Arc::default(),
            health: Arc::new(Health::new(config.relay.lease, config.http.late)),
            kinds: Mutex::new(kinds(config)),
            desks: Desks::new(config),
            pulls: Pulls::default(),
        }
    }
}

impl Operating {
    /// From now on of a relay with this configuration; what was counted stays.
    pub(crate) fn begin_again(&self, config: &Config) {
        *self.kinds.lock().unwrap_or_else(PoisonError::into_inner) = kinds(config);
        self.desks.begin_again(config);
        self.health.begin_again(config.relay.lease, config.http.late);
    }
}

fn kinds(config: &Config) -> Kinds {
    config.routes.iter().map(|route| (route.definition.name.clone(), route.to.name())).collect()
}

impl Observer for Operating {
    fn route(self: Arc<Self>, store: &str, route: &str) -> Arc<dyn RouteObserver> {
        let kinds = self.kinds.lock().unwrap_or_else(PoisonError::into_inner);
        let meters = RouteMeters::new(&self.metrics, &kinds, store, route);
        let health = Arc::clone(&self.health);
        Arc::new(Watched { meters, pulse: health.route(store, route), health })
    }
}

/// One route that is watched.
struct Watched {
    meters: RouteMeters,
    pulse: Arc<RoutePulse>,
    health: Arc<Health>,
}

impl RouteObserver for Watched {
    fn tried(&self, _: &Delivery, outcome: &Outcome, took: Duration) {
        self.meters.tried(outcome, took);
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
