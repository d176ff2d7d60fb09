//! The store as applications and relays open it.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use postroom_admin::{Admin, LogAdmin, ManagedStore};
use postroom_core::{
    Clock, Contract, Event, EventError, Limits, Maintenance, Notifier, RelayIdentity, Retain, RouteSpec, Schema,
    Source, Store, StoreError,
};
use sqlx::SqlitePool;

use crate::admin::SqliteLog;
use crate::clock::micros;
use crate::database::Database;
use crate::options::SqliteOptions;
use crate::routes;
use crate::schema::{self, SqliteSchema};
use crate::source::SqliteSource;
use crate::tx::SqliteTx;

/// Store in a SQLite file; cheap to clone.
#[derive(Clone)]
pub struct SqliteStore {
    pub(crate) inner: Arc<Inner>,
}

/// What every part of the store shares.
pub(crate) struct Inner {
    pub(crate) name: String,
    pub(crate) limits: Limits,
    pub(crate) contract: Option<Arc<dyn Contract>>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) wake: Notifier,
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

impl SqliteStore {
    /// Opens a store whose tables have the version of this build.
    pub async fn open(options: SqliteOptions) -> Result<Self, StoreError> {
        let store = Self::open_unmigrated(options).await?;
        schema::check(&store.inner.db).await?;
        Ok(store)
    }

    /// Opens a store without checking its tables, to migrate them through [`Store::schema`].
    pub async fn open_unmigrated(options: SqliteOptions) -> Result<Self, StoreError> {
        let db = Database::open(&options).await?;
        Ok(Self::of(db, options))
    }

    /// Opens the store `main` in the file of this pool, without checking its tables: call [`migrate`](Self::migrate) to
    /// make them.
    ///
    /// Appends, inbox and admin use the pool. Connections of its own are opened when a relay is served.
    pub async fn from_pool(pool: SqlitePool) -> Result<Self, StoreError> {
        let path = pool.connect_options().get_filename().to_path_buf();
        let options = SqliteOptions::new("main", path.to_string_lossy());
        let db = Database::of_pool(pool, &options).await?;
        Ok(Self::of(db, options))
    }

    fn of(db: Database, options: SqliteOptions) -> Self {
        let SqliteOptions { name, limits, contract, clock, .. } = options;
        Self { inner: Arc::new(Inner { name, limits, contract, clock, wake: Notifier::default(), db }) }
    }

    /// Creates the tables, or migrates them to the version of this build. Safe if several processes do it at once.
    pub async fn migrate(&self) -> Result<(), StoreError> {
        SqliteSchema(Arc::clone(&self.inner)).up().await.map(drop)
    }

    /// Returns the SQL that migrates the tables of this file, whether or not the file exists. Changes nothing.
    pub async fn plan(options: SqliteOptions) -> Result<String, StoreError> {
        if !options.path.exists() {
            return Ok(schema::plan_from(0));
        }
        let store = Self::open_unmigrated(options).await?;
        SqliteSchema(Arc::clone(&store.inner)).plan().await
    }

    /// Opens the store `main` in this file; creates the file and the tables if they do not exist.
    pub async fn create(path: impl AsRef<Path>) -> Result<Self, StoreError> {
        let path = path.as_ref().to_string_lossy();
        let store = Self::open_unmigrated(SqliteOptions::new("main", path).create(true)).await?;
        store.migrate().await?;
        Ok(store)
    }

    /// Begins a transaction that is a writer from the start (`begin immediate`), for business writes and appends.
    ///
    /// Dropping the future is safe; so is dropping the transaction, which rolls it back.
    pub async fn begin(&self) -> Result<SqliteTx, StoreError> {
        Ok(SqliteTx::new(self.inner.db.begin().await?, Arc::clone(&self.inner)))
    }

    /// Returns a pool of connections to the same file, for the application's own statements.
    pub fn pool(&self) -> &SqlitePool {
        &self.inner.db.pool
    }

    /// Wakes the relays of this process, after events were appended by other means.
    pub fn wake(&self) -> Notifier {
        self.inner.wake.clone()
    }
}

#[async_trait]
impl Store for SqliteStore {
    fn name(&self) -> &str {
        &self.inner.name
    }

    async fn source(&self, relay: &RelayIdentity, route: &RouteSpec) -> Result<Arc<dyn Source>, StoreError> {
        route.refuse_consumer(self.name())?;
        self.inner.db.serve();
        routes::join(&self.inner, relay, route).await?;
        Ok(Arc::new(SqliteSource::new(Arc::clone(&self.inner), relay.clone(), route.clone())))
    }

    fn retain(&self) -> Arc<dyn Retain> {
        Arc::new(SqliteLog(Arc::clone(&self.inner)))
    }

    fn schema(&self) -> Option<Arc<dyn Schema>> {
        Some(Arc::new(SqliteSchema(Arc::clone(&self.inner))))
    }

    fn maintenance(&self) -> Option<Arc<dyn Maintenance>> {
        None
    }
}

impl ManagedStore for SqliteStore {
    fn admin(&self) -> Arc<dyn Admin> {
        Arc::new(LogAdmin::new(Arc::new(SqliteLog(Arc::clone(&self.inner)))))
    }
}

impl fmt::Debug for SqliteStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SqliteStore").field("name", &self.inner.name).field("path", &self.inner.db.path).finish()
    }
}
