//! A table that an application has already, on PostgreSQL: one of each kind of claim, and one of which another route marks the
//! rows. That one delivers now and then, whenever the clock moves, and is away for as long.
//!
//! Such a table goes by the server's clock. Functions of the same names, which the database's search path finds first, let the
//! schedule move it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use postroom_admin::ManagedStore;
use postroom_adopted::mapping::{Claim, Mapping};
use postroom_adopted::{Adopted, AdoptedOptions, Dialect};
use postroom_conformance::mappings::Sample;
use postroom_core::{
    Budget, Delivery, Event, Receipt, RelayIdentity, RouteHealth, RouteSpec, Settlement, Source, Store as _, Verdict,
};
use postroom_postgres::{Pooler, PostgresExecutor, PostgresOptions};
use postroom_testbed::{Database, FaultProxy, Servers};
use sqlx::{AssertSqlSafe, Executor as _, PgPool, Row as _};
use tokio::sync::Mutex;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::postgres::Prepared;
use super::{Door, Site, Traits, Transaction};
use crate::plan::Plan;

/// The server's clock in the schedule's hands.
const CLOCK: &str = "create schema sim; \
    create table sim.clock (ahead interval not null); insert into sim.clock values ('0'); \
    create function sim.statement_timestamp() returns timestamptz stable language sql as \
        'select pg_catalog.statement_timestamp() + ahead from sim.clock'; \
    create function sim.now() returns timestamptz stable language sql as \
        'select pg_catalog.now() + ahead from sim.clock'";

/// How often a row may be claimed in vain, where no fault of the run leaves claims behind.
const CLAIMS_MAX: u32 = 3;

/// The route that marks the rows of a table of which the schedule's own is a further one.
const FIRST: &str = "bus";
/// How long its turn may wait for a lock that somebody holds who waits at a gate, before the schedule goes on beside it.
const PATIENCE: Duration = Duration::from_millis(300);

pub(crate) struct AdoptedSite {
    mapping: Mapping,
    first: Option<First>,
    store: Adopted,
    pool: PgPool,
    /// Rows inserted: their place in the order.
    rows: Arc<AtomicU64>,
    port: u16,
    // Dropped last: it is deleted.
    database: Database,
}

/// A kind of table.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Kind {
    pub(crate) sample: Sample,
    /// Whether another route marks the rows.
    further: bool,
}

/// The kind of table that this seed is about.
pub(crate) fn kind(seed: u64) -> Kind {
    let (sample, further) = match seed % 4 {
        0 => (Sample::Words, false),
        1 => (Sample::Queue, false),
        2 => (Sample::Locks, false),
        _ => (Sample::Words, true),
    };
    Kind { sample, further }
}

/// The route that marks the rows, in a relay without faults.
struct First {
    source: Arc<dyn Source>,
    turns: AtomicU64,
    /// The turn that waits for a lock; with what is delivered and not settled yet when it ends.
    turn: Mutex<Option<JoinHandle<Vec<Settlement>>>>,
}

impl First {
    async fn new(store: &Adopted) -> Self {
        let relay = RelayIdentity {
            name: FIRST.to_owned(),
            boot: FIRST.to_owned(),
            version: String::new(),
            lease: Duration::from_hours(24),
        };
        let source = store.source(&relay, &RouteSpec::new(FIRST)).await.expect("the table is there");
        Self { source, turns: AtomicU64::default(), turn: Mutex::default() }
    }

    /// Its destination is there every other while. What it took is settled a turn later, with much in between.
    async fn turn(&self) {
        let mut turn = self.turn.lock().await;
        let mut delivered = Vec::new();
        if let Some(running) = turn.as_mut() {
            let Ok(ended) = timeout(PATIENCE, running).await else { return };
            delivered = ended.expect("a turn ends");
            *turn = None;
        }
        if self.turns.fetch_add(1, Ordering::Relaxed) % 12 < 6 {
            let source = Arc::clone(&self.source);
            *turn = Some(tokio::spawn(async move { goes_on(&*source, delivered).await }));
        } else if !delivered.is_empty() {
            *turn = Some(tokio::spawn(async move { delivered }));
        }
    }
}

/// Settles what was delivered, or takes more; what is delivered and not settled afterwards.
async fn goes_on(source: &dyn Source, delivered: Vec<Settlement>) -> Vec<Settlement> {
    if source.renew(&RouteHealth::running()).await.is_err() {
        return delivered;
    }
    if !delivered.is_empty() {
        return if source.settle(&delivered).await.is_ok() { Vec::new() } else { delivered };
    }
    let Ok(take) = source.take(Budget { rows: 5, bytes: 1 << 20 }).await else { return Vec::new() };
    let settled = |delivery: &Delivery| Settlement {
        handle: delivery.handle,
        lane: delivery.lane,
        verdict: Verdict::Delivered(Receipt::default()),
        took: Duration::ZERO,
    };
    take.deliveries.iter().map(settled).collect()
}

impl AdoptedSite {
    pub(crate) async fn new(kind: Kind, plan: &Plan) -> Self {
        let Kind { sample, further } = kind;
        let servers = Servers::find();
        let database = Database::create(&servers).await;
        let url = database.url();
        let pool = PgPool::connect(&url).await.expect("the server answers");
        pool.execute(CLOCK).await.expect("functions can be made");
        let path = format!("alter database {} set search_path = sim, pg_catalog, public", database.name());
        pool.execute(AssertSqlSafe(path)).await.expect("the database is ours");
        pool.close().await;
        let pool = PgPool::connect(&url).await.expect("the server answers");
        pool.execute(AssertSqlSafe(sample.create(Dialect::Postgres))).await.expect("the table can be made");
        let mut mapping = sample.mapping();
        if let Claim::Columns(claimed) = &mut mapping.claim {
            claimed.lease = plan.lease;
            claimed.claims_max = (!plan.leaves_claims()).then_some(CLAIMS_MAX);
        }
        mapping.marked_by = further.then(|| FIRST.to_owned());
        let store = open(&mapping, &url).await;
        // By connections of its own: one that waits for a lock must not be in the way of who looks.
        let first = if further { Some(First::new(&open(&mapping, &url).await).await) } else { None };
        Self { mapping, first, store, pool, rows: Arc::default(), port: servers.port("postgres"), database }
    }
}

async fn open(mapping: &Mapping, url: &str) -> Adopted {
    let options = PostgresOptions::new("main", url).pooler(Pooler::None);
    let executor = PostgresExecutor::open(options).await.expect("the server answers");
    let options = AdoptedOptions::new("main", mapping.clone());
    Adopted::open(options, Arc::new(executor)).await.expect("the table is there")
}

#[async_trait]
impl Site for AdoptedSite {
    fn traits(&self) -> Traits {
        Traits { writers: 4, prepares: true, delays: false, ordered: self.mapping.ordered }
    }

    fn store(&self) -> Arc<dyn ManagedStore> {
        Arc::new(self.store.clone())
    }

    async fn relay(&self) -> Door {
        let proxy = FaultProxy::to_postgres(self.port).await;
        let store = open(&self.mapping, &proxy.url(self.database.name())).await;
        let gate = proxy.gate();
        Door { store: Arc::new(store), proxy: Some(proxy), gate }
    }

    #[allow(clippy::disallowed_methods, reason = "a schedule waits for it to the end")]
    async fn begin(&self) -> Box<dyn Transaction> {
        let tx = self.pool.begin().await.expect("a transaction can begin");
        Box::new(Open { pool: self.pool.clone(), tx, rows: Arc::clone(&self.rows) })
    }

    async fn waits_for_lock(&self) -> bool {
        let text = "select exists (select 1 from pg_locks where not granted)";
        self.pool.fetch_one(text).await.expect("the server answers").get(0)
    }

    fn take_begins(&self) -> &'static str {
        "case when r.paused_by is null"
    }

    async fn skip_numbers(&self, _: u64) {}

    async fn advance(&self, by: Duration) {
        let text = format!("update sim.clock set ahead = ahead + interval '{} microseconds'", by.as_micros());
        self.pool.execute(AssertSqlSafe(text)).await.expect("the clock can be moved");
        if let Some(first) = &self.first {
            first.turn().await;
        }
    }

    async fn set_back(&self, by: Duration) {
        let text = format!("update sim.clock set ahead = ahead - interval '{} microseconds'", by.as_micros());
        self.pool.execute(AssertSqlSafe(text)).await.expect("the clock can be moved");
    }
}

struct Open {
    pool: PgPool,
    tx: sqlx::Transaction<'static, sqlx::Postgres>,
    rows: Arc<AtomicU64>,
}

#[async_trait]
impl Transaction for Open {
    async fn append(&mut self, event: &Event) {
        let place = self.rows.fetch_add(1, Ordering::Relaxed);
        let insert = sqlx::query(
            "insert into public.outbox (id, type, payload, key, created_at) \
             values ($1, $2, '{}', $3, timestamptz '2026-01-02 03:00Z' + $4 * interval '1 second')",
        );
        let insert = insert.bind(&event.id).bind(&event.event_type).bind(event.ordering_key());
        let insert = insert.bind(i32::try_from(place).unwrap_or(i32::MAX));
        insert.execute(&mut *self.tx).await.expect("it can be inserted");
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
        let prepared = Prepared::of(&mut self.tx, &self.pool).await;
        // Nothing is left of it in this session.
        self.tx.rollback().await.expect("the session goes on");
        prepared
    }
}
