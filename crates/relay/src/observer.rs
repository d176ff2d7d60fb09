//! Who watches a relay: metrics, health, the demo's narration. Called from the engine, so all of it must be quick.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use postroom_core::{Delivery, Outcome, RouteHealth, Verdict};

/// Watches a relay.
pub trait Observer: fmt::Debug + Send + Sync {
    /// Who watches one route of one store. Asked once, when the route begins to be served.
    fn route(self: Arc<Self>, store: &str, route: &str) -> Arc<dyn RouteObserver>;
}

/// Watches one route of one store. Everything is ignored unless said otherwise.
pub trait RouteObserver: fmt::Debug + Send + Sync {
    /// A try came back.
    fn tried(&self, _delivery: &Delivery, _outcome: &Outcome, _took: Duration) {}
    /// A verdict was made durable.
    fn settled(&self, _delivery: &Delivery, _verdict: &Verdict) {}
    /// The route changed its state.
    fn health(&self, _health: &RouteHealth) {}
    /// So many deliveries are on their way now.
    fn in_flight(&self, _deliveries: usize) {}
    /// Due events were read.
    fn read(&self, _events: usize, _took: Duration) {}
    /// Verdicts were written.
    fn wrote(&self, _verdicts: usize, _took: Duration) {}
    /// So many lanes came from relays that had not given them up.
    fn took_over(&self, _lanes: usize) {}
    /// The engine has gone once round: it lives. At least once a second.
    fn turned(&self) {}
}

/// Watches nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoObserver;

impl Observer for NoObserver {
    fn route(self: Arc<Self>, _: &str, _: &str) -> Arc<dyn RouteObserver> {
        self
    }
}

impl RouteObserver for NoObserver {}
