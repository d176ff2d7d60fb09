//! Which database, and how it is reached.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use postroom_core::{Clock, Contract, Limits};
use sqlx::PgPool;

/// Pooler between the store and the server, which may give each transaction another session.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Pooler {
    /// Find out when the store is opened.
    #[default]
    Auto,
    /// Nothing does. If something is found nevertheless, the store is not opened.
    None,
    /// PgBouncer or the like in transaction mode: no named statements, no session settings.
    Transaction,
}

/// Options of a store: its database, and its limits.
#[derive(Clone)]
#[non_exhaustive]
pub struct PostgresOptions {
    pub(crate) name: String,
    pub(crate) urls: Vec<String>,
    /// A pool of the application's, instead of URLs.
    pub(crate) pool: Option<PgPool>,
    pub(crate) schema: String,
    pub(crate) pooler: Pooler,
    pub(crate) lanes: Option<u16>,
    pub(crate) partitions: Option<u16>,
    pub(crate) segment: Option<Duration>,
    pub(crate) limits: Limits,
    pub(crate) contract: Option<Arc<dyn Contract>>,
    pub(crate) clock: Option<Arc<dyn Clock>>,
    pub(crate) for_admin: bool,
}

impl PostgresOptions {
    /// Describes the store `name` in the database at this URL: `postgres://shop@db/shop`.
    pub fn new(name: impl Into<String>, url: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            urls: vec![url.into()],
            pool: None,
            schema: "postroom".to_owned(),
            pooler: Pooler::default(),
            lanes: None,
            partitions: None,
            segment: None,
            limits: Limits::default(),
            contract: None,
            clock: None,
            for_admin: false,
        }
    }

    /// Describes the store `name` in the database of this pool.
    ///
    /// Appends, inbox and admin use the pool; a relay that is served opens connections of its own to the same server.
    pub fn from_pool(name: impl Into<String>, pool: PgPool) -> Self {
        Self { urls: Vec::new(), pool: Some(pool), ..Self::new(name, "") }
    }

    /// Sets several servers of one cluster, of which the primary is used.
    pub fn urls(mut self, urls: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.urls = urls.into_iter().map(Into::into).collect();
        self
    }

    /// Sets the schema of the tables. Defaults to `postroom`.
    pub fn schema(mut self, schema: impl Into<String>) -> Self {
        self.schema = schema.into();
        self
    }

    /// Sets the pooler in front of the server. Detected by default.
    pub fn pooler(mut self, pooler: Pooler) -> Self {
        self.pooler = pooler;
        self
    }

    /// Sets the number of lanes over which keys are distributed; relays share them. Fixed when the tables are created.
    ///
    /// With few, few relays can share a route; with many, every read looks in more places. Defaults to 16.
    pub fn lanes(mut self, lanes: u16) -> Self {
        self.lanes = Some(lanes);
        self
    }

    /// Sets the number of partitions of the log. Fixed when the tables are created.
    ///
    /// `partitions × segment` must be longer than events are kept, by two segments at least. Defaults to 10.
    pub fn partitions(mut self, partitions: u16) -> Self {
        self.partitions = Some(partitions);
        self
    }

    /// Sets the time span of a partition. Fixed when the tables are created.
    ///
    /// Space comes back a segment at a time. Defaults to one day.
    pub fn segment(mut self, segment: Duration) -> Self {
        self.segment = Some(segment);
        self
    }

    /// Sets the limits of events.
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Sets the contract of events beyond the limits, checked before any write. Defaults to none.
    pub fn contract(mut self, contract: Arc<dyn Contract>) -> Self {
        self.contract = Some(contract);
        self
    }

    /// Sets the clock of leases, due times and retention, for tests; every process must have the same.
    ///
    /// Defaults to the database's own.
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = Some(clock);
        self
    }

    /// Opens admin connections, for the API and commands while relays work: two of them, and no statement longer than two
    /// seconds, so that they never slow a relay.
    pub fn for_admin(mut self) -> Self {
        self.for_admin = true;
        self
    }
}

impl fmt::Debug for PostgresOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The URLs have passwords in them.
        f.debug_struct("PostgresOptions")
            .field("name", &self.name)
            .field("schema", &self.schema)
            .finish_non_exhaustive()
    }
}
