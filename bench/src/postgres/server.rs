//! The server under test: a database per benchmark, and what it spends.

use postroom_core::Store;
use postroom_postgres::{PostgresOptions, PostgresStore};
use postroom_testbed::State;
use sqlx::{AssertSqlSafe, Connection, Executor, PgConnection, PgPool};

/// A PostgreSQL server.
pub(crate) struct Server {
    url: String,
}

/// What a server has spent so far.
#[derive(Clone, Copy)]
pub(crate) struct Spent {
    cpu_us: f64,
    wal: i64,
}

impl Spent {
    /// CPU in µs since `before`.
    pub(crate) fn cpu_us(self, before: Self) -> f64 {
        self.cpu_us - before.cpu_us
    }

    /// CPU in µs and WAL in bytes per event since `before`.
    pub(crate) fn per(self, before: Self, events: f64) -> (f64, f64) {
        ((self.cpu_us - before.cpu_us) / events, (self.wal - before.wal) as f64 / events)
    }
}

impl Server {
    /// The server to measure on.
    pub(crate) fn find() -> Result<Self, String> {
        if let Ok(url) = std::env::var("POSTROOM_BENCH_PG") {
            return Ok(Self { url: url.trim_end_matches('/').to_owned() });
        }
        let state = State::read().map_err(|error| error.to_string())?;
        let running = state.as_ref().and_then(|state| state.servers.get("postgres"));
        match running.filter(|running| running.process.is_running()) {
            Some(running) => Ok(Self { url: format!("postgres://postgres@127.0.0.1:{}", running.site.port) }),
            None => Err("no PostgreSQL to measure on: run `cargo xtask services up`, or set POSTROOM_BENCH_PG to \
                         postgres://user@host:port of a server on this machine"
                .to_owned()),
        }
    }

    /// Its version, and the settings that decide what a commit costs.
    pub(crate) async fn about(&self) -> Result<String, String> {
        let connected = PgConnection::connect(&self.url("postgres")).await;
        let mut admin = connected.map_err(|error| format!("the server cannot be reached: {error}"))?;
        let mut about = Vec::new();
        for name in ["server_version", "fsync", "synchronous_commit", "full_page_writes", "shared_buffers"] {
            let shown = sqlx::query_scalar("select current_setting($1)").bind(name).fetch_one(&mut admin).await;
            about.push(format!("{name} = {}", shown.unwrap_or_else(|error| error.to_string())));
        }
        Ok(about.join(", "))
    }

    /// How to connect to one of its databases.
    pub(crate) fn url(&self, database: &str) -> String {
        format!("{}/{database}", self.url)
    }

    /// An empty store in a database of its own, `bench_NAME`.
    pub(crate) async fn store(&self, name: &str) -> (PostgresStore, PgPool) {
        let database = format!("bench_{name}");
        self.sql(format!("drop database if exists {database} with (force)")).await;
        self.sql(format!("create database {database}")).await;
        let options = PostgresOptions::new("main", self.url(&database));
        let empty = PostgresStore::open_unmigrated(options).await.unwrap();
        empty.schema().unwrap().up().await.unwrap();
        (self.open(name).await, PgPool::connect(&self.url(&database)).await.unwrap())
    }

    /// The same store once more, with connections of its own.
    pub(crate) async fn open(&self, name: &str) -> PostgresStore {
        PostgresStore::open(PostgresOptions::new("main", self.url(&format!("bench_{name}")))).await.unwrap()
    }

    /// Removes what benchmarks made: they fill disks.
    pub(crate) async fn discard_all(&self) {
        let mut admin = PgConnection::connect(&self.url("postgres")).await.unwrap();
        let made = "select datname::text from pg_database where datname like 'bench\\_%'";
        let databases: Vec<String> = sqlx::query_scalar(made).fetch_all(&mut admin).await.unwrap();
        for database in databases {
            self.sql(format!("drop database {database} with (force)")).await;
        }
    }

    /// Does something in the server's first database.
    pub(crate) async fn sql(&self, text: String) {
        let mut admin = PgConnection::connect(&self.url("postgres")).await.unwrap();
        admin.execute(AssertSqlSafe(text)).await.unwrap();
    }

    /// What the server has spent so far.
    pub(crate) async fn spent(&self, pool: &PgPool) -> Spent {
        let wal: i64 = sqlx::query_scalar("select pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::int8")
            .fetch_one(pool)
            .await
            .unwrap();
        let folder: String =
            sqlx::query_scalar("select current_setting('data_directory')").fetch_one(pool).await.unwrap();
        let pid = std::fs::read_to_string(format!("{folder}/postmaster.pid")).unwrap();
        Spent { cpu_us: cpu_us(pid.lines().next().unwrap()), wal }
    }
}

/// CPU of the postmaster, its living children, and those it has waited for.
fn cpu_us(postmaster: &str) -> f64 {
    let mut ticks = 0;
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let Ok(stat) = std::fs::read_to_string(entry.path().join("stat")) else { continue };
        let Some((pid, rest)) = stat.split_once(' ') else { continue };
        let Some((_, fields)) = rest.rsplit_once(')') else { continue };
        let fields: Vec<&str> = fields.split_whitespace().collect();
        let number = |n: usize| fields.get(n).and_then(|f| f.parse::<u64>().ok()).unwrap_or(0);
        if pid == postmaster {
            ticks += number(11) + number(12) + number(13) + number(14);
        } else if fields.get(1) == Some(&postmaster) {
            ticks += number(11) + number(12);
        }
    }
    // A tick is 10 ms everywhere we run.
    ticks as f64 * 10_000.0
}
