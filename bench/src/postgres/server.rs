//! The server under test: a database per benchmark, and what it spends.

use postroom_core::Store;
use postroom_postgres::{Postgres, PostgresOptions};
use sqlx::{AssertSqlSafe, PgPool};

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
    /// CPU in µs and WAL in bytes per event since `before`.
    pub(crate) fn per(self, before: Self, events: f64) -> (f64, f64) {
        ((self.cpu_us - before.cpu_us) / events, (self.wal - before.wal) as f64 / events)
    }
}

impl Server {
    pub(crate) fn find() -> Self {
        let url = std::env::var("POSTROOM_BENCH_PG").unwrap_or("postgres://postgres@127.0.0.1:55432".to_owned());
        Self { url }
    }

    /// An empty store in a database of its own.
    pub(crate) async fn store(&self, name: &str) -> (Postgres, PgPool) {
        let admin = PgPool::connect(&format!("{}/postgres", self.url)).await.unwrap();
        for text in [format!("drop database if exists bench_{name}"), format!("create database bench_{name}")] {
            sqlx::raw_sql(AssertSqlSafe(text)).execute(&admin).await.unwrap();
        }
        let url = format!("{}/bench_{name}", self.url);
        let options = PostgresOptions::new("main", &url);
        let empty = Postgres::open_unmigrated(options.clone()).await.unwrap();
        empty.schema().unwrap().up().await.unwrap();
        (Postgres::open(options).await.unwrap(), PgPool::connect(&url).await.unwrap())
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
