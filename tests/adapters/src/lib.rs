//! What the tests of other clients and other languages share: a shop in a fresh database, and a relay's eyes.

#![allow(clippy::unwrap_used, clippy::missing_panics_doc, reason = "what cannot be made or read fails the test")]

use std::sync::Arc;
use std::time::Duration;

use postroom_core::{Budget, Event, RelayIdentity, RouteSpec, StartFrom, Store, StoreError};
use postroom_postgres::{PostgresOptions, PostgresStore};
use postroom_testbed::{Database, LOCKED_PASSWORD, LOCKED_ROLE, Servers};
use sqlx::{AssertSqlSafe, PgPool};

/// A database with the store's tables and two of the application's own.
#[derive(Debug)]
pub struct Shop {
    /// The store, opened by the tables' owner.
    pub store: PostgresStore,
    servers: Servers,
    database: Database,
}

impl Shop {
    /// Makes one.
    pub async fn open() -> Self {
        let servers = Servers::find();
        let database = Database::create(&servers).await;
        let options = PostgresOptions::new("main", database.url());
        let empty = PostgresStore::open_unmigrated(options.clone()).await.unwrap();
        empty.schema().unwrap().up().await.unwrap();
        let store = PostgresStore::open(options).await.unwrap();
        let shop = Self { store, servers, database };
        shop.run("create table orders (id text primary key, total int not null)").await;
        shop.run("create table booked (order_id text not null, total int not null)").await;
        shop
    }

    /// Where it is.
    pub fn url(&self) -> String {
        self.database.url()
    }

    /// Connections of the owner.
    pub fn pool(&self) -> &PgPool {
        self.store.pool()
    }

    /// Runs a statement as the owner.
    pub async fn run(&self, sql: &str) {
        sqlx::query(AssertSqlSafe(sql)).execute(self.pool()).await.unwrap();
    }

    /// The ids of the orders.
    pub async fn orders(&self) -> Vec<String> {
        sqlx::query_scalar("select id from orders order by id").fetch_all(self.pool()).await.unwrap()
    }

    /// The store as a role that may call the functions and do nothing else.
    pub async fn as_appender(&self) -> Result<PostgresStore, StoreError> {
        let schema = format!("grant usage on schema postroom to {LOCKED_ROLE}");
        let meta = format!("grant select on postroom.meta to {LOCKED_ROLE}");
        let functions = format!("grant execute on all functions in schema postroom to {LOCKED_ROLE}");
        for grant in [schema, meta, functions] {
            self.run(&grant).await;
        }
        let url = self.servers.locked_url(self.database.name(), LOCKED_PASSWORD);
        PostgresStore::open(PostgresOptions::new("main", url)).await
    }

    /// Everything a relay is handed, in its order.
    pub async fn taken(&self) -> Vec<Arc<Event>> {
        let relay = RelayIdentity {
            name: "test".to_owned(),
            boot: "1".to_owned(),
            version: "0".to_owned(),
            lease: Duration::from_secs(30),
        };
        let route = RouteSpec::new("all").start_from(StartFrom::Beginning);
        let source = self.store.source(&relay, &route).await.unwrap();
        let mut taken = Vec::new();
        loop {
            let take = source.take(Budget { rows: 1_000, bytes: 1 << 24 }).await.unwrap();
            if take.deliveries.is_empty() && !take.more {
                return taken;
            }
            taken.extend(take.deliveries.into_iter().map(|delivery| delivery.event));
        }
    }

    /// The ids of the same.
    pub async fn taken_ids(&self) -> Vec<String> {
        self.taken().await.iter().map(|event| event.id.clone()).collect()
    }
}

/// The Rust program of the page is compiled.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/postgres.md")]
mod page {}

/// So are those of this page; what needs no server is run.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/inbox.md")]
mod inbox_page {}

/// And of this one.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/contracts.md")]
mod contracts_page {}
