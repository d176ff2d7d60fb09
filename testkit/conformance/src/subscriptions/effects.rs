//! Databases that effects are in.

use async_trait::async_trait;
use postroom_core::{Failure, Inbox, Store, Transactions};
use postroom_postgres::{PostgresOptions, PostgresStore};
use postroom_sqlite::SqliteStore;
use sqlx::{AssertSqlSafe, Row};
use tokio::sync::Mutex;

use postroom_testbed::proxy::Mode;
use postroom_testbed::{FaultProxy, Schema, Servers};

/// The transaction of a effects's store.
pub type Tx<G> = <<G as Effects>::Store as Transactions>::Tx;

/// A database with an inbox and a table of effects; one for each case.
#[async_trait]
pub trait Effects: Sized + Send + Sync + 'static {
    /// Its store.
    type Store: Inbox<<Self::Store as Transactions>::Tx> + Transactions + Clone + 'static;

    /// A fresh one.
    async fn open() -> Self;

    /// The store, as the consumer uses it.
    fn store(&self) -> Self::Store;

    /// What handlers need to know of it.
    fn table(&self) -> String;

    /// The effect of an event: one row each time.
    async fn write(tx: &mut Tx<Self>, table: &str, id: &str) -> Result<(), Failure>;

    /// Runs a statement that fails, and overlooks it.
    async fn spoil(tx: &mut Tx<Self>);

    /// Ids of all effects, in the order they were written.
    async fn effects(&self) -> Vec<String>;

    /// Takes the database away, and gives it back.
    async fn away(&self);
    /// Gives it back.
    async fn back(&self);

    /// Connections of now hear nothing any more; new ones do. Asked in the group `silence` only.
    async fn forget(&self);
}

/// A schema in the shared PostgreSQL, reached through a proxy.
#[derive(Debug)]
pub struct PostgresEffects {
    schema: Schema,
    proxy: FaultProxy,
    store: PostgresStore,
    direct: PostgresStore,
}

#[async_trait]
impl Effects for PostgresEffects {
    type Store = PostgresStore;

    async fn open() -> Self {
        let servers = Servers::find();
        let schema = Schema::choose(&servers);
        let proxy = FaultProxy::to_postgres(servers.port("postgres")).await;
        let options = |url: String| PostgresOptions::new("main", url).schema(schema.name()).lanes(1);
        let empty = PostgresStore::open_unmigrated(options(schema.url())).await.unwrap();
        empty.schema().unwrap().up().await.unwrap();
        let direct = PostgresStore::open(options(schema.url())).await.unwrap();
        let store = PostgresStore::open(options(proxy.url("postgres"))).await.unwrap();
        let table = format!("create table {}.effects (n serial primary key, id text not null)", schema.name());
        sqlx::query(AssertSqlSafe(table)).execute(direct.pool()).await.unwrap();
        Self { schema, proxy, store, direct }
    }

    fn store(&self) -> PostgresStore {
        self.store.clone()
    }

    fn table(&self) -> String {
        format!("{}.effects", self.schema.name())
    }

    async fn write(tx: &mut Tx<Self>, table: &str, id: &str) -> Result<(), Failure> {
        let insert = format!("insert into {table} (id) values ($1)");
        sqlx::query(AssertSqlSafe(insert)).bind(id).execute(&mut **tx).await?;
        Ok(())
    }

    async fn spoil(tx: &mut Tx<Self>) {
        let failed = sqlx::query("select 1 / 0").execute(&mut **tx).await;
        assert!(failed.is_err());
    }

    async fn effects(&self) -> Vec<String> {
        let select = format!("select id from {}.effects order by n", self.schema.name());
        let rows = sqlx::query(AssertSqlSafe(select)).fetch_all(self.direct.pool()).await.unwrap();
        rows.iter().map(|row| row.get(0)).collect()
    }

    async fn away(&self) {
        self.proxy.set(Mode::Refuse).await;
    }

    async fn back(&self) {
        self.proxy.set(Mode::Pass).await;
    }

    async fn forget(&self) {
        self.proxy.set(Mode::Forget).await;
    }
}

/// A SQLite file.
#[derive(Debug)]
pub struct SqliteEffects {
    _folder: tempfile::TempDir,
    store: SqliteStore,
    /// A writer that lets nobody else write.
    blocker: Mutex<Option<Tx<Self>>>,
}

#[async_trait]
impl Effects for SqliteEffects {
    type Store = SqliteStore;

    async fn open() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = SqliteStore::create(folder.path().join("shop.db")).await.unwrap();
        let table = "create table effects (n integer primary key, id text not null)";
        sqlx::query(table).execute(store.pool()).await.unwrap();
        Self { _folder: folder, store, blocker: Mutex::default() }
    }

    fn store(&self) -> SqliteStore {
        self.store.clone()
    }

    fn table(&self) -> String {
        "effects".to_owned()
    }

    async fn write(tx: &mut Tx<Self>, table: &str, id: &str) -> Result<(), Failure> {
        let insert = format!("insert into {table} (id) values (?)");
        sqlx::query(AssertSqlSafe(insert)).bind(id).execute(&mut **tx).await?;
        Ok(())
    }

    async fn spoil(tx: &mut Tx<Self>) {
        let failed = sqlx::query("select * from nowhere").execute(&mut **tx).await;
        assert!(failed.is_err());
    }

    async fn effects(&self) -> Vec<String> {
        let rows = sqlx::query("select id from effects order by n").fetch_all(self.store.pool()).await.unwrap();
        rows.iter().map(|row| row.get(0)).collect()
    }

    async fn away(&self) {
        *self.blocker.lock().await = Some(self.store.begin().await.unwrap());
    }

    async fn back(&self) {
        if let Some(tx) = self.blocker.lock().await.take() {
            tx.rollback().await.unwrap();
        }
    }

    async fn forget(&self) {
        unreachable!("it is asked of databases behind a network")
    }
}
