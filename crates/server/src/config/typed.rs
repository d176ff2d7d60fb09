//! A configuration with its meaning: what the server starts from.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use postroom_admin::Role;
use postroom_core::envelope::Format;
use postroom_core::{BreakerPolicy, Budget, Limits, Retention, RetryPolicy, RouteSpec, Secret, SecretUrl};
use postroom_relay::Poll;
use postroom_settings::{ConfigError, Problem, Setting, suggest};

use super::alias::Alias;
use super::target::Target;
use crate::redact::Redaction;

/// Configuration; valid by construction.
#[derive(Debug, Clone)]
pub struct Config {
    /// Name of the instance.
    pub name: String,
    /// Stores, in the order of the file.
    pub stores: Vec<StoreConfig>,
    /// Settings of the relay.
    pub relay: RelayConfig,
    /// Routes, in the order of the file.
    pub routes: Vec<RouteConfig>,
    /// Retention of data.
    pub retention: Retention,
    /// Limits of events.
    pub limits: Limits,
    /// Contracts of events.
    #[cfg(feature = "contracts")]
    pub contract: ContractConfig,
    /// HTTP server of the relay.
    pub http: HttpConfig,
    /// Export of traces.
    #[cfg(feature = "otlp")]
    pub telemetry: TelemetryConfig,
    /// Log on stderr.
    pub log: LogConfig,
    /// File of the configuration, if there is one.
    pub file: Option<PathBuf>,
    /// Places where a file was looked for and not found.
    pub(super) searched: Vec<PathBuf>,
    pub(super) settings: Vec<Setting>,
}

/// Values of `[contract]`.
#[cfg(feature = "contracts")]
#[derive(Debug, Clone, Default)]
pub struct ContractConfig {
    /// Folder of schemas, if there is one.
    pub folder: Option<PathBuf>,
    /// Compiled schemas.
    pub contracts: std::sync::Arc<postroom_contracts::Contracts>,
}

/// Values of a `[store.NAME]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreConfig {
    /// Name of the store.
    pub name: String,
    /// URL of the store. A relative path of SQLite starts at the working folder, not at the file.
    pub url: SecretUrl,
    /// Further servers of the same PostgreSQL cluster; the primary is used.
    pub more_urls: Vec<SecretUrl>,
    /// CloudEvents `source` of the store's events.
    pub source: String,
    /// Polling by a relay.
    pub poll: Poll,
    /// Values that only PostgreSQL has.
    pub postgres: PostgresConfig,
    /// Mapping of the adopted table, instead of a log of its own.
    #[cfg(feature = "adopted")]
    pub mapping: Option<postroom_adopted::Mapping>,
    /// Whether a relay creates its tables beside an adopted one.
    pub migrate: bool,
}

/// Values of a `[store.NAME]` on PostgreSQL.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PostgresConfig {
    /// Schema of the store's tables.
    pub schema: String,
    /// Pooler in front of the server.
    pub pooler: PoolerConfig,
    /// Number of lanes; `None` uses that of the tables.
    pub lanes: Option<u16>,
    /// Number of partitions of the log; `None` uses that of the tables.
    pub partitions: Option<u16>,
    /// Time span of a partition; `None` uses that of the tables.
    pub segment: Option<Duration>,
}

/// Value of `pooler` of a `[store.NAME]`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum PoolerConfig {
    /// Detect a pooler.
    #[default]
    Auto,
    /// No pooler.
    None,
    /// Pooler in transaction mode.
    Transaction,
}

/// Values of `[relay]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RelayConfig {
    /// Time after which another relay may take over a lane.
    pub lease: Duration,
    /// Maximum deliveries in flight or not yet settled.
    pub in_flight_max: usize,
    /// Time that a stop waits for deliveries in flight.
    pub shutdown_grace: Duration,
    /// Budget of a take.
    pub take: Budget,
}

/// Values of a `[[route]]`.
#[derive(Debug, Clone)]
pub struct RouteConfig {
    /// Specification that the store keeps.
    pub definition: RouteSpec,
    /// Whether the configuration says where the route starts, rather than leaving it at the default.
    pub start_is_explicit: bool,
    /// Names of the stores that the route serves.
    pub stores: Vec<String>,
    /// Destination of the route.
    pub to: Target,
    /// Format of the envelope.
    pub envelope: Format,
    /// Retry policy.
    pub retry: RetryPolicy,
    /// Policy of the circuit breaker.
    pub breaker: BreakerPolicy,
    /// Maximum deliveries per second; `None` is no limit.
    pub rate: Option<f64>,
    /// Whether the route may discard the pending rows of an adopted table.
    pub allow_discard: bool,
}

/// Values of `[http]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpConfig {
    /// Address to listen on, if any.
    pub listen: Option<Listen>,
    /// Names under which the relay is asked, beside its addresses.
    pub hosts: Vec<String>,
    /// Certificate of the listener; none speaks plain HTTP.
    #[cfg(feature = "http")]
    pub tls: Option<postroom_tls::ServerTlsFiles>,
    /// Token that may read metrics and nothing else.
    pub metrics_token: Option<Secret>,
    /// Role of requests without a token.
    pub anonymous: Anonymous,
    /// Redaction of payloads.
    pub redact: Redaction,
    /// Additional names of metrics.
    pub metrics_alias: Vec<Alias>,
    /// Age of the oldest due delivery from which the relay is not ready.
    pub ready_max_lag: Duration,
}

/// Role of requests without a token. Only local requests are possible without one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Anonymous {
    /// No role.
    Nothing,
    /// Viewer, until the first token is created.
    LookAtFirst,
    /// This role.
    May(Role),
}

impl Anonymous {
    /// Returns the role in a store that has tokens, or has none.
    #[cfg(feature = "http")]
    pub(crate) fn role(self, has_tokens: bool) -> Option<Role> {
        match self {
            Self::May(role) => Some(role),
            Self::LookAtFirst if !has_tokens => Some(Role::Viewer),
            Self::Nothing | Self::LookAtFirst => None,
        }
    }
}

/// Address to listen on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Listen {
    /// Address and port.
    pub address: SocketAddr,
    /// Whether the address was configured; if not, a relay also runs when the address is in use.
    pub must: bool,
}

/// Values of `[telemetry]`.
#[cfg(feature = "otlp")]
#[derive(Debug, Clone, PartialEq)]
pub struct TelemetryConfig {
    /// URL that spans are posted to, if any.
    pub traces: Option<SecretUrl>,
    /// Share of events that are traced, of those without a decision of their own.
    pub sample: f64,
    /// Service name of the spans.
    pub service: String,
    /// Headers of every request.
    pub headers: Vec<(String, Secret)>,
}

/// Values of `[log]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogConfig {
    /// Format of log lines.
    pub format: LogFormat,
    /// Lowest level that is logged: error, warn, info, debug or trace.
    pub level: &'static str,
}

/// Format of log lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    /// Human on a terminal, JSON otherwise.
    Auto,
    /// Text for people.
    Human,
    /// One JSON object per line.
    Json,
}

impl StoreConfig {
    /// Reports whether the outbox is an existing table.
    #[cfg_attr(not(feature = "adopted"), expect(clippy::unused_self, reason = "without them none is"))]
    pub(crate) fn adopts(&self) -> bool {
        #[cfg(feature = "adopted")]
        return self.mapping.is_some();
        #[cfg(not(feature = "adopted"))]
        return false;
    }

    /// Reports whether the state of a route stands in the rows of an existing table, whatever the route is called.
    #[cfg_attr(not(feature = "adopted"), expect(clippy::unused_self, reason = "without them none is"))]
    pub(crate) fn is_marked_by(&self, route: &str) -> bool {
        #[cfg(feature = "adopted")]
        return self.mapping.as_ref().is_some_and(|mapping| !mapping.is_further(route));
        #[cfg(not(feature = "adopted"))]
        {
            let _ = route;
            false
        }
    }
}

impl Config {
    /// Returns the store of this name, or the only one if no name is given.
    pub fn store(&self, name: Option<&str>) -> Result<&StoreConfig, ConfigError> {
        let names: Vec<&str> = self.stores.iter().map(|s| s.name.as_str()).collect();
        let problem = match (name, self.stores.as_slice()) {
            (_, []) => self.no_store(),
            (None, [only]) => return Ok(only),
            (None, _) => Problem::new(format!("there are {} stores", names.len()))
                .hint(format!("choose one with --store: {}", names.join(", "))),
            (Some(name), stores) => {
                if let Some(store) = stores.iter().find(|s| s.name == name) {
                    return Ok(store);
                }
                let hint = suggest(name, &names).unwrap_or_default();
                Problem::new(format!("there is no store `{name}`")).hint(hint)
            }
        };
        Err(problem.into())
    }

    /// Returns the routes that serve a store.
    pub fn routes_of(&self, store: &str) -> Vec<&RouteConfig> {
        self.routes.iter().filter(|route| route.stores.iter().any(|name| name == store)).collect()
    }

    /// Fails if no store is configured.
    pub fn require_stores(&self) -> Result<(), ConfigError> {
        if self.stores.is_empty() { Err(self.no_store().into()) } else { Ok(()) }
    }

    /// The problem that no store is configured: in the wrong folder, that is because no file was found.
    fn no_store(&self) -> Problem {
        match &self.file {
            Some(file) => Problem::new(format!("{} configures no store", file.display())).hint(NO_STORE_HINT),
            None if self.searched.is_empty() => Problem::new("no store is configured").hint(NO_STORE_HINT),
            None => {
                let places: Vec<String> = self.searched.iter().map(|place| place.display().to_string()).collect();
                let message = format!("no configuration found; looked for {}", places.join(", "));
                Problem::new(message).hint(NO_FILE_HINT)
            }
        }
    }

    /// Returns every value in force with its origin, without passwords.
    pub fn show(&self) -> &[Setting] {
        &self.settings
    }
}

/// What to do when no file was found.
const NO_FILE_HINT: &str = "name a file with --config or POSTROOM_CONFIG, set DATABASE_URL, or write a commented file with `postroom config init`";

/// What to do when no store is configured.
pub(super) const NO_STORE_HINT: &str = "add [store.main] with url = \"sqlite://postroom.db\" to postroom.toml, or set POSTROOM_STORE__MAIN__URL or DATABASE_URL";
