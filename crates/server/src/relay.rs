//! Runs the relay that a configuration describes.
//!
//! Chooses the routes and puts the parts together. How stores are waited for is `connect`'s, what happens to a
//! delivery is [`postroom_relay`]'s.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use postroom_core::{Store, Transport};
use postroom_relay::{MultiStoreRelay, Observer, RelayOptions, Route, StoreRoute};

use crate::config::{Config, ConfigError, Problem, RouteConfig, StoreConfig};
use crate::connect::{self, Ready};
use crate::consumers::{self, WatchedRoute};
use crate::discard;
use crate::metrics;
use crate::monitor::Monitor;
use crate::pulls::Pulls;
use crate::replays;
use crate::run_error::RunError;
use crate::transports;

/// Options of a run beside its configuration.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct RunOptions {
    /// Serve only these routes; empty serves all.
    pub routes: Vec<String>,
    /// Return when nothing is due, in flight or retrying.
    pub drain: bool,
    /// Let routes to stdout or noop discard the pending rows of adopted tables.
    pub allow_discard: bool,
    /// Monitor that shows the state of the stores; without one they are not queried.
    pub monitor: Option<Arc<Monitor>>,
}

/// Runs the relay until `shutdown` resolves or, draining, until nothing is left.
///
/// Waits up to ten seconds for a first store. Once one has answered the relay runs, and stores that cannot be reached are
/// asked again in the background. Another relay of the same name is no error; each logs one warning.
pub async fn run(
    config: &Config,
    options: RunOptions,
    observer: Arc<dyn Observer>,
    shutdown: impl Future<Output = ()> + Send,
) -> Result<(), RunError> {
    let routes = chosen(config, &options.routes).map_err(RunError::Config)?;
    #[cfg(feature = "http")]
    check_pulled(config, &routes).map_err(RunError::Config)?;
    let wanted = |store: &&StoreConfig| routes.iter().any(|route| route.stores.contains(&store.name));
    let stores: Vec<&StoreConfig> = config.stores.iter().filter(wanted).collect();

    tokio::pin!(shutdown);
    let reached = async {
        let ready = connect::reach(&stores, config).await?;
        // Large, and over at the start: not a part of the future that runs.
        Box::pin(discard::check(config, &routes, &options)).await?;
        Ok::<_, RunError>(ready)
    };
    let ready = tokio::select! {
        ready = reached => ready?,
        () = &mut shutdown => return Ok(()),
    };
    let nowhere = Pulls::default();
    let pulls = options.monitor.as_deref().map_or(&nowhere, |monitor| &monitor.pulls);
    pulls.reload();
    let mut relay = MultiStoreRelay::new(relay_options(config, options.drain), observer);
    let boot = relay.boot().to_owned();
    let mut watched_routes = Vec::new();
    for route in &routes {
        for store in stores.iter().filter(|store| route.stores.contains(&store.name)) {
            if let Some(monitor) = &options.monitor {
                monitor.health.expect(&store.name, &route.definition.name);
            }
            if let Some(ready) = ready.get(&store.name) {
                let transport = transports::build(config, route, store, pulls);
                let watched = WatchedRoute::new(&store.name, &route.definition.name, ready.clone(), &*transport);
                // A drain ends before anybody has read what it would show.
                watched_routes.extend(watched.filter(|_| !options.drain));
                relay = relay.route(store_route(route, store, ready.clone(), transport));
            }
        }
    }
    tracing::info!(name = config.name, routes = routes.len(), stores = stores.len(), "relay started");
    tokio::select! {
        result = relay.run(shutdown) => result.map_err(RunError::Relay),
        () = look_for_namesakes(&config.name, config.relay.lease, &ready) => Ok(()),
        () = watched(options.monitor.as_deref(), &ready, watched_routes, &boot) => Ok(()),
        () = replays::watch(&ready, &boot) => Ok(()),
    }
}

/// Keeps what is shown of the stores and of the consumers behind routes up to date. Never returns.
async fn watched(monitor: Option<&Monitor>, stores: &BTreeMap<String, Ready>, routes: Vec<WatchedRoute>, boot: &str) {
    if let Some(monitor) = monitor {
        for (name, store) in stores {
            let reached = store.peek().map(drop).ok_or_else(|| "it has not answered yet".to_owned());
            monitor.health.store(name, reached);
        }
        tokio::join!(metrics::watch(monitor, stores, boot), consumers::watch(monitor, routes, boot));
    }
    std::future::pending::<()>().await;
}

/// The routes that were asked for.
pub(crate) fn chosen<'c>(config: &'c Config, names: &[String]) -> Result<Vec<&'c RouteConfig>, ConfigError> {
    config.require_stores()?;
    if config.routes.is_empty() {
        return Err(no_route(config).into());
    }
    if names.is_empty() {
        return Ok(config.routes.iter().collect());
    }
    let known: Vec<&str> = config.routes.iter().map(|route| route.definition.name.as_str()).collect();
    let unknown = names.iter().filter(|name| !known.contains(&name.as_str()));
    let problems: Vec<Problem> = unknown
        .map(|name| {
            Problem::new(format!("there is no route `{name}`")).hint(format!("configured are {}", known.join(", ")))
        })
        .collect();
    if problems.is_empty() {
        Ok(config.routes.iter().filter(|route| names.contains(&route.definition.name)).collect())
    } else {
        Err(ConfigError { problems })
    }
}

/// The problem that no route is configured: after `postroom adopt`, nobody has chosen a destination yet.
pub fn no_route(config: &Config) -> Problem {
    let hint = match config.stores.iter().find(|store| store.adopts()) {
        Some(store) => format!(
            "choose a destination for the adopted table of store `{}`: remove the comment signs of [[route]], of its name and \
             of one `to` in the file that `postroom adopt` printed, or add a [[route]]",
            store.name
        ),
        None => "add a [[route]] to the configuration; `postroom config init` shows how".to_owned(),
    };
    Problem::new("no route is configured, so there is nothing to relay").hint(hint)
}

/// Refuses a route that workers pull from where nobody could ask.
#[cfg(feature = "http")]
fn check_pulled(config: &Config, routes: &[&RouteConfig]) -> Result<(), ConfigError> {
    let pulled = routes.iter().find(|route| route.to.name() == postroom_pull::KIND.name);
    let Some(route) = pulled.filter(|_| config.http.listen.is_none()) else { return Ok(()) };
    let message = format!("workers of route `{}` ask over HTTP, and nothing listens", route.definition.name);
    let hint = "set http.listen = \"127.0.0.1:7480\", or add --listen 127.0.0.1:7480";
    Err(Problem::new(message).hint(hint).into())
}

fn relay_options(config: &Config, drain: bool) -> RelayOptions {
    RelayOptions::default()
        .name(config.name.clone())
        .lease(config.relay.lease)
        .in_flight_max(config.relay.in_flight_max)
        .shutdown_grace(config.relay.shutdown_grace)
        .take(config.relay.take)
        .retention(Some(config.retention))
        .drain(drain)
}

fn store_route(route: &RouteConfig, store: &StoreConfig, ready: Ready, transport: Arc<dyn Transport>) -> StoreRoute {
    let built = Route::from_spec(route.definition.clone())
        .retry(route.retry.clone())
        .breaker(route.breaker)
        .rate(route.rate)
        .poll(store.poll)
        .to(transport);
    let ready = ready.map(|store| -> Arc<dyn Store> { store });
    StoreRoute { store_name: store.name.clone(), store: ready.boxed(), route: built }
}

/// Warns once when another live relay has our name. Never returns.
///
/// Looks for the first time after one lease: until then a crashed predecessor may still count as alive.
async fn look_for_namesakes(name: &str, lease: Duration, stores: &BTreeMap<String, Ready>) {
    loop {
        tokio::time::sleep(lease).await;
        for store in stores.values().filter_map(Ready::peek) {
            // A store that does not answer is reported by the routes it serves.
            let Ok(relays) = store.admin().relays().await else { continue };
            if relays.iter().filter(|relay| relay.alive && relay.relay == name).count() > 1 {
                tracing::warn!(
                    name,
                    store = store.name(),
                    "another live relay has the same name; both work, but give each relay its own name to tell them apart"
                );
                return std::future::pending().await;
            }
        }
    }
}
