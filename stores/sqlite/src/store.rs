//! The store as applications and relays open it.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use postroom_core::{
    Clock, Contract, Desk, Event, EventError, Limits, RelayIdentity, RouteDefinition, Schema, Source, Store,
    StoreError, Upkeep, Wake,
};
use sqlx::{SqlitePool, Transaction};

use crate::clock::micros;
use crate::database::Database;
use crate::desk::SqliteDesk;
use crate::options::SqliteOptions;
use crate::routes;
use crate::schema::{self, SqliteSchema};
use crate::source::SqliteSource;

/// The native log on one SQLite file; cheap to clone.
#[derive(Clone)]
pub struct Sqlite {
    pub(crate) inner: Arc<Inner>,
}

/// What every part of the store shares.
pub(crate) struct Inner {
    pub(crate) name: String,
    pub(crate) limits: Limits,
    pub(crate) contract: Option<Arc<dyn Contract>>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) wake: Wake,
    pub(crate) db: Database,
}

impl Inner {
    /// The time by the store's clock, as the tables hold it.
    pub(crate) fn now(&self) -> i64 {
        micros(self.clock.now())
    }

    /// Whether an event may be appended.
    pub(crate) fn check(&self, event: &Event) -> Result<(), EventError> {
        self.limits.check(event)?;
        self.contract.as_ref().map_or(Ok(()), |contract| contract.check(event))
    }
}

impl Sqlite {
    /// Opens a store whose tables are there in the version this build needs.
    pub async fn open(options: SqliteOptions) -> Result<Self, StoreError> {
        let store = Self::open_unmigrated(options).await?;
        schema::check(&store.inner.db).await?;
        Ok(store)
    }

    /// Opens a store without looking at its tables, to make them through [`Store::schema`].
    pub async fn open_unmigrated(options: SqliteOptions) -> Result<Self, StoreError> {
        let db = Database::open(&options).await?;
        let SqliteOptions { name, limits, contract, clock, .. } = options;
        Ok(Self { inner: Arc::new(Inner { name, limits, contract, clock, wake: Wake::default(), db }) })
    }

    /// The SQL that makes or mends the tables of this file, whether or not the file is there. Changes nothing.
    pub async fn plan(options: SqliteOptions) -> Result<String, StoreError> {
        if !options.path.exists() {
            return Ok(schema::plan_from(0));
        }
        let store = Self::open_unmigrated(options).await?;
        SqliteSchema(Arc::clone(&store.inner)).plan().await
    }

    /// Opens the store `main` in this file; makes the file and the tables if they are not there.
    pub async fn create(path: impl AsRef<Path>) -> Result<Self, StoreError> {
        let path = path.as_ref().to_string_lossy();
        let store = Self::open_unmigrated(SqliteOptions::new("main", path).create(true)).await?;
        SqliteSchema(Arc::clone(&store.inner)).up().await?;
        Ok(store)
    }

    /// Begins a transaction that is a writer from the start (`begin immediate`), for business writes and appends.
    ///
    /// Dropping the future is safe; so is dropping the transaction, which rolls it back.
    pub async fn begin(&self) -> Result<Transaction<'static, sqlx::Sqlite>, StoreError> {
        self.inner.db.begin().await
    }

    /// Connections to the same file, for statements of the application's own.
    pub fn pool(&self) -> &SqlitePool {
        &self.inner.db.pool
    }

    /// Wakes the relays of this process, after events were appended by other means.
    pub fn wake(&self) -> Wake {
        self.inner.wake.clone()
    }
}

#[async_trait]
impl Store for Sqlite {
    fn name(&self) -> &str {
        &self.inner.name
    }

    async fn source(&self, relay: &RelayIdentity, route: &RouteDefinition) -> Result<Arc<dyn Source>, StoreError> {
        routes::join(&self.inner, relay, route).await?;
        Ok(Arc::new(SqliteSource::new(Arc::clone(&self.inner), relay.clone(), route.clone())))
    }

    fn desk(&self) -> Arc<dyn Desk> {
        Arc::new(SqliteDesk(Arc::clone(&self.inner)))
    }

    fn schema(&self) -> Option<Arc<dyn Schema>> {
        Some(Arc::new(SqliteSchema(Arc::clone(&self.inner))))
    }

    fn upkeep(&self) -> Option<Arc<dyn Upkeep>> {
        None
    }
}

impl fmt::Debug for Sqlite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sqlite").field("name", &self.inner.name).field("path", &self.inner.db.path).finish()
    }
}
