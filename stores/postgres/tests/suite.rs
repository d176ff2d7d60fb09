//! The suite that every store passes, on PostgreSQL: directly, through PgBouncer with two server connections, and on the oldest
//! and the newest version that is served.
#![allow(clippy::unwrap_used, reason = "a harness fails by panicking")]

use std::marker::PhantomData;
use std::sync::Arc;

use postroom_conformance::stores::StoreHarness;
use postroom_core::Store;
use postroom_postgres::{Pooler, PostgresOptions, PostgresStore, PostgresTx};
use postroom_testbed::{Database, NEWEST_POSTGRES, OLDEST_POSTGRES, Servers};
use postroom_testing::ManualClock;
use sqlx::{Connection as _, Executor as _, PgConnection};

/// A server, and how to reach it.
trait Way: 'static {
    const SERVER: &str = "postgres";
    const POOLED: bool = false;
}

struct Direct;
struct ThroughPgBouncer;
struct Oldest;
struct Newest;

impl Way for Direct {}
impl Way for ThroughPgBouncer {
    const POOLED: bool = true;
}
impl Way for Oldest {
    const SERVER: &str = OLDEST_POSTGRES;
}
impl Way for Newest {
    const SERVER: &str = NEWEST_POSTGRES;
}

struct Harness<W> {
    clock: ManualClock,
    store: PostgresStore,
    database: Database,
    way: PhantomData<W>,
}

fn options<W: Way>(database: &Database, clock: &ManualClock) -> PostgresOptions {
    let (url, pooler) =
        if W::POOLED { (database.pgbouncer_url(), Pooler::Transaction) } else { (database.url(), Pooler::None) };
    PostgresOptions::new("main", url).pooler(pooler).clock(Arc::new(clock.clone()))
}

impl<W: Way> StoreHarness for Harness<W> {
    type Tx = PostgresTx;
    type Store = PostgresStore;

    async fn fresh() -> Self {
        let migrate = async |database: &Database| {
            let empty = PostgresStore::open_unmigrated(PostgresOptions::new("main", database.url())).await.unwrap();
            empty.schema().unwrap().up().await.unwrap();
        };
        let database = Database::copy_on(&Servers::find(), W::SERVER, migrate).await;
        // A store knows its database; this one is meant to be another.
        let mut session = PgConnection::connect(&database.url()).await.unwrap();
        let here = "update postroom.meta set value = oid::text from pg_database where name = 'database' and datname = current_database()";
        assert_eq!(session.execute(here).await.unwrap().rows_affected(), 1);
        session.close().await.unwrap();
        let clock = ManualClock::default();
        let store = PostgresStore::open(options::<W>(&database, &clock)).await.unwrap();
        Self { clock, store, database, way: PhantomData }
    }

    fn store(&self) -> &PostgresStore {
        &self.store
    }

    async fn reopen(&self) -> PostgresStore {
        PostgresStore::open(options::<W>(&self.database, &self.clock)).await.unwrap()
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
    postroom_conformance::store_suite!(super::Harness<super::Direct>);
}

mod through_pgbouncer {
    postroom_conformance::store_suite!(super::Harness<super::ThroughPgBouncer>);
}

mod on_the_oldest_version {
    postroom_conformance::store_suite!(super::Harness<super::Oldest>);
}

mod on_the_newest_version {
    postroom_conformance::store_suite!(super::Harness<super::Newest>);
}
