//! The native log on PostgreSQL: each relay process has a gate of its own on its way to the server.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use jiff::SignedDuration;
use postroom_admin::ManagedStore;
use postroom_core::{Event, Outbox as _, Store as _};
use postroom_postgres::{Pooler, PostgresOptions, PostgresStore, PostgresTx};
use postroom_testbed::{Cluster, FaultProxy, Schema, Servers, unique_name};
use postroom_testing::ManualClock;
use sqlx::{AssertSqlSafe, Executor as _, PgConnection, PgPool, Row as _};

use super::{Door, Site, Traits, Transaction};

/// How many partitions the log has, in segments of a second.
pub(crate) const PARTITIONS: u16 = 5;

pub(crate) struct PostgresSite {
    options: PostgresOptions,
    store: PostgresStore,
    schema: String,
    // Dropped last: it is deleted.
    _shared: Option<Schema>,
    port: u16,
    clock: ManualClock,
}

impl PostgresSite {
    /// On the shared server.
    pub(crate) async fn new(lanes: u16, clock: &ManualClock) -> Self {
        let servers = Servers::find();
        let shared = Schema::choose(&servers);
        let site = Self::made(lanes, clock, shared.url(), shared.name().to_owned(), servers.port("postgres")).await;
        Self { _shared: Some(shared), ..site }
    }

    /// On a server of its own: where others hold transactions open, no partition is left out.
    pub(crate) async fn alone(lanes: u16, clock: &ManualClock, cluster: &Cluster) -> Self {
        Self::made(lanes, clock, cluster.url("postgres"), unique_name("sim"), cluster.port()).await
    }

    async fn made(lanes: u16, clock: &ManualClock, url: String, schema: String, port: u16) -> Self {
        let options = PostgresOptions::new("main", url)
            .schema(schema.as_str())
            .pooler(Pooler::None)
            .lanes(lanes)
            .partitions(PARTITIONS)
            .segment(Duration::from_secs(1))
            .clock(Arc::new(clock.clone()));
        let empty = PostgresStore::open_unmigrated(options.clone()).await.expect("the server answers");
        empty.schema().expect("it has one").up().await.expect("tables can be made");
        let store = PostgresStore::open(options.clone()).await.expect("the tables are there");
        Self { options, store, schema, _shared: None, port, clock: clock.clone() }
    }
}

#[async_trait]
impl Site for PostgresSite {
    fn traits(&self) -> Traits {
        Traits { writers: 4, prepares: true, delays: true, ordered: true }
    }

    fn store(&self) -> Arc<dyn ManagedStore> {
        Arc::new(self.store.clone())
    }

    async fn relay(&self) -> Door {
        let proxy = FaultProxy::to_postgres(self.port).await;
        let store =
            PostgresStore::open(self.options.clone().urls([proxy.url("postgres")])).await.expect("the way is open");
        let gate = proxy.gate();
        Door { store: Arc::new(store), proxy: Some(proxy), gate }
    }

    async fn begin(&self) -> Box<dyn Transaction> {
        let tx = self.store.begin().await.expect("a transaction can begin");
        Box::new(Open { store: self.store.clone(), tx })
    }

    async fn waits_for_lock(&self) -> bool {
        let text = "select exists (select 1 from pg_locks where not granted)";
        self.store.pool().fetch_one(text).await.expect("the server answers").get(0)
    }

    fn take_begins(&self) -> &'static str {
        "array(select boot from alive where serves"
    }

    async fn skip_numbers(&self, numbers: u64) {
        let text = format!("select setval('{0}.log_seq', nextval('{0}.log_seq') + {numbers})", self.schema);
        self.store.pool().execute(AssertSqlSafe(text)).await.expect("the sequence can be moved");
    }

    async fn advance(&self, by: Duration) {
        self.clock.advance(by);
    }

    async fn set_back(&self, by: Duration) {
        self.clock.jump_wall(-SignedDuration::try_from(by).expect("hours, not years"));
    }
}

struct Open {
    store: PostgresStore,
    tx: PostgresTx,
}

#[async_trait]
impl Transaction for Open {
    async fn append(&mut self, event: &Event) {
        drop(self.store.append(&mut self.tx, event).await.expect("it can be appended"));
    }

    async fn savepoint(&mut self) {
        self.tx.execute("savepoint here").await.expect("a savepoint");
    }

    async fn rollback_to_savepoint(&mut self) {
        self.tx.execute("rollback to savepoint here").await.expect("there is one");
    }

    async fn rollback(self: Box<Self>) {
        self.tx.rollback().await.expect("it can be rolled back");
    }

    async fn commit(self: Box<Self>) {
        self.tx.commit().await.expect("it can be committed");
    }

    async fn prepare(mut self: Box<Self>) -> Box<dyn Transaction> {
        let prepared = Prepared::of(&mut self.tx, self.store.pool()).await;
        // Nothing is left of it in this session.
        self.tx.rollback().await.expect("the session goes on");
        prepared
    }
}

/// A transaction that is prepared for a commit in two phases.
pub(super) struct Prepared {
    pool: PgPool,
    name: String,
}

impl Prepared {
    /// Prepares the transaction that is open on this connection.
    pub(super) async fn of(tx: &mut PgConnection, pool: &PgPool) -> Box<dyn Transaction> {
        let name = unique_name("sim");
        tx.execute(AssertSqlSafe(format!("prepare transaction '{name}'"))).await.expect("it can be prepared");
        Box::new(Self { pool: pool.clone(), name })
    }

    async fn end(&self, how: &str) {
        let text = format!("{how} prepared '{}'", self.name);
        self.pool.execute(AssertSqlSafe(text)).await.expect("it was prepared");
    }
}

#[async_trait]
impl Transaction for Prepared {
    async fn append(&mut self, _: &Event) {}

    async fn savepoint(&mut self) {}

    async fn rollback_to_savepoint(&mut self) {}

    async fn rollback(self: Box<Self>) {
        self.end("rollback").await;
    }

    async fn commit(self: Box<Self>) {
        self.end("commit").await;
    }

    async fn prepare(self: Box<Self>) -> Box<dyn Transaction> {
        self
    }
}
