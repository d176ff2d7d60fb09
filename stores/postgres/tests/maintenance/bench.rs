//! A store to look after, and short words for what is done to it.

use std::sync::Arc;

use postroom_admin::ManagedStore as _;
use postroom_core::{Actor, Event, Maintenance, Outbox, Store};
use postroom_postgres::{PostgresOptions, PostgresStore};
use postroom_testbed::{Schema, Servers};
use sqlx::{AssertSqlSafe, Executor, Row};

/// What the names of roles end with.
pub(crate) const ROLES: [&str; 5] = ["append", "relay", "inbox", "viewer", "migrate"];

/// A store in a schema of its own.
pub(crate) struct Bench {
    pub(crate) schema: Schema,
    pub(crate) store: PostgresStore,
}

pub(crate) fn options(schema: &Schema) -> PostgresOptions {
    PostgresOptions::new("main", schema.url()).schema(schema.name()).lanes(1).partitions(4)
}

pub(crate) fn ada() -> Actor {
    Actor { name: "ada".to_owned(), reason: Some("moved".to_owned()) }
}

impl Bench {
    pub(crate) async fn new() -> Self {
        Self::with_lanes(1).await
    }

    pub(crate) async fn with_lanes(lanes: u16) -> Self {
        let schema = Schema::choose(&Servers::find());
        let unmigrated = PostgresStore::open_unmigrated(options(&schema).lanes(lanes)).await.unwrap();
        unmigrated.schema().unwrap().up().await.unwrap();
        Self { store: PostgresStore::open(options(&schema).lanes(lanes)).await.unwrap(), schema }
    }

    /// Whether the counts of every route and lane agree.
    pub(crate) async fn is_accounted_for(&self) -> bool {
        let rows = self.store.admin().verify().await.unwrap();
        rows.iter().all(|row| row.differences.is_empty())
    }

    /// A text in which `postroom.` is the schema.
    pub(crate) fn here(&self, text: &str) -> AssertSqlSafe<String> {
        AssertSqlSafe(text.replace("postroom.", &format!("{}.", self.schema.name())))
    }

    pub(crate) async fn sql(&self, text: &str) {
        self.store.pool().execute(self.here(text)).await.unwrap();
    }

    /// Drops what the script of roles has made.
    pub(crate) async fn drop_roles(&self) {
        // It takes rights of the whole database away: the script of another test would fail beside it.
        let alone = "select pg_advisory_xact_lock(hashtext('postroom roles'))";
        let schema = self.schema.name();
        for role in ROLES {
            self.sql(&format!("{alone}; drop owned by {schema}_{role} cascade; drop role {schema}_{role}")).await;
        }
    }

    /// One value, as text.
    pub(crate) async fn one(&self, text: &str) -> String {
        let row = self.store.pool().fetch_one(self.here(&format!("select ({text})::text"))).await.unwrap();
        row.get::<Option<String>, _>(0).unwrap_or_default()
    }

    pub(crate) async fn append(&self, event: &Event) {
        let mut tx = self.store.begin().await.unwrap();
        let appended = self.store.append(&mut tx, event).await.unwrap();
        tx.commit().await.unwrap();
        appended.wake();
    }

    /// The maintenance as commands reach it: without asking whether this is the right cluster.
    pub(crate) async fn maintenance(&self) -> Arc<dyn Maintenance> {
        PostgresStore::open_unmigrated(options(&self.schema)).await.unwrap().maintenance().unwrap()
    }
}
