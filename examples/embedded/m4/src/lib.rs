//! M4 eventing on Postroom: its tables as they were, its dispatcher gone.

pub mod events;
pub mod handlers;

use std::error::Error;
use std::sync::Arc;

use postroom::admin::{Actor, ManagedStore, ReplayKind, Selection, replay_at_once};
use postroom::config::{Preset, Sources, load_store, open};
use postroom::postgres::sqlx::{self, PgPool, Postgres, Transaction};
use postroom::postgres::{InboxTable, PoolTransactions, PostgresInbox};
use postroom::{
    Failure, Inbox, Incoming, Limits, Relay, RelayOptions, RetryPolicy, Route, StoreError, Transactions as _,
};

/// A transaction of the service.
pub type Tx = Transaction<'static, Postgres>;

/// The tables the service works with, beside those of the events.
const BUSINESS: &str = "
    create table windows (station text, kwh bigint);
    create table dashboards (station text primary key, kwh bigint, updates bigint);
    create table tariffs (station text primary key, cents_per_kwh bigint);
    create table settlements (station text, cents bigint);
    create table invoices (station text, cents bigint);";

/// The service.
#[derive(Clone)]
pub struct M4 {
    /// Its database.
    pub pool: PgPool,
    inbox: PostgresInbox,
    store: Arc<dyn ManagedStore>,
}

impl M4 {
    /// Opens the database, and makes the tables in one that has none.
    pub async fn open(url: &str) -> Result<Self, Box<dyn Error>> {
        let pool = PgPool::connect(url).await?;
        let there = "select to_regclass('event_outbox') is not null";
        if !sqlx::query_scalar::<_, bool>(there).fetch_one(&pool).await? {
            let ddl = Preset::named("m4").ok_or("the preset is part of Postroom")?.ddl();
            sqlx::raw_sql(sqlx::AssertSqlSafe(ddl + BUSINESS)).execute(&pool).await?;
        }
        let env = [("DATABASE_URL".to_owned(), url.to_owned())].into();
        let preset = load_store(&Sources { preset: Some("m4".to_owned()), env, ..Sources::default() })?;
        Ok(Self {
            inbox: PostgresInbox::open(&pool, &InboxTable::processed_events()).await?,
            store: open(&preset, Limits::default()).await?,
            pool,
        })
    }

    /// Begins a transaction; one that is dropped is rolled back.
    pub async fn begin(&self) -> Result<Tx, StoreError> {
        PoolTransactions::of(&self.pool).begin().await
    }

    /// Begins the transaction of a handler's work; none if this handler has done it.
    async fn accept(&self, handler: &str, event: &Incoming) -> Result<Option<Tx>, Failure> {
        let mut tx = self.begin().await?;
        Ok(self.inbox.accept(&mut tx, handler, &event.id).await?.is_new().then_some(tx))
    }

    /// The dispatcher: the first error makes a dead letter.
    pub fn relay(&self, options: RelayOptions) -> Relay {
        let retry = RetryPolicy::default().attempts(1);
        let route = Route::named("m4").retry(retry).to(handlers::all(self));
        Relay::new(Arc::clone(&self.store)).options(options).route(route)
    }

    /// Dispatches what is there, and returns.
    pub async fn dispatch(&self) -> Result<(), Box<dyn Error>> {
        let options = RelayOptions::default().drain(true);
        Ok(self.relay(options).run(std::future::pending()).await?)
    }

    /// Replays every dead letter; how many.
    pub async fn replay(&self, who: &str) -> Result<u64, Box<dyn Error>> {
        let actor = Actor { name: who.to_owned(), reason: None };
        let dead = ReplayKind::Dead;
        let replayed = replay_at_once(&*self.store.admin(), dead, &Selection::default(), &actor).await?;
        Ok(replayed.map_or(0, |replay| replay.done))
    }
}

impl std::fmt::Debug for M4 {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("M4")
    }
}
