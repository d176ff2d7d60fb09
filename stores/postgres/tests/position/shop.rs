//! A schema of its own for each test, and sessions that do what producers do.

use std::str::FromStr as _;
use std::sync::Arc;
use std::time::Duration;

use postroom_core::{Store as _, new_id};
use postroom_postgres::{PostgresOptions, PostgresStore};
use postroom_testbed::{Database, Schema, Servers};
use sqlx::postgres::{PgConnectOptions, PgConnection};
use sqlx::{ConnectOptions as _, Executor as _, Row as _};

use crate::position::checker::{Fact, Report, check};

/// A store with an application's tables beside it: `aggregate`, whose rows writers change, and `committed`, which they write
/// in the transactions that append.
#[derive(Debug, Clone)]
pub(crate) struct Shop {
    pub(crate) store: PostgresStore,
    schema: Arc<Schema>,
    options: PostgresOptions,
}

impl Shop {
    /// With one lane: positions are kept by lane, so only numbers of one lane can be passed.
    pub(crate) async fn open() -> Self {
        Self::with(|options| options.lanes(1)).await
    }

    pub(crate) async fn with(change: impl FnOnce(PostgresOptions) -> PostgresOptions) -> Self {
        let schema = Arc::new(Schema::choose(&Servers::find()));
        let options = change(PostgresOptions::new("main", schema.url()).schema(schema.name()));
        let store = PostgresStore::open_unmigrated(options.clone()).await.unwrap();
        store.schema().unwrap().up().await.unwrap();
        let store = PostgresStore::open(options.clone()).await.unwrap();
        let shop = Self { store, schema, options };
        shop.session()
            .await
            .run("create table aggregate (key text primary key, n int not null)")
            .await
            .run("create table committed (id text not null, key text not null, n int not null)")
            .await;
        shop
    }

    pub(crate) fn schema(&self) -> &str {
        self.schema.name()
    }

    /// The same store as another process opens it.
    pub(crate) async fn another(&self) -> PostgresStore {
        PostgresStore::open(self.options.clone()).await.unwrap()
    }

    /// A connection of the application's.
    pub(crate) async fn session(&self) -> Session {
        let options = PgConnectOptions::from_str(&self.schema.url()).unwrap();
        Session { conn: options.options([("search_path", self.schema.name())]).connect().await.unwrap() }
    }

    pub(crate) async fn committed(&self) -> Vec<Fact> {
        let rows = self.session().await.conn.fetch_all("select id, key, n from committed").await.unwrap();
        rows.iter().map(|row| Fact { id: row.get(0), key: row.get(1), n: row.get(2) }).collect()
    }

    pub(crate) async fn check(&self, seen: &[Fact]) -> Report {
        check(&self.committed().await, seen)
    }
}

/// A transaction with an id that is idle in another database of the cluster.
#[derive(Debug)]
pub(crate) struct Elsewhere {
    session: Session,
    _database: Database,
}

impl Elsewhere {
    pub(crate) async fn begin() -> Self {
        let database = Database::create(&Servers::find()).await;
        let conn = PgConnectOptions::from_str(&database.url()).unwrap().connect().await.unwrap();
        let mut session = Session { conn };
        session.begin_with_id().await;
        Self { session, _database: database }
    }

    pub(crate) async fn end(mut self) {
        self.session.run("rollback").await;
    }
}

/// One connection of a producer.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) conn: PgConnection,
}

impl Session {
    pub(crate) async fn run(&mut self, statement: &'static str) -> &mut Self {
        self.conn.execute(statement).await.unwrap_or_else(|error| panic!("{statement}: {error}"));
        self
    }

    /// Begins a transaction and takes its id.
    pub(crate) async fn begin_with_id(&mut self) -> i64 {
        self.run("begin").await;
        sqlx::query_scalar("select pg_current_xact_id()::text::int8").fetch_one(&mut self.conn).await.unwrap()
    }

    /// Appends by the function, and says so in `committed`.
    pub(crate) async fn append(&mut self, key: &str, n: i32) -> Fact {
        let fact = Fact { id: new_id(), key: key.to_owned(), n };
        sqlx::query("select append('order.changed', $1, json_build_object('n', $2), $3)")
            .bind(key)
            .bind(n)
            .bind(&fact.id)
            .execute(&mut self.conn)
            .await
            .unwrap();
        self.note(&fact).await;
        fact
    }

    /// Writes an event down where the checker looks.
    pub(crate) async fn note(&mut self, fact: &Fact) {
        sqlx::query("insert into committed (id, key, n) values ($1, $2, $3)")
            .bind(&fact.id)
            .bind(&fact.key)
            .bind(fact.n)
            .execute(&mut self.conn)
            .await
            .unwrap();
    }

    pub(crate) async fn pid(&mut self) -> i32 {
        sqlx::query_scalar("select pg_backend_pid()").fetch_one(&mut self.conn).await.unwrap()
    }

    /// Waits until the session `pid` waits for a lock; says whether it has a transaction id by then.
    pub(crate) async fn sees_waiting(&mut self, pid: i32) -> bool {
        let look = "select wait_event_type = 'Lock', backend_xid is not null from pg_stat_activity where pid = $1";
        let waits = async {
            loop {
                let row = sqlx::query(look).bind(pid).fetch_one(&mut self.conn).await.unwrap();
                if row.get::<Option<bool>, _>(0) == Some(true) {
                    return row.get(1);
                }
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        };
        tokio::time::timeout(Duration::from_mins(5), waits).await.unwrap()
    }
}
