//! A schema of its own for each test, and sessions that do what producers do.

use std::str::FromStr as _;
use std::time::Duration;

use postroom_core::{Store as _, new_id};
use postroom_postgres::{Postgres, PostgresOptions};
use sqlx::postgres::{PgConnectOptions, PgConnection};
use sqlx::{AssertSqlSafe, ConnectOptions as _, Executor as _, Row as _};

use crate::checker::{Fact, Report, check};

/// Another database of the same cluster.
const ELSEWHERE: &str = "postroom_elsewhere";

/// Where the server is.
fn url() -> String {
    std::env::var("POSTROOM_TEST_PG").unwrap_or_else(|_| "postgres://postgres@127.0.0.1:55432/postgres".to_owned())
}

/// A store with an application's tables beside it: `aggregate`, whose rows writers lock, and `committed`, which they write in
/// the transactions that append.
#[derive(Debug, Clone)]
pub(crate) struct Shop {
    pub(crate) store: Postgres,
    pub(crate) schema: String,
    options: PostgresOptions,
}

impl Shop {
    pub(crate) async fn open() -> Self {
        Self::with(|options| options.lanes(4)).await
    }

    pub(crate) async fn with(change: impl FnOnce(PostgresOptions) -> PostgresOptions) -> Self {
        let schema = format!("position_{}", new_id().replace('-', ""));
        let options = change(PostgresOptions::new("main", url()).schema(&schema));
        let store = Postgres::open_unmigrated(options.clone()).await.unwrap();
        store.schema().unwrap().up().await.unwrap();
        let store = Postgres::open(options.clone()).await.unwrap();
        let shop = Self { store, schema, options };
        shop.session()
            .await
            .run("create table aggregate (key text primary key, n int not null)")
            .await
            .run("create table committed (id text not null, key text not null, n int not null)")
            .await;
        shop
    }

    /// The same store as another process opens it.
    pub(crate) async fn another(&self) -> Postgres {
        Postgres::open(self.options.clone()).await.unwrap()
    }

    /// A connection of the application's.
    pub(crate) async fn session(&self) -> Session {
        let options = PgConnectOptions::from_str(&url()).unwrap().options([("search_path", &self.schema)]);
        Session { conn: options.connect().await.unwrap() }
    }

    /// A connection to another database of the cluster.
    pub(crate) async fn elsewhere(&self) -> Session {
        let here = PgConnectOptions::from_str(&url()).unwrap();
        let there = here.clone().database(ELSEWHERE);
        if let Ok(conn) = there.connect().await {
            return Session { conn };
        }
        let make = format!("create database {ELSEWHERE}");
        // Somebody else may make it at the same time; what counts is that it is there.
        let made = here.connect().await.unwrap().execute(AssertSqlSafe(make)).await;
        Session { conn: there.connect().await.unwrap_or_else(|error| panic!("{error}; making it: {made:?}")) }
    }

    pub(crate) async fn committed(&self) -> Vec<Fact> {
        let rows = self.session().await.conn.fetch_all("select id, key, n from committed").await.unwrap();
        rows.iter().map(|row| Fact { id: row.get(0), key: row.get(1), n: row.get(2) }).collect()
    }

    pub(crate) async fn check(&self, seen: &[Fact]) -> Report {
        check(&self.committed().await, seen)
    }

    /// Takes everything away; a test that failed leaves it.
    pub(crate) async fn close(self) {
        let drop = format!("drop schema {} cascade", self.schema);
        self.session().await.conn.execute(AssertSqlSafe(drop)).await.unwrap();
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
        tokio::time::timeout(Duration::from_secs(20), waits).await.expect("nobody waited")
    }
}
