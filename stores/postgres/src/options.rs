//! Which database, and how it is reached.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use postroom_core::{Clock, Contract, Limits};

/// Whether something stands between us and the server that gives each transaction another session.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Pooler {
    /// Find out when the store is opened.
    #[default]
    Auto,
    /// Nothing does. If something is found nevertheless, the store is not opened.
    None,
    /// PgBouncer or the like in transaction mode: no named statements, no session settings.
    Transaction,
}

/// Which database a store lives in, and its limits.
#[derive(Clone)]
pub struct PostgresOptions {
    pub(crate) name: String,
    pub(crate) urls: Vec<String>,
    pub(crate) schema: String,
    pub(crate) pooler: Pooler,
    pub(crate) lanes: Option<u16>,
    pub(crate) leaves: Option<u16>,
    pub(crate) segment: Option<Duration>,
    pub(crate) limits: Limits,
    pub(crate) contract: Option<Arc<dyn Contract>>,
    pub(crate) clock: Option<Arc<dyn Clock>>,
    pub(crate) looking: bool,
}

impl PostgresOptions {
    /// The store `name` in the database at this URL: `postgres://shop@db/shop`.
    pub fn new(name: impl Into<String>, url: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            urls: vec![url.into()],
            schema: "postroom".to_owned(),
            pooler: Pooler::default(),
            lanes: None,
            leaves: None,
            segment: None,
            limits: Limits::default(),
            contract: None,
            clock: None,
            looking: false,
        }
    }

    /// Several servers of one cluster; the first that is not a standby is used.
    pub fn urls(mut self, urls: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.urls = urls.into_iter().map(Into::into).collect();
        self
    }

    /// The schema of the tables. Defaults to `postroom`.
    pub fn schema(mut self, schema: impl Into<String>) -> Self {
        self.schema = schema.into();
        self
    }

    /// What stands between us and the server. Defaults to finding out.
    pub fn pooler(mut self, pooler: Pooler) -> Self {
        self.pooler = pooler;
        self
    }

    /// Into how many lanes keys are spread; relays share them. Fixed when the tables are made.
    ///
    /// With few, few relays can share a route; with many, every read looks in more places. Defaults to 16.
    pub fn lanes(mut self, lanes: u16) -> Self {
        self.lanes = Some(lanes);
        self
    }

    /// How many leaves the log's ring has. Fixed when the tables are made.
    ///
    /// `leaves × segment` must be longer than events are kept, by two segments at least. Defaults to 10.
    pub fn leaves(mut self, leaves: u16) -> Self {
        self.leaves = Some(leaves);
        self
    }

    /// How long one leaf takes events before the next one does. Fixed when the tables are made.
    ///
    /// Space comes back a segment at a time. Defaults to one day.
    pub fn segment(mut self, segment: Duration) -> Self {
        self.segment = Some(segment);
        self
    }

    /// What an event may look like.
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// What events must look like beyond the limits; asked before anything is written. Defaults to nothing.
    pub fn contract(mut self, contract: Arc<dyn Contract>) -> Self {
        self.contract = Some(contract);
        self
    }

    /// The clock that decides about leases, due times and retention, for tests; every process must have the same.
    ///
    /// Defaults to the database's own.
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = Some(clock);
        self
    }

    /// For those who look and act while relays work: two connections, and no statement longer than two seconds, so that
    /// looking never slows a relay.
    pub fn for_looking(mut self) -> Self {
        self.looking = true;
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
