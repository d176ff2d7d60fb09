//! A store for a test, relays on it, and short words for what they do.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use postroom_admin::ManagedStore as _;
use postroom_core::{
    Actor, Budget, Delivery, Event, Failure, Outbox as _, Receipt, RelayIdentity, RouteHealth, RouteSpec, Settlement,
    Source, StartFrom, Store as _, StoreError, Take, Verdict, new_id,
};
use postroom_postgres::{PostgresOptions, PostgresStore};
use postroom_testbed::{Schema, Servers};
use sqlx::{AssertSqlSafe, Executor as _, Row as _};

/// How long anything may take that must happen.
pub(crate) const PATIENCE: Duration = Duration::from_mins(5);
/// A lease that does not run out during a test.
pub(crate) const LEASE: Duration = Duration::from_mins(5);

/// How often a fault is repeated: a short form for every run of the tests, a long one for `cargo xtask faults`.
pub(crate) fn rounds(short: usize, long: usize) -> usize {
    if std::env::var_os("POSTROOM_FAULTS").is_some() { long } else { short }
}

pub(crate) fn ada() -> Actor {
    Actor { name: "ada".to_owned(), reason: None }
}

pub(crate) fn route() -> RouteSpec {
    RouteSpec::new("mailer").start_from(StartFrom::Beginning)
}

/// A store with tables.
#[derive(Debug)]
pub(crate) struct Bench {
    pub(crate) store: PostgresStore,
    pub(crate) options: PostgresOptions,
    pub(crate) name: String,
    _schema: Option<Schema>,
}

impl Bench {
    /// In a schema of its own on the shared server.
    pub(crate) async fn new() -> Self {
        Self::with(|options| options.lanes(4)).await
    }

    pub(crate) async fn with(change: impl FnOnce(PostgresOptions) -> PostgresOptions) -> Self {
        let schema = Schema::choose(&Servers::find());
        let options = change(PostgresOptions::new("main", schema.url()).schema(schema.name()));
        Self { name: schema.name().to_owned(), ..Self::made(options).await }.keeping(schema)
    }

    /// In a database of which this is the address.
    pub(crate) async fn at(url: String) -> Self {
        Self::made(PostgresOptions::new("main", url).lanes(4)).await
    }

    pub(crate) async fn made(options: PostgresOptions) -> Self {
        let empty = PostgresStore::open_unmigrated(options.clone()).await.unwrap();
        empty.schema().unwrap().up().await.unwrap();
        let store = PostgresStore::open(options.clone()).await.unwrap();
        Self { store, options, name: "postroom".to_owned(), _schema: None }
    }

    fn keeping(self, schema: Schema) -> Self {
        Self { _schema: Some(schema), ..self }
    }

    /// The same with another way to it.
    pub(crate) fn over(self, store: PostgresStore) -> Self {
        Self { store, ..self }
    }

    /// The same store as another process opens it.
    pub(crate) async fn another(&self) -> PostgresStore {
        PostgresStore::open(self.options.clone()).await.unwrap()
    }

    /// The same store by another way.
    pub(crate) async fn by(&self, url: String) -> PostgresStore {
        PostgresStore::open(self.options.clone().urls([url])).await.unwrap()
    }

    /// A text in which `postroom.` is the schema.
    pub(crate) fn here(&self, text: &str) -> AssertSqlSafe<String> {
        AssertSqlSafe(text.replace("postroom.", &format!("{}.", self.name)))
    }

    pub(crate) async fn sql(&self, text: &str) {
        self.store.pool().execute(self.here(text)).await.unwrap_or_else(|error| panic!("{text}: {error}"));
    }

    /// One value, as text.
    pub(crate) async fn one(&self, text: &str) -> String {
        let row = self.store.pool().fetch_one(self.here(&format!("select ({text})::text"))).await.unwrap();
        row.get::<Option<String>, _>(0).unwrap_or_default()
    }

    /// Appends these, in one transaction.
    pub(crate) async fn append(&self, events: &[Event]) {
        append(&self.store, events).await.unwrap();
    }

    pub(crate) async fn worker(&self) -> Worker {
        Worker::on(&self.store, LEASE).await
    }

    /// verification finds nothing; how many events were delivered at once or in the end, by all routes.
    pub(crate) async fn agrees(&self) -> u64 {
        let rows = self.store.admin().verify().await.unwrap();
        for row in &rows {
            assert_eq!(row.differences, Vec::<String>::new(), "route {} lane {}", row.route, row.lane);
        }
        rows.iter().map(|row| row.counts.delivered + row.counts.recovered).sum()
    }

    /// Every event of the log is there once.
    pub(crate) async fn no_doubles(&self) {
        let doubles = "select count(*) from (select id from postroom.log group by id having count(*) > 1) d";
        assert_eq!(self.one(doubles).await, "0", "an event is in the log twice");
    }
}

/// Appends these, in one transaction.
pub(crate) async fn append(store: &PostgresStore, events: &[Event]) -> Result<(), StoreError> {
    let mut tx = store.begin().await?;
    let appended = store.append_many(&mut tx, events).await?;
    tx.commit().await.unwrap();
    appended.wake();
    Ok(())
}

/// Events `from` to `from + count - 1` over some keys; the number is the id.
pub(crate) fn events(from: usize, count: usize) -> Vec<Event> {
    (from..from + count)
        .map(|n| Event::new("order.placed").id(n.to_string()).key(format!("order-{}", n % 37)))
        .collect()
}

/// Ids `from` to `from + count - 1`.
pub(crate) fn ids(from: usize, count: usize) -> Vec<String> {
    (from..from + count).map(|n| n.to_string()).collect()
}

/// One route as one relay serves it.
pub(crate) struct Worker {
    pub(crate) source: Arc<dyn Source>,
    /// What came, and how often.
    pub(crate) came: BTreeMap<String, usize>,
}

impl Worker {
    pub(crate) async fn on(store: &PostgresStore, lease: Duration) -> Self {
        Self { source: store.source(&relay(lease), &route()).await.unwrap(), came: BTreeMap::new() }
    }

    pub(crate) async fn look(&mut self, rows: usize) -> Result<Take, StoreError> {
        let take = self.source.take(Budget { rows, bytes: 64 << 20 }).await?;
        assert_eq!(take.ownership.halted, None);
        for delivery in &take.deliveries {
            *self.came.entry(delivery.event.id.clone()).or_default() += 1;
        }
        Ok(take)
    }

    /// Takes until something comes, whatever the store says meanwhile.
    pub(crate) async fn take(&mut self, rows: usize) -> Vec<Delivery> {
        let start = Instant::now();
        loop {
            match self.look(rows).await {
                Ok(take) if !take.deliveries.is_empty() => return take.deliveries,
                Ok(_) => assert!(start.elapsed() < PATIENCE, "nothing comes; {} came before", self.came.len()),
                Err(error) => assert!(start.elapsed() < PATIENCE, "still: {error}"),
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Settles as delivered.
    pub(crate) async fn settle(&self, deliveries: &[Delivery]) -> Result<(), StoreError> {
        self.source.settle(&deliveries.iter().map(delivered).collect::<Vec<_>>()).await.map(drop)
    }

    /// Settles these, again and again until the store says that it is done.
    pub(crate) async fn settle_all(&self, settlements: &[Settlement]) {
        let start = Instant::now();
        while let Err(error) = self.source.settle(settlements).await {
            assert!(start.elapsed() < PATIENCE, "still: {error}");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Delivers until this many different events have come, whatever the store says meanwhile.
    pub(crate) async fn until(&mut self, came: usize) {
        while self.came.len() < came {
            let taken = self.take(500).await;
            self.settle_all(&taken.iter().map(delivered).collect::<Vec<_>>()).await;
        }
    }

    /// Delivers until nothing comes any more.
    pub(crate) async fn drain(&mut self) {
        let start = Instant::now();
        loop {
            assert!(start.elapsed() < PATIENCE, "it does not end");
            let Ok(take) = self.look(500).await else { continue };
            if take.deliveries.is_empty() && !take.more {
                return;
            }
            self.settle_all(&take.deliveries.iter().map(delivered).collect::<Vec<_>>()).await;
        }
    }

    pub(crate) async fn renew(&self) -> Result<usize, StoreError> {
        Ok(self.source.renew(&RouteHealth::running()).await?.ownership.lanes)
    }

    /// How many came more than once.
    pub(crate) fn twice(&self) -> usize {
        self.came.values().map(|times| times - 1).sum()
    }
}

pub(crate) fn relay(lease: Duration) -> RelayIdentity {
    RelayIdentity { name: "here".to_owned(), boot: new_id(), version: "0".to_owned(), lease }
}

fn settlement(delivery: &Delivery, verdict: Verdict) -> Settlement {
    Settlement { handle: delivery.handle, lane: delivery.lane, verdict, took: Duration::from_millis(1) }
}

pub(crate) fn delivered(delivery: &Delivery) -> Settlement {
    settlement(delivery, Verdict::Delivered(Receipt::default()))
}

pub(crate) fn retry(delivery: &Delivery, after: Duration) -> Settlement {
    let failure = Failure::transient("test", "not now");
    settlement(delivery, Verdict::Retry { attempts: delivery.attempts + 1, after, failure })
}

pub(crate) fn dead(delivery: &Delivery) -> Settlement {
    let failure = Failure::permanent("test", "never");
    settlement(delivery, Verdict::Dead { attempts: delivery.attempts + 1, failure, published: false })
}

/// Waits until something is so.
pub(crate) async fn wait_for(what: &str, mut so: impl AsyncFnMut() -> bool) {
    let start = Instant::now();
    while !so().await {
        assert!(start.elapsed() < PATIENCE, "{what} did not happen");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
