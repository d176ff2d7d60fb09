//! Who watches a relay: metrics, health, the demo's narration. Called from the engine, so all of it must be quick.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use postroom_core::{ConsumerLags, Delivery, Outcome, RouteHealth, Verdict};

/// Observer of a relay.
pub trait Observer: fmt::Debug + Send + Sync {
    /// Returns the observer of one route of one store. Called once, when the route begins to be served.
    fn route(self: Arc<Self>, store: &str, route: &str) -> Arc<dyn RouteObserver>;
}

/// Observer of one route of one store. By default every call is ignored.
pub trait RouteObserver: fmt::Debug + Send + Sync {
    /// A try came back.
    fn tried(&self, _delivery: &Delivery, _outcome: &Outcome, _took: Duration) {}
    /// A verdict was made durable.
    fn settled(&self, _delivery: &Delivery, _verdict: &Verdict) {}
    /// The route changed its state.
    fn health(&self, _health: &RouteHealth) {}
    /// Returns the lag of the destination's consumers, if somebody beside the engine reads it: it is stored with each heartbeat.
    fn consumers(&self) -> Option<ConsumerLags> {
        None
    }
    /// Records the number of deliveries in flight.
    fn in_flight(&self, _deliveries: usize) {}
    /// Due events were read.
    fn read(&self, _events: usize, _took: Duration) {}
    /// Verdicts were written.
    fn wrote(&self, _verdicts: usize, _took: Duration) {}
    /// Records the number of lanes taken over from relays that had not released them.
    fn took_over(&self, _lanes: usize) {}
    /// The engine has gone once round: it lives. At least once a second.
    fn turned(&self) {}
}

/// Observer that ignores every call.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoObserver;

impl Observer for NoObserver {
    fn route(self: Arc<Self>, _: &str, _: &str) -> Arc<dyn RouteObserver> {
        self
    }
}

impl RouteObserver for NoObserver {}
