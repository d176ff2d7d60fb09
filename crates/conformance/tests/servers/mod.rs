//! The servers that tests use do what tests rely on, and so does the proxy in front of them.

#![allow(clippy::expect_used, clippy::unwrap_used, reason = "helpers of tests")]

mod clusters;
mod commits;
mod proxy;
mod shared;

use sqlx::postgres::PgConnection;
use sqlx::{AssertSqlSafe, Connection, Decode, Executor, Postgres, Row, Type};

async fn connect(url: &str) -> PgConnection {
    PgConnection::connect(url).await.unwrap()
}

async fn run(connection: &mut PgConnection, sql: &'static str) {
    connection.execute(sql).await.unwrap();
}

/// The first column of the first row.
async fn ask<T>(connection: &mut PgConnection, sql: &str) -> T
where
    T: for<'r> Decode<'r, Postgres> + Type<Postgres>,
{
    sqlx::raw_sql(AssertSqlSafe(sql)).fetch_one(connection).await.unwrap().get(0)
}
