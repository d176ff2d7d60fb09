//! A configuration with its meaning: what the server starts from.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use postroom_core::envelope::Format;
use postroom_core::{BreakerPolicy, Budget, Limits, Retention, RetryPolicy, Role, RouteDefinition, Secret, SecretUrl};
use postroom_relay::Poll;

use super::alias::Alias;
use super::problem::{ConfigError, Problem, suggest};
use super::show::Setting;
use super::transports::Target;
use crate::redact::Redaction;

/// A whole configuration; valid by construction.
#[derive(Debug, Clone)]
pub struct Config {
    /// Name of the instance.
    pub name: String,
    /// The stores, in the order of the file.
    pub stores: Vec<StoreConfig>,
    /// The relay's settings.
    pub relay: RelayConfig,
    /// The routes, in the order of the file.
    pub routes: Vec<RouteConfig>,
    /// How long things are kept.
    pub retention: Retention,
    /// What an event may be at most.
    pub limits: Limits,
    /// What events must look like.
    #[cfg(feature = "contracts")]
    pub contract: ContractConfig,
    /// What a relay answers over HTTP.
    pub http: HttpConfig,
    /// Where traces go.
    #[cfg(feature = "otlp")]
    pub telemetry: TelemetryConfig,
    /// How lines on stderr look.
    pub log: LogConfig,
    /// The file it was read from, if there was one.
    pub file: Option<PathBuf>,
    pub(super) settings: Vec<Setting>,
}

/// `[contract]`.
#[cfg(feature = "contracts")]
#[derive(Debug, Clone, Default)]
pub struct ContractConfig {
    /// Where schemas are kept, if they are.
    pub folder: Option<PathBuf>,
    /// All of them, compiled.
    pub contracts: std::sync::Arc<postroom_contracts::Contracts>,
}

/// One `[store.NAME]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreConfig {
    /// Its name.
    pub name: String,
    /// Where it is. A relative path of SQLite is relative to the working folder, not to the file.
    pub url: SecretUrl,
    /// Further servers of the same PostgreSQL cluster; the one that is no standby is used.
    pub more_urls: Vec<SecretUrl>,
    /// The CloudEvents `source` of its events.
    pub source: String,
    /// How often a relay looks into it.
    pub poll: Poll,
    /// What only PostgreSQL knows.
    pub postgres: PostgresConfig,
    /// The table it adopts, instead of a log of its own.
    #[cfg(feature = "adopted")]
    pub layout: Option<postroom_adopted::Layout>,
    /// Whether a relay makes the tables it needs beside an adopted one.
    pub migrate: bool,
}

/// The keys of a `[store.NAME]` on PostgreSQL.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PostgresConfig {
    /// The schema of its tables.
    pub schema: String,
    /// What stands in front of the server.
    pub pooler: PoolerConfig,
    /// Into how many lanes keys are spread; `None` takes what its tables were made with.
    pub lanes: Option<u16>,
    /// Leaves of the log's ring; `None` takes what its tables were made with.
    pub leaves: Option<u16>,
    /// How long one leaf takes events; `None` takes what its tables were made with.
    pub segment: Option<Duration>,
}

/// `pooler` of a `[store.NAME]`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum PoolerConfig {
    /// Find out.
    #[default]
    Auto,
    /// Nothing does.
    None,
    /// A pooler in transaction mode.
    Transaction,
}

/// `[relay]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RelayConfig {
    /// How long a relay may hold a lane before another may take it.
    pub lease: Duration,
    /// Most deliveries on their way or not yet settled.
    pub in_flight_max: usize,
    /// How long a stop waits for what is in flight.
    pub shutdown_grace: Duration,
    /// How much one take brings.
    pub take: Budget,
}

/// One `[[route]]`.
#[derive(Debug, Clone, PartialEq)]
pub struct RouteConfig {
    /// What the store keeps of it.
    pub definition: RouteDefinition,
    /// Names of the stores it serves.
    pub stores: Vec<String>,
    /// Where it goes.
    pub to: Target,
    /// What is sent.
    pub envelope: Format,
    /// How it retries.
    pub retry: RetryPolicy,
    /// When it stops asking.
    pub breaker: BreakerPolicy,
    /// Most deliveries per second; `None` is no limit.
    pub rate: Option<f64>,
}

/// `[http]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpConfig {
    /// Where it listens, if it does.
    pub listen: Option<Listen>,
    /// A token that may read metrics and nothing else.
    pub metrics_token: Option<Secret>,
    /// What somebody may without a token.
    pub anonymous: Anonymous,
    /// What of payloads nobody is shown.
    pub redact: Redaction,
    /// Further names of metrics.
    pub metrics_alias: Vec<Alias>,
    /// How long a delivery may be due before the relay counts as standing still.
    pub late: Duration,
}

/// What somebody may without a token. Only who is on this machine can ask without one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Anonymous {
    /// Nothing.
    Nothing,
    /// Look, until the first token is made.
    LookAtFirst,
    /// This.
    May(Role),
}

impl Anonymous {
    /// What they may in a store that has tokens, or has none.
    #[cfg(feature = "http")]
    pub(crate) fn role(self, has_tokens: bool) -> Option<Role> {
        match self {
            Self::May(role) => Some(role),
            Self::LookAtFirst if !has_tokens => Some(Role::Viewer),
            Self::Nothing | Self::LookAtFirst => None,
        }
    }
}

/// An address to listen on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Listen {
    /// Where.
    pub address: SocketAddr,
    /// Whether somebody asked for it; if not, a relay runs also when the address is taken.
    pub must: bool,
}

/// `[telemetry]`.
#[cfg(feature = "otlp")]
#[derive(Debug, Clone, PartialEq)]
pub struct TelemetryConfig {
    /// Where spans are posted, if they are.
    pub traces: Option<SecretUrl>,
    /// Share of events that are traced, of those that do not say it themselves.
    pub sample: f64,
    /// Whose spans they are.
    pub service: String,
    /// What every request says beside.
    pub headers: Vec<(String, Secret)>,
}

/// `[log]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogConfig {
    /// How lines look.
    pub format: LogFormat,
    /// The least important lines shown: error, warn, info, debug or trace.
    pub level: &'static str,
}

/// How log lines look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    /// Human on a terminal, JSON otherwise.
    Auto,
    /// For people.
    Human,
    /// One JSON object a line.
    Json,
}

impl StoreConfig {
    /// Whether its outbox is a table that was there already.
    #[cfg_attr(not(feature = "adopted"), expect(clippy::unused_self, reason = "without them none is"))]
    pub(crate) fn adopts(&self) -> bool {
        #[cfg(feature = "adopted")]
        return self.layout.is_some();
        #[cfg(not(feature = "adopted"))]
        return false;
    }
}

impl Config {
    /// The store of this name; the only one when no name is given.
    pub fn store(&self, name: Option<&str>) -> Result<&StoreConfig, ConfigError> {
        let names: Vec<&str> = self.stores.iter().map(|s| s.name.as_str()).collect();
        let problem = match (name, self.stores.as_slice()) {
            (_, []) => Problem::new("no store is configured").hint(NO_STORE_HINT),
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

    /// Every value in force, and where it came from. Passwords are not in it.
    pub fn show(&self) -> &[Setting] {
        &self.settings
    }
}

/// What to do when no store is configured.
pub(super) const NO_STORE_HINT: &str = "add [store.main] with url = \"sqlite://postroom.db\" to postroom.toml, or set POSTROOM_STORE__MAIN__URL or DATABASE_URL";
