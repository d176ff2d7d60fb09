//! The native log on a SQLite file: there is no wire, so each relay process has a gate inside its store, before each look and each
//! step of a write transaction.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use jiff::SignedDuration;
use postroom_admin::ManagedStore;
use postroom_core::{Event, Outbox as _, Store as _};
use postroom_sqlite::gate::{Gate, Passage};
use postroom_sqlite::{SqliteOptions, SqliteStore, SqliteTx};
use postroom_testbed::proxy::{Keeper, Sign};
use postroom_testing::ManualClock;
use sqlx::Executor as _;
use tempfile::TempDir;

use super::{Door, Site, Traits, Transaction};

pub(crate) struct SqliteSite {
    options: SqliteOptions,
    store: SqliteStore,
    clock: ManualClock,
    _folder: TempDir,
}

impl SqliteSite {
    pub(crate) async fn new(clock: &ManualClock) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("shop.db").to_string_lossy().into_owned();
        let options = SqliteOptions::new("main", path).create(true).clock(Arc::new(clock.clone()));
        let empty = SqliteStore::open_unmigrated(options.clone()).await.expect("a new file");
        empty.schema().expect("it has one").up().await.expect("tables can be made");
        let store = SqliteStore::open(options.clone()).await.expect("the tables are there");
        Self { options, store, clock: clock.clone(), _folder: folder }
    }
}

#[async_trait]
impl Site for SqliteSite {
    fn traits(&self) -> Traits {
        Traits { writers: 1, prepares: false, delays: true, ordered: true }
    }

    fn store(&self) -> Arc<dyn ManagedStore> {
        Arc::new(self.store.clone())
    }

    async fn relay(&self) -> Door {
        let (keeper, gate) = Keeper::pair();
        let options = self.options.clone().gate(Arc::new(Inside { keeper, passed: AtomicU64::new(0) }));
        let store = SqliteStore::open(options).await.expect("the file is there");
        Door { store: Arc::new(store), proxy: None, gate }
    }

    async fn begin(&self) -> Box<dyn Transaction> {
        let tx = self.store.begin().await.expect("nobody else writes");
        Box::new(Open { store: self.store.clone(), tx })
    }

    async fn waits_for_lock(&self) -> bool {
        // There is one lock, and nobody to ask who waits for it: what takes long does.
        true
    }

    fn take_begins(&self) -> &'static str {
        "version"
    }

    fn is_in_the_way(&self, text: &str) -> bool {
        // Others would begin the next transaction before whoever waits is awake again.
        text.ends_with("commit")
    }

    async fn skip_numbers(&self, numbers: u64) {
        let text = format!("update sqlite_sequence set seq = seq + {numbers} where name = 'postroom_log'");
        self.store.pool().execute(sqlx::AssertSqlSafe(text)).await.expect("the numbers can be moved");
    }

    async fn advance(&self, by: Duration) {
        self.clock.advance(by);
    }

    async fn set_back(&self, by: Duration) {
        self.clock.jump_wall(-SignedDuration::try_from(by).expect("hours, not years"));
    }
}

/// The gate inside the store of one process.
#[derive(Debug)]
struct Inside {
    keeper: Keeper,
    passed: AtomicU64,
}

#[async_trait]
impl Gate for Inside {
    async fn pass(&self, moment: &'static str, operation: &'static str) -> Option<Passage> {
        let number = self.passed.fetch_add(1, Ordering::Relaxed);
        let may_go = self.keeper.wait(number, format!("{operation}: {moment}")).await;
        may_go.then(|| Box::new(Working { keeper: self.keeper.clone(), number }) as Passage)
    }
}

/// Work that goes on in a thread of SQLite's.
struct Working {
    keeper: Keeper,
    number: u64,
}

impl Drop for Working {
    fn drop(&mut self) {
        self.keeper.tell(Sign::Answered(self.number));
    }
}

struct Open {
    store: SqliteStore,
    tx: SqliteTx,
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
        self.tx.execute("rollback to here").await.expect("there is one");
    }

    async fn rollback(self: Box<Self>) {
        self.tx.rollback().await.expect("it can be rolled back");
    }

    async fn commit(self: Box<Self>) {
        self.tx.commit().await.expect("it can be committed");
    }

    async fn prepare(self: Box<Self>) -> Box<dyn Transaction> {
        self
    }
}
