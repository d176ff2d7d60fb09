//! The suite that every store passes, on PostgreSQL.
#![allow(clippy::unwrap_used, reason = "a harness fails by panicking")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use postroom_conformance::stores::{Settings, StoreHarness};
use postroom_core::Store;
use postroom_postgres::{Postgres, PostgresOptions};
use postroom_testing::ManualClock;
use sqlx::Transaction;

struct Harness {
    schema: String,
    settings: Settings,
    clock: ManualClock,
    store: Postgres,
}

static SCHEMAS: AtomicU32 = AtomicU32::new(0);

fn options(schema: &str, settings: Settings, clock: &ManualClock) -> PostgresOptions {
    let url = std::env::var("POSTROOM_TEST_PG").unwrap_or("postgres://postgres@127.0.0.1:55432/postgres".to_owned());
    PostgresOptions::new("main", url)
        .schema(schema)
        .clock(Arc::new(clock.clone()))
        .blocked_max(u64::from(settings.blocked_max))
}

impl StoreHarness for Harness {
    type Tx = Transaction<'static, sqlx::Postgres>;
    type Store = Postgres;

    async fn fresh(settings: Settings) -> Self {
        let schema = format!("suite_{}_{}", std::process::id(), SCHEMAS.fetch_add(1, Ordering::Relaxed));
        let clock = ManualClock::default();
        let empty = Postgres::open_unmigrated(options(&schema, settings, &clock)).await.unwrap();
        empty.schema().unwrap().up().await.unwrap();
        let store = Postgres::open(options(&schema, settings, &clock)).await.unwrap();
        Self { schema, settings, clock, store }
    }

    fn store(&self) -> &Postgres {
        &self.store
    }

    async fn reopen(&self) -> Postgres {
        Postgres::open(options(&self.schema, self.settings, &self.clock)).await.unwrap()
    }

    fn clock(&self) -> &ManualClock {
        &self.clock
    }

    fn lanes(&self) -> usize {
        16
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
        let text = format!("delete from {}.log where id = $1", self.schema);
        sqlx::query(sqlx::AssertSqlSafe(text)).bind(id.to_owned()).execute(self.store.pool()).await.unwrap();
        true
    }
}

postroom_conformance::store_suite!(Harness);
