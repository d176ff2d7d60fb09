//! The suite that every store passes, on PostgreSQL: directly, and through PgBouncer with two server connections.
#![allow(clippy::unwrap_used, reason = "a harness fails by panicking")]

use std::sync::Arc;

use postroom_conformance::servers::{Database, Servers};
use postroom_conformance::stores::StoreHarness;
use postroom_core::Store;
use postroom_postgres::{Pooler, Postgres, PostgresOptions};
use postroom_testing::ManualClock;
use sqlx::Transaction;

struct Harness<const POOLED: bool> {
    clock: ManualClock,
    store: Postgres,
    database: Database,
}

fn options<const POOLED: bool>(database: &Database, clock: &ManualClock) -> PostgresOptions {
    let (url, pooler) =
        if POOLED { (database.pgbouncer_url(), Pooler::Transaction) } else { (database.url(), Pooler::None) };
    PostgresOptions::new("main", url)
        .pooler(pooler)
        .clock(Arc::new(clock.clone()))
}

impl<const POOLED: bool> StoreHarness for Harness<POOLED> {
    type Tx = Transaction<'static, sqlx::Postgres>;
    type Store = Postgres;

    async fn fresh() -> Self {
        let database = Database::create(&Servers::find()).await;
        let clock = ManualClock::default();
        let options = options::<POOLED>(&database, &clock);
        let empty = Postgres::open_unmigrated(options.clone()).await.unwrap();
        empty.schema().unwrap().up().await.unwrap();
        let store = Postgres::open(options).await.unwrap();
        Self { clock, store, database }
    }

    fn store(&self) -> &Postgres {
        &self.store
    }

    async fn reopen(&self) -> Postgres {
        Postgres::open(options::<POOLED>(&self.database, &self.clock)).await.unwrap()
    }

    fn clock(&self) -> &ManualClock {
        &self.clock
    }

    fn lanes(&self) -> usize {
        16
    }

    fn prunes_by_segment(&self) -> bool {
        true
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
        let gone = sqlx::query("delete from postroom.log where id = $1").persistent(false).bind(id.to_owned());
        let mut tx = self.begin().await;
        gone.execute(&mut *tx).await.unwrap();
        tx.commit().await.unwrap();
        true
    }
}

mod direct {
    postroom_conformance::store_suite!(super::Harness<false>);
}

mod through_pgbouncer {
    postroom_conformance::store_suite!(super::Harness<true>);
}
