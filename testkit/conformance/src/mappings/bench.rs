//! A table of one kind, and relays' sources on it.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use postroom_admin::view::ReplayKind;
use postroom_admin::{Admin, ManagedStore as _, Selection, replay_at_once};
use postroom_adopted::{Adopted, AdoptedOptions, Dialect, Mapping, SqlExecutor, Statement};
use postroom_core::{
    Actor, Budget, Delivery, Failure, Ownership, Receipt, RelayIdentity, RouteHealth, RouteSpec, Settlement, Source,
    Store, StoreError, Take, Verdict,
};

use super::Sample;

/// The route of the table.
pub(super) const ROUTE: &str = "orders";
/// The lease of relays.
pub(super) const LEASE: Duration = Duration::from_secs(30);

/// A table of one kind.
pub struct Bench {
    pub sample: Sample,
    pub executor: Arc<dyn SqlExecutor>,
    pub store: Adopted,
    pub admin: Arc<dyn Admin>,
}

impl fmt::Debug for Bench {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bench").field("sample", &self.sample).finish_non_exhaustive()
    }
}

impl Bench {
    pub(super) async fn open(sample: Sample, executor: Arc<dyn SqlExecutor>) -> Self {
        executor.script("test", sample.create(executor.dialect())).await.unwrap();
        Self::with(sample, executor, sample.mapping()).await
    }

    /// The same tables, which something was done to, under another mapping.
    pub(super) async fn reopened(&self, mapping: Mapping) -> Self {
        self.by(Arc::clone(&self.executor), mapping).await
    }

    /// The same tables by another way.
    pub(super) async fn by(&self, executor: Arc<dyn SqlExecutor>, mapping: Mapping) -> Self {
        Self::with(self.sample, executor, mapping).await
    }

    async fn with(sample: Sample, executor: Arc<dyn SqlExecutor>, mapping: Mapping) -> Self {
        let store = open(mapping, Arc::clone(&executor)).await;
        let admin = store.admin();
        Self { sample, executor, store, admin }
    }

    /// Inserts rows `0..count` of this key, named `KEY-N`; without a key `row-N`.
    pub async fn insert(&self, count: usize, key: Option<&str>) {
        for n in 0..count {
            let id = format!("{}-{n}", key.unwrap_or("row"));
            self.insert_one(n, &id, key).await;
        }
    }

    /// Inserts rows of a column in the order, a name and a key each, all at once.
    pub async fn insert_all(&self, rows: &[(usize, String, String)]) {
        let insert = |(n, id, key): &(usize, String, String)| {
            self.sample.insert(self.executor.dialect(), *n, id, Some(key.as_str()))
        };
        self.execute(&rows.iter().map(insert).collect::<Vec<_>>().join("; ")).await;
    }

    /// Inserts a row of this name, the n-th in order.
    pub async fn insert_one(&self, n: usize, id: &str, key: Option<&str>) {
        self.execute(&self.sample.insert(self.executor.dialect(), n, id, key)).await;
    }

    /// The same with any payload.
    pub async fn insert_payload(&self, n: usize, id: &str, payload: &str) {
        self.execute(&self.sample.insert_payload(self.executor.dialect(), n, id, None, payload)).await;
    }

    /// Moves the time of a row's next try, as an operator may.
    pub async fn reschedule(&self, id: &str, time: &str) {
        self.execute(&self.sample.reschedule(self.executor.dialect(), id, time)).await;
    }

    /// Makes every row due that waits for its time.
    pub async fn all_are_due(&self) {
        self.execute(&self.sample.all_are_due(self.executor.dialect())).await;
    }

    /// The rows that the side table knows, by their ids.
    pub async fn beside(&self) -> Vec<String> {
        let table = if self.executor.dialect() == Dialect::Postgres { "postroom.sidecar" } else { "postroom_sidecar" };
        let query = Statement::new(format!("select row_id from {table} order by 1"));
        let found = self.executor.look("test", vec![query]).await.unwrap();
        found.into_iter().flatten().filter_map(|row| row.into_iter().next().flatten()).collect()
    }

    pub async fn execute(&self, sql: &str) {
        self.executor.script("test", sql.to_owned()).await.unwrap();
    }

    /// What people see who look into the table.
    pub async fn seen(&self, id: &str) -> String {
        let query = self.sample.seen(self.executor.dialect(), id);
        let found = self.executor.look("test", vec![Statement::new(query)]).await.unwrap();
        found[0].first().map_or_else(|| "gone".to_owned(), |row| row[0].clone().unwrap_or_default())
    }

    /// The first column of a query over a table of its own, where tables without a schema stand.
    pub async fn column(&self, select: &str, table: &str) -> Vec<String> {
        let schema = if self.executor.dialect() == Dialect::Postgres { "public." } else { "" };
        let query = format!("select {select} from {schema}{table} order by 1");
        let found = self.executor.look("test", vec![Statement::new(query)]).await.unwrap();
        found.into_iter().flatten().filter_map(|row| row.into_iter().next().flatten()).collect()
    }

    /// The table of dead letters: id, type, error and how often.
    pub async fn letters(&self) -> Vec<String> {
        self.column(
            "event_id || ' ' || event_type || ' ' || error || ' ' || attempts",
            "dead_letter_events where first_seen_at <= last_seen_at and payload is not null",
        )
        .await
    }

    /// Sends again what is selected, on [`ROUTE`] unless it says otherwise; how many that are.
    pub async fn replay(&self, what: ReplayKind, which: &Selection) -> u64 {
        let route = which.route.clone().unwrap_or_else(|| ROUTE.to_owned());
        let which = &Selection { route: Some(route), ..which.clone() };
        let operator = Actor { name: "op".to_owned(), reason: None };
        replay_at_once(&*self.admin, what, which, &operator).await.unwrap().map_or(0, |row| row.done)
    }

    /// A relay that serves the route.
    pub async fn worker(&self, name: &str) -> Worker {
        self.worker_of(name, RouteSpec::new(ROUTE)).await
    }

    /// A relay that serves the route as it defines it.
    pub async fn worker_of(&self, name: &str, route: RouteSpec) -> Worker {
        Worker(self.source(name, route).await.unwrap())
    }

    /// A relay whose lease is as short as that.
    pub async fn worker_for(&self, name: &str, lease: Duration) -> Worker {
        let relay = RelayIdentity { lease, ..identity(name) };
        Worker(self.store.source(&relay, &RouteSpec::new(ROUTE)).await.unwrap())
    }

    /// A relay that serves the route as it defines it, or why there is none.
    pub(super) async fn source(&self, name: &str, route: RouteSpec) -> Result<Arc<dyn Source>, StoreError> {
        self.store.source(&identity(name), &route).await
    }
}

pub(super) fn identity(name: &str) -> RelayIdentity {
    RelayIdentity { name: name.to_owned(), boot: format!("{name}-boot"), version: "test".to_owned(), lease: LEASE }
}

async fn open(mapping: Mapping, executor: Arc<dyn SqlExecutor>) -> Adopted {
    let options = AdoptedOptions::new("main", mapping);
    Adopted::open(options, executor).await.unwrap()
}

/// A relay's source.
pub struct Worker(pub Arc<dyn Source>);

impl fmt::Debug for Worker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Worker")
    }
}

impl Worker {
    pub async fn take(&self) -> Take {
        self.0.take(Budget { rows: 100, bytes: 1 << 20 }).await.unwrap()
    }

    /// Takes at most so many.
    pub async fn take_some(&self, rows: usize) -> Vec<Delivery> {
        self.0.take(Budget { rows, bytes: 1 << 20 }).await.unwrap().deliveries
    }

    /// Takes, and takes again, until nothing more comes.
    pub async fn take_all(&self) -> Vec<Delivery> {
        let mut all = Vec::new();
        loop {
            let take = self.take().await;
            let done = take.deliveries.is_empty() && !take.more;
            all.extend(take.deliveries);
            if done {
                return all;
            }
        }
    }

    pub async fn settle(&self, verdicts: impl IntoIterator<Item = (&Delivery, Verdict)>) -> Ownership {
        let settlement = |(delivery, verdict): (&Delivery, Verdict)| Settlement {
            handle: delivery.handle,
            lane: delivery.lane,
            verdict,
            took: Duration::from_millis(3),
        };
        let settlements: Vec<Settlement> = verdicts.into_iter().map(settlement).collect();
        self.0.settle(&settlements).await.unwrap()
    }

    pub async fn renew(&self) -> Ownership {
        self.0.renew(&RouteHealth::running()).await.unwrap().ownership
    }
}

pub(super) fn delivered() -> Verdict {
    Verdict::Delivered(Receipt::default())
}

pub(super) fn retry(attempts: u32, after: Duration) -> Verdict {
    Verdict::Retry { attempts, after, failure: Failure::transient("test.busy", "it is busy") }
}

pub(super) fn dead(attempts: u32) -> Verdict {
    Verdict::Dead { attempts, failure: Failure::permanent("test.bad", "it's bad"), published: true }
}

pub(super) fn ids(deliveries: &[Delivery]) -> Vec<&str> {
    deliveries.iter().map(|delivery| delivery.event.id.as_str()).collect()
}
