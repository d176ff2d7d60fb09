//! The suite that every store passes, on SQLite.
#![allow(clippy::unwrap_used, reason = "a harness fails by panicking")]

use std::sync::Arc;

use postroom_conformance::stores::StoreHarness;
use postroom_core::Store;
use postroom_sqlite::{SqliteOptions, SqliteStore, SqliteTx};
use postroom_testing::ManualClock;

struct Harness {
    folder: tempfile::TempDir,
    clock: ManualClock,
    store: SqliteStore,
}

fn options(folder: &tempfile::TempDir, clock: &ManualClock) -> SqliteOptions {
    SqliteOptions::new("main", folder.path().join("shop.db").to_str().unwrap()).clock(Arc::new(clock.clone()))
}

impl StoreHarness for Harness {
    type Tx = SqliteTx;
    type Store = SqliteStore;

    async fn fresh() -> Self {
        let (folder, clock) = (tempfile::tempdir().unwrap(), ManualClock::default());
        let store = SqliteStore::open_unmigrated(options(&folder, &clock).create(true)).await.unwrap();
        store.schema().unwrap().up().await.unwrap();
        Self { folder, clock, store }
    }

    fn store(&self) -> &SqliteStore {
        &self.store
    }

    async fn reopen(&self) -> SqliteStore {
        SqliteStore::open(options(&self.folder, &self.clock)).await.unwrap()
    }

    fn clock(&self) -> &ManualClock {
        &self.clock
    }

    fn lanes(&self) -> usize {
        1
    }

    async fn begin(&self) -> Self::Tx {
        self.store.begin().await.unwrap()
    }

    async fn commit(&self, tx: Self::Tx) {
        tx.commit().await.unwrap();
    }

    async fn rollback(&self, tx: Self::Tx) {
        tx.rollback().await.unwrap();
    }

    async fn lose(&self, id: &str) -> bool {
        sqlx::query("delete from postroom_log where id = ?1").bind(id).execute(self.store.pool()).await.unwrap();
        true
    }
}

postroom_conformance::store_suite!(Harness);
