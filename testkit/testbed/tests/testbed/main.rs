//! The servers that tests use do what tests rely on, and so does the proxy in front of them.

#![allow(clippy::expect_used, clippy::unwrap_used, reason = "helpers of tests")]

mod clusters;
mod commits;
mod proxy;
mod shared;

use std::str::FromStr as _;

use sqlx::postgres::{PgConnectOptions, PgConnection};
use sqlx::{AssertSqlSafe, ConnectOptions as _, Decode, Executor, Postgres, Row, Type};

async fn connect(url: &str) -> PgConnection {
    // PgBouncer does not know what drivers send by default.
    PgConnectOptions::from_str(url).unwrap().extra_float_digits(None).connect().await.unwrap()
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
