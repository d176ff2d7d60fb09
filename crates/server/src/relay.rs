//! Runs the relay that a configuration describes.
//!
//! Chooses the routes and puts the parts together. How stores are waited for is `reach`'s, what happens to a
//! delivery is [`postroom_relay`]'s.

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use postroom_core::StoreError;
use postroom_relay::{Observer, Relay, RelayError, RelayOptions, RouteRun};

use crate::config::{Config, ConfigError, Problem, RouteConfig, StoreConfig};
use crate::metrics;
use crate::operating::Operating;
use crate::pulls::Pulls;
use crate::reach::{self, Ready};
use crate::replays;
use crate::transports;

/// What a run is told beside its configuration.
#[derive(Debug, Clone, Default)]
pub struct RunOptions {
    /// Serve only these routes; empty serves all.
    pub routes: Vec<String>,
    /// Return when nothing is due, in flight or retrying.
    pub drain: bool,
    /// Who shows how the stores stand; nobody asks them otherwise.
    pub operating: Option<Arc<Operating>>,
}

/// Why a relay did not start, or stopped.
#[derive(Debug)]
pub enum RunError {
    /// What was asked for is not in the configuration.
    Config(ConfigError),
    /// No store answered in time; each with its last error.
    Unreachable(Vec<(String, StoreError)>),
    /// A store answered that it will not do: its schema, a missing right, not a store at all.
    Refused {
        /// The store.
        store: String,
        /// What it said.
        error: StoreError,
    },
    /// A route cannot be served.
    Relay(RelayError),
}

impl fmt::Display for RunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Config(error) => write!(f, "{error}"),
            Self::Unreachable(stores) => {
                let said: Vec<_> = stores.iter().map(|(store, error)| format!("store {store:?}: {error}")).collect();
                write!(f, "no store can be reached: {}", said.join("; "))
            }
            Self::Refused { store, error } => write!(f, "store {store:?} cannot be used: {error}"),
            Self::Relay(error) => write!(f, "{error}"),
        }
    }
}

impl std::error::Error for RunError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Config(_) => None,
            Self::Unreachable(stores) => stores.first()?.1.source(),
            Self::Refused { error, .. } => error.source(),
            Self::Relay(error) => error.source(),
        }
    }
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
    let ready = tokio::select! {
        ready = reach::reach(&stores, config.limits) => ready?,
        () = &mut shutdown => return Ok(()),
    };
    let nowhere = Pulls::default();
    let pulls = options.operating.as_deref().map_or(&nowhere, |operating| &operating.pulls);
    pulls.begin_again();
    let mut relay = Relay::new(relay_options(config, options.drain)).observer(observer);
    let boot = relay.boot().to_owned();
    for route in &routes {
        for store in stores.iter().filter(|store| route.stores.contains(&store.name)) {
            if let Some(operating) = &options.operating {
                operating.health.expect(&store.name, &route.definition.name);
            }
            if let Some(ready) = ready.get(&store.name) {
                relay = relay.serve(route_run(config, route, store, ready.clone(), pulls));
            }
        }
    }
    tracing::info!(name = config.name, routes = routes.len(), stores = stores.len(), "relay starts");
    tokio::select! {
        result = relay.run(shutdown) => result.map_err(RunError::Relay),
        () = look_for_namesakes(&config.name, config.relay.lease, &ready) => Ok(()),
        () = watched(options.operating.as_deref(), &ready, &boot) => Ok(()),
        () = replays::watch(&ready, &boot) => Ok(()),
    }
}

/// Keeps what is shown of the stores up to date. Never returns.
async fn watched(operating: Option<&Operating>, stores: &BTreeMap<String, Ready>, boot: &str) {
    if let Some(operating) = operating {
        for (name, store) in stores {
            let reached = store.peek().map(drop).ok_or_else(|| "it has not answered yet".to_owned());
            operating.health.store(name, reached);
        }
        metrics::watch(operating, stores, boot).await;
    }
    std::future::pending::<()>().await;
}

/// The routes that were asked for.
pub(crate) fn chosen<'c>(config: &'c Config, names: &[String]) -> Result<Vec<&'c RouteConfig>, ConfigError> {
    if config.routes.is_empty() {
        let hint = "add a [[route]] to the configuration; `postroom config init` shows how";
        return Err(Problem::new("no route is configured, so there is nothing to relay").hint(hint).into());
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

/// Refuses a route that workers pull from where nobody could ask.
#[cfg(feature = "http")]
fn check_pulled(config: &Config, routes: &[&RouteConfig]) -> Result<(), ConfigError> {
    let pulled = routes.iter().find(|route| matches!(route.to, crate::config::Target::Pull(_)));
    let Some(route) = pulled.filter(|_| config.http.listen.is_none()) else { return Ok(()) };
    let message = format!("workers of route `{}` ask over HTTP, and nothing listens", route.definition.name);
    let hint = "set http.listen = \"127.0.0.1:7480\", or add --listen 127.0.0.1:7480";
    Err(Problem::new(message).hint(hint).into())
}

fn relay_options(config: &Config, drain: bool) -> RelayOptions {
    RelayOptions {
        name: config.name.clone(),
        lease: config.relay.lease,
        in_flight_max: config.relay.in_flight_max,
        shutdown_grace: config.relay.shutdown_grace,
        take: config.relay.take,
        retention: Some(config.retention),
        drain,
    }
}

fn route_run(config: &Config, route: &RouteConfig, store: &StoreConfig, ready: Ready, pulls: &Pulls) -> RouteRun {
    RouteRun {
        store_name: store.name.clone(),
        store: ready.boxed(),
        definition: route.definition.clone(),
        transport: transports::build(config, route, store, pulls),
        retry: route.retry.clone(),
        breaker: route.breaker,
        rate: route.rate,
        poll: store.poll,
    }
}

/// Warns once when another live relay has our name. Never returns.
///
/// Looks for the first time after one lease: until then a crashed predecessor may still count as alive.
async fn look_for_namesakes(name: &str, lease: Duration, stores: &BTreeMap<String, Ready>) {
    loop {
        tokio::time::sleep(lease).await;
        for store in stores.values().filter_map(Ready::peek) {
            // A store that does not answer is reported by the routes it serves.
            let Ok(relays) = store.desk().relays().await else { continue };
            if relays.iter().filter(|relay| relay.alive && relay.relay == name).count() > 1 {
                tracing::warn!(
                    name,
                    store = store.name(),
                    "another live relay has the same name; both work, but give each its own to tell them apart"
                );
                return std::future::pending().await;
            }
        }
    }
}
