//! Routes as applications write them: which events, from where on, to whom, and what happens when they fail.

use std::fmt;
use std::future::Future;
use std::sync::Arc;

use postroom_core::{
    BreakerPolicy, Failure, OnDead, OnFailure, Pattern, RetryPolicy, RouteSpec, StartFrom, Store, Transport,
};

use crate::options::{Poll, StoreReady};
use crate::transports::{Handlers, Incoming};

/// Route of a relay: a filter of events, and their destination.
///
/// ```
/// use postroom_core::Failure;
/// use postroom_relay::{Incoming, Route};
///
/// async fn mail(order: Incoming) -> Result<(), Failure> {
///     println!("mail about {:?}, attempt {}", order.ordering_key(), order.attempt);
///     Ok(())
/// }
///
/// let route = Route::named("mailer").matching("order.*").from_beginning().handle(mail);
/// # drop(route);
/// ```
pub struct Route {
    pub(crate) spec: RouteSpec,
    pub(crate) transport: Arc<dyn Transport>,
    pub(crate) retry: RetryPolicy,
    pub(crate) breaker: BreakerPolicy,
    pub(crate) rate: Option<f64>,
    pub(crate) poll: Poll,
}

impl Route {
    /// Starts a route that matches every event from now on, blocks a failing key and goes on after a dead letter.
    ///
    /// A store keeps a route by its name: lower-case letters, digits, `-`, `_` and `.`. The relay refuses any other.
    pub fn named(name: impl Into<String>) -> RouteBuilder {
        Self::from_spec(RouteSpec::new(name))
    }

    /// Starts a route from the specification in a store, for code that reads routes from a configuration.
    pub fn from_spec(spec: RouteSpec) -> RouteBuilder {
        RouteBuilder {
            spec,
            retry: RetryPolicy::default(),
            breaker: BreakerPolicy::default(),
            rate: None,
            poll: Poll::default(),
        }
    }
}

impl fmt::Debug for Route {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Route").field("name", &self.spec.name).field("to", &self.transport).finish_non_exhaustive()
    }
}

/// Route without a destination yet; [`to`](Self::to) or [`handle`](Self::handle) gives it one.
#[derive(Debug, Clone)]
#[must_use = "a route goes nowhere until `to` or `handle` gives it a destination"]
pub struct RouteBuilder {
    spec: RouteSpec,
    retry: RetryPolicy,
    breaker: BreakerPolicy,
    rate: Option<f64>,
    poll: Poll,
}

impl RouteBuilder {
    /// Matches events of this type: `order.placed`, `order.*` or `*`. Further calls add further types.
    ///
    /// # Panics
    ///
    /// If the pattern is not valid.
    #[track_caller]
    pub fn matching(mut self, event_type: &str) -> Self {
        self.spec.filter.types.push(pattern(&self.spec.name, event_type));
        self
    }

    /// Matches only events of this aggregate type. Further calls add further ones.
    ///
    /// # Panics
    ///
    /// If the pattern is not valid.
    #[track_caller]
    pub fn aggregate_type(mut self, aggregate_type: &str) -> Self {
        self.spec.filter.aggregate_type.push(pattern(&self.spec.name, aggregate_type));
        self
    }

    /// Matches only events of this tenant. Further calls add further ones.
    ///
    /// # Panics
    ///
    /// If the pattern is not valid.
    #[track_caller]
    pub fn tenant(mut self, tenant: &str) -> Self {
        self.spec.filter.tenant.push(pattern(&self.spec.name, tenant));
        self
    }

    /// Sets the start of the route when it is first registered. Defaults to [`StartFrom::Now`].
    pub fn start_from(mut self, start: StartFrom) -> Self {
        self.spec.start = start;
        self
    }

    /// Starts with the oldest event in the log when the route is first registered.
    pub fn from_beginning(self) -> Self {
        self.start_from(StartFrom::Beginning)
    }

    /// Sets the effect of a failure on later events of the key. Defaults to [`OnFailure::Block`].
    pub fn on_failure(mut self, on_failure: OnFailure) -> Self {
        self.spec.on_failure = on_failure;
        self
    }

    /// Sets the effect of a dead letter on later events of the key. Defaults to [`OnDead::Continue`].
    pub fn on_dead(mut self, on_dead: OnDead) -> Self {
        self.spec.on_dead = on_dead;
        self
    }

    /// Sets the retry policy.
    pub fn retry(mut self, retry: RetryPolicy) -> Self {
        self.retry = retry;
        self
    }

    /// Sets the policy of the circuit breaker.
    pub fn breaker(mut self, breaker: BreakerPolicy) -> Self {
        self.breaker = breaker;
        self
    }

    /// Limits the deliveries per second. Defaults to no limit.
    pub fn rate(mut self, per_second: impl Into<Option<f64>>) -> Self {
        self.rate = per_second.into();
        self
    }

    /// Sets how often the route polls for events that other processes appended.
    pub fn poll(mut self, poll: Poll) -> Self {
        self.poll = poll;
        self
    }

    /// Delivers to this transport: a broker, a URL, a child process, or [`Handlers`].
    pub fn to(self, transport: impl Transport + 'static) -> Route {
        let Self { spec, retry, breaker, rate, poll } = self;
        Route { spec, transport: Arc::new(transport), retry, breaker, rate, poll }
    }

    /// Delivers to this function: `Ok` settles the event as delivered, and after an error it is retried.
    ///
    /// Several functions for one route, or another time-out than 30 seconds: [`to`](Self::to) with [`Handlers`].
    pub fn handle<F, R, E>(self, handler: F) -> Route
    where
        F: Fn(Incoming) -> R + Send + Sync + 'static,
        R: Future<Output = Result<(), E>> + Send + 'static,
        E: Into<Failure>,
    {
        let name = self.spec.name.clone();
        self.to(Handlers::new().on("*", name, handler))
    }
}

#[track_caller]
fn pattern(route: &str, text: &str) -> Pattern {
    match Pattern::parse(text) {
        Ok(pattern) => pattern,
        #[allow(clippy::panic, reason = "a mistake in the program, found at its start")]
        Err(e) => panic!("route {route:?}: {e}"),
    }
}

/// Route on a store that may not be reachable yet; used by the server for routes of several stores.
pub struct StoreRoute {
    /// Name of the store, for logs before it is reachable.
    pub store_name: String,
    /// Store, as soon as it is reachable.
    pub store: StoreReady,
    /// Route of the relay.
    pub route: Route,
}

impl StoreRoute {
    /// Creates a route on a store that is reachable.
    pub fn new(store: impl Store + 'static, route: Route) -> Self {
        let store: Arc<dyn Store> = Arc::new(store);
        Self { store_name: store.name().to_owned(), store: Box::pin(std::future::ready(store)), route }
    }
}

impl fmt::Debug for StoreRoute {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoreRoute")
            .field("store", &self.store_name)
            .field("route", &self.route)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transports::Noop;

    #[test]
    fn a_route_wants_any_of_the_types_and_of_the_tenants_it_names() {
        let route =
            Route::named("x").matching("order.*").matching("paid").tenant("acme").aggregate_type("order").to(Noop);
        let text = |patterns: &[Pattern]| patterns.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ");
        let filter = &route.spec.filter;
        assert_eq!(
            (text(&filter.types).as_str(), text(&filter.tenant).as_str(), text(&filter.aggregate_type).as_str()),
            ("order.* paid", "acme", "order")
        );
    }

    #[test]
    #[should_panic(expected = "route \"x\": pattern \"*.placed\" is not valid")]
    fn a_pattern_nobody_could_mean_is_found_at_the_start() {
        let _ = Route::named("x").matching("*.placed");
    }
}
