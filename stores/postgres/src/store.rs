//! The store as applications and relays open it.

use std::fmt;
use std::ops::Deref;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use postroom_admin::{Admin, LogAdmin, ManagedStore};
use postroom_core::{
    Clock, Contract, Limits, Maintenance, Notifier, RelayIdentity, Retain, RouteSpec, Schema, Source, Store,
    StoreError, StoreErrorKind,
};
use sqlx::PgPool;

use crate::admin::PostgresLog;
use crate::clock::{Time, micros};
use crate::database::{Database, Session, TablesOf};
use crate::maintenance::PostgresMaintenance;
use crate::options::PostgresOptions;
use crate::schema::{self, Partitioning, PostgresSchema};
use crate::source::{ChangeProbe, PostgresSource, Tail};
use crate::statement::Texts;
use crate::tx::PostgresTx;
use crate::{identity, routes};

/// How often a relay makes sure that it still works on the cluster its tables were made for.
const IDENTIFY_EVERY: Duration = Duration::from_mins(1);

/// Store in a PostgreSQL database; cheap to clone.
#[derive(Clone)]
pub struct PostgresStore {
    pub(crate) inner: Arc<Inner>,
}

/// Value detected from the tables, or the configured one before the detection.
#[derive(Debug)]
pub(crate) struct Detected<T> {
    wanted: T,
    found: OnceLock<T>,
}

impl<T> Detected<T> {
    fn new(wanted: T) -> Self {
        Self { wanted, found: OnceLock::new() }
    }

    /// What was fixed when the tables were made does not change: the first look counts.
    fn set(&self, found: T) {
        let _ = self.found.set(found);
    }
}

impl<T> Deref for Detected<T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.found.get().unwrap_or(&self.wanted)
    }
}

/// What every part of the store shares.
pub(crate) struct Inner {
    pub(crate) name: String,
    pub(crate) schema: String,
    pub(crate) limits: Limits,
    pub(crate) contract: Option<Arc<dyn Contract>>,
    clock: Option<Arc<dyn Clock>>,
    pub(crate) wake: Notifier,
    pub(crate) db: Database,
    pub(crate) partitioning: Detected<Partitioning>,
    pub(crate) texts: Detected<Texts>,
    /// The options, for what is looked up in the tables.
    options: PostgresOptions,
    /// Whether the tables must be migrated before they are used.
    needs_migration: AtomicBool,
    pub(crate) change_probe: ChangeProbe,
    pub(crate) tail: Tail,
    /// When the cluster's identity was last looked at.
    pub(crate) identified: Mutex<Option<Instant>>,
}

impl Inner {
    /// Checks that the tables are what this build needs, and finds out what was fixed when they were made.
    async fn look_at_tables(&self) -> Result<(), StoreError> {
        schema::check(&self.db).await?;
        schema::columns::check(&self.db, &self.schema).await?;
        identity::check(&self.db).await?;
        let partitioning = schema::partitioning(&self.db, &self.options).await?;
        self.texts.set(Texts::load(&self.db, partitioning).await?);
        self.partitioning.set(partitioning);
        Ok(())
    }

    /// Fails when the tables were found to be missing or old.
    pub(crate) fn check_migrated(&self, operation: &'static str) -> Result<(), StoreError> {
        if !self.needs_migration.load(Ordering::Acquire) {
            return Ok(());
        }
        let message = format!("store schema is missing or old in {}", self.db.place);
        Err(StoreError::new(StoreErrorKind::Schema, operation, message)
            .hint("call `migrate()` on the store, or run `postroom store migrate up` and open it again"))
    }

    /// Whether the cluster's identity should be looked at again.
    pub(crate) fn should_identify(&self) -> bool {
        let mut last = self.identified.lock().unwrap_or_else(PoisonError::into_inner);
        let due = last.is_none_or(|last| last.elapsed() >= IDENTIFY_EVERY);
        if due {
            *last = Some(Instant::now());
        }
        due
    }

    /// The time that statements go by, unless it is the database's own.
    pub(crate) fn clock(&self) -> Option<Time> {
        self.clock.as_ref().map(|clock| Time(micros(clock.now())))
    }

    /// The time by the store's clock.
    pub(crate) async fn now(&self, session: &mut Session) -> Result<i64, sqlx::Error> {
        if let Some(Time(now)) = self.clock() {
            return Ok(now);
        }
        let now: Time = session.sql.scalar("select clock_timestamp()").fetch_one(&mut *session.conn).await?;
        Ok(now.0)
    }
}

/// Whether an event with id $1 is in the log; served by each partition's indexes on id.
const COMMITTED: &str = "select exists (select from postroom.event where id = $1::text)";

impl PostgresStore {
    /// Opens a store whose tables have the version of this build, on the cluster they were created for.
    pub async fn open(options: PostgresOptions) -> Result<Self, StoreError> {
        let store = Self::open_unmigrated(options).await?;
        store.inner.look_at_tables().await?;
        Ok(store)
    }

    /// Opens the store `main` in the database of this pool. Tables that are missing or old are [`migrate`](Self::migrate)'s;
    /// until then nothing can be appended or served.
    ///
    /// Appends, inbox and admin use the pool. Connections of its own are opened when a relay is served: then up to nine,
    /// so that neither starves the other. Other names and schemas: [`PostgresOptions::from_pool`].
    pub async fn from_pool(pool: PgPool) -> Result<Self, StoreError> {
        let store = Self::open_unmigrated(PostgresOptions::from_pool("main", pool)).await?;
        match store.inner.look_at_tables().await {
            Err(error) if error.kind == StoreErrorKind::Schema => {
                store.inner.needs_migration.store(true, Ordering::Release);
            }
            looked => looked?,
        }
        Ok(store)
    }

    /// Creates the tables, or migrates them to the version of this build. Safe if several processes do it at once.
    ///
    /// Needs the right to create a schema; where that is somebody else's, `postroom store migrate plan` prints the SQL.
    pub async fn migrate(&self) -> Result<(), StoreError> {
        PostgresSchema(Arc::clone(&self.inner)).up().await?;
        self.inner.look_at_tables().await?;
        self.inner.needs_migration.store(false, Ordering::Release);
        Ok(())
    }

    /// Opens a store without checking its tables, to migrate them through [`Store::schema`] or to fix them through
    /// [`Store::maintenance`].
    pub async fn open_unmigrated(options: PostgresOptions) -> Result<Self, StoreError> {
        schema::check_name(&options.schema)?;
        let db = Database::open(&options, TablesOf::Ourselves).await?;
        let partitioning = Partitioning::wanted(&options)?;
        let PostgresOptions { name, schema, limits, contract, clock, .. } = options.clone();
        let (wake, texts) = (Notifier::default(), Detected::new(Texts::new(&db.sql, partitioning, true)));
        let partitioning = Detected::new(partitioning);
        let (change_probe, identified) = (ChangeProbe::default(), Mutex::default());
        Ok(Self {
            inner: Arc::new(Inner {
                name,
                schema,
                limits,
                contract,
                clock,
                wake,
                db,
                partitioning,
                texts,
                options,
                needs_migration: AtomicBool::new(false),
                change_probe,
                tail: Tail::default(),
                identified,
            }),
        })
    }

    /// Begins a transaction for business writes and appends.
    ///
    /// Dropping the future is safe; so is dropping the transaction, which rolls it back.
    pub async fn begin(&self) -> Result<PostgresTx, StoreError> {
        Ok(PostgresTx::new(self.inner.db.begin().await?, Arc::clone(&self.inner)))
    }

    /// Reports whether an event with this id is in the log, for callers that lost the connection at their commit.
    ///
    /// A commit that still hangs on the server is not seen, and neither is what retention has removed. Repeating the append
    /// with [`append_once`](postroom_core::Outbox::append_once) needs no question: it waits for such a commit, and appends
    /// nothing if it happened.
    pub async fn committed(&self, id: &str) -> Result<bool, StoreError> {
        let id = id.to_owned();
        self.inner
            .db
            .read("look up", move |session| {
                Box::pin(async move {
                    let there = session.sql.scalar(COMMITTED).bind(id);
                    Ok(there.fetch_one(&mut *session.conn).await?)
                })
            })
            .await
    }

    /// Returns a pool of connections to the same database, for the application's own statements.
    pub fn pool(&self) -> &PgPool {
        &self.inner.db.callers
    }

    /// Wakes the relays of this process, after events were appended by other means.
    pub fn wake(&self) -> Notifier {
        self.inner.wake.clone()
    }
}

#[async_trait]
impl Store for PostgresStore {
    fn name(&self) -> &str {
        &self.inner.name
    }

    async fn source(&self, relay: &RelayIdentity, route: &RouteSpec) -> Result<Arc<dyn Source>, StoreError> {
        route.refuse_consumer(self.name())?;
        self.inner.check_migrated("open")?;
        self.inner.db.serve();
        routes::join(&self.inner, relay, route).await?;
        Ok(Arc::new(PostgresSource::new(Arc::clone(&self.inner), relay.clone(), route.clone())))
    }

    fn retain(&self) -> Arc<dyn Retain> {
        Arc::new(PostgresLog(Arc::clone(&self.inner)))
    }

    fn schema(&self) -> Option<Arc<dyn Schema>> {
        Some(Arc::new(PostgresSchema(Arc::clone(&self.inner))))
    }

    fn maintenance(&self) -> Option<Arc<dyn Maintenance>> {
        Some(Arc::new(PostgresMaintenance(Arc::clone(&self.inner))))
    }
}

impl ManagedStore for PostgresStore {
    fn admin(&self) -> Arc<dyn Admin> {
        Arc::new(LogAdmin::new(Arc::new(PostgresLog(Arc::clone(&self.inner)))))
    }
}

impl fmt::Debug for PostgresStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresStore").field("name", &self.inner.name).field("place", &self.inner.db.place).finish()
    }
}
