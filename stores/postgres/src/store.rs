//! The store as applications and relays open it.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use postroom_core::{
    Clock, Contract, Desk, Limits, RelayIdentity, RouteDefinition, Schema, Source, Store, StoreError, Upkeep, Wake,
};
use sqlx::{PgPool, Transaction};

use crate::clock::{Time, micros};
use crate::database::{Database, Session, TablesOf};
use crate::desk::PostgresDesk;
use crate::options::PostgresOptions;
use crate::schema::{self, PostgresSchema, Ring};
use crate::source::{PostgresSource, Pulse, Tail};
use crate::statement::Texts;
use crate::upkeep::PostgresUpkeep;
use crate::{identity, routes};

/// How often a relay makes sure that it still works on the cluster its tables were made for.
const IDENTIFY_EVERY: Duration = Duration::from_mins(1);

/// The native log in one PostgreSQL database; cheap to clone.
#[derive(Clone)]
pub struct Postgres {
    pub(crate) inner: Arc<Inner>,
}

/// What every part of the store shares.
pub(crate) struct Inner {
    pub(crate) name: String,
    pub(crate) schema: String,
    pub(crate) limits: Limits,
    pub(crate) contract: Option<Arc<dyn Contract>>,
    clock: Option<Arc<dyn Clock>>,
    pub(crate) wake: Wake,
    pub(crate) db: Database,
    pub(crate) ring: Ring,
    pub(crate) texts: Texts,
    pub(crate) pulse: Pulse,
    pub(crate) tail: Tail,
    /// When the cluster's identity was last looked at.
    pub(crate) identified: Mutex<Option<Instant>>,
}

impl Inner {
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

impl Postgres {
    /// Opens a store whose tables are there in the version this build needs, on the cluster they were made for.
    pub async fn open(options: PostgresOptions) -> Result<Self, StoreError> {
        let store = Self::open_unmigrated(options.clone()).await?;
        schema::check(&store.inner.db).await?;
        schema::columns::check(&store.inner.db, &store.inner.schema).await?;
        identity::check(&store.inner.db).await?;
        let ring = schema::ring(&store.inner.db, &options).await?;
        let texts = Texts::load(&store.inner.db, ring).await?;
        let Some(inner) = Arc::into_inner(store.inner) else { unreachable!("nobody else has it yet") };
        Ok(Self { inner: Arc::new(Inner { ring, texts, ..inner }) })
    }

    /// Opens a store without looking at its tables, to make them through [`Store::schema`] or to mend them through
    /// [`Store::upkeep`].
    pub async fn open_unmigrated(options: PostgresOptions) -> Result<Self, StoreError> {
        schema::check_name(&options.schema)?;
        let db = Database::open(&options, TablesOf::Ourselves).await?;
        let ring = Ring::wanted(&options)?;
        let PostgresOptions { name, schema, limits, contract, clock, .. } = options;
        let (wake, texts) = (Wake::default(), Texts::new(&db.sql, ring, true));
        let (pulse, identified) = (Pulse::default(), Mutex::default());
        Ok(Self {
            inner: Arc::new(Inner {
                name,
                schema,
                limits,
                contract,
                clock,
                wake,
                db,
                ring,
                texts,
                pulse,
                tail: Tail::default(),
                identified,
            }),
        })
    }

    /// Begins a transaction for business writes and appends.
    ///
    /// Dropping the future is safe; so is dropping the transaction, which rolls it back.
    pub async fn begin(&self) -> Result<Transaction<'static, sqlx::Postgres>, StoreError> {
        self.inner.db.begin().await
    }

    /// Whether an event with this id is in the log: for callers that lost the connection at their commit.
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
                    let there = session.sql.scalar(include_str!("sql/committed.sql")).bind(id);
                    Ok(there.fetch_one(&mut *session.conn).await?)
                })
            })
            .await
    }

    /// Connections to the same database, for statements of the application's own.
    pub fn pool(&self) -> &PgPool {
        &self.inner.db.callers
    }

    /// Wakes the relays of this process, after events were appended by other means.
    pub fn wake(&self) -> Wake {
        self.inner.wake.clone()
    }
}

#[async_trait]
impl Store for Postgres {
    fn name(&self) -> &str {
        &self.inner.name
    }

    async fn source(&self, relay: &RelayIdentity, route: &RouteDefinition) -> Result<Arc<dyn Source>, StoreError> {
        routes::join(&self.inner, relay, route).await?;
        Ok(Arc::new(PostgresSource::new(Arc::clone(&self.inner), relay.clone(), route.clone())))
    }

    fn desk(&self) -> Arc<dyn Desk> {
        Arc::new(PostgresDesk(Arc::clone(&self.inner)))
    }

    fn schema(&self) -> Option<Arc<dyn Schema>> {
        Some(Arc::new(PostgresSchema(Arc::clone(&self.inner))))
    }

    fn upkeep(&self) -> Option<Arc<dyn Upkeep>> {
        Some(Arc::new(PostgresUpkeep(Arc::clone(&self.inner))))
    }
}

impl fmt::Debug for Postgres {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Postgres").field("name", &self.inner.name).field("place", &self.inner.db.place).finish()
    }
}
