//! Which rows a statement looks at when nobody has analysed the table yet: after it was made, and after every crash,
//! which makes the server forget what autovacuum waits for.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use postroom_conformance::servers::{Schema, Servers};
use postroom_core::Store;
use postroom_postgres::{Postgres, PostgresOptions};
use sqlx::{AssertSqlSafe, Executor, Row};

#[tokio::test]
async fn the_followers_of_a_key_are_found_without_looking_at_those_of_others() {
    let schema = Schema::choose(&Servers::find());
    let options = PostgresOptions::new("main", schema.url()).schema(schema.name());
    let store = Postgres::open_unmigrated(options).await.unwrap();
    store.schema().unwrap().up().await.unwrap();
    let mut session = store.pool().acquire().await.unwrap();
    let here = |text: &str| AssertSqlSafe(text.replace("postroom.", &format!("{}.", schema.name())));
    // As the relays' sessions have it.
    session.execute("set enable_seqscan = off").await.unwrap();
    session.execute(here("alter table postroom.delivery set (autovacuum_enabled = off)")).await.unwrap();
    let fill = "insert into postroom.delivery (route, lane, seq, key, state, blocks, since) \
                select 'r', 0, n, 'k-' || n % 100, 'blocked', true, now() from generate_series(1, 5000) n";
    session.execute(here(fill)).await.unwrap();
    let statement = include_str!("../src/sql/full_keys.sql").replace("$1", "'r'").replace("$2", "'{k-1,k-2}'");
    let rows = session.fetch_all(here(&format!("explain {}", statement.replace("$3", "10000")))).await.unwrap();
    let plan: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
    let by_key = plan.iter().any(|line| line.contains("Index Cond") && line.contains("key ="));
    assert!(by_key, "{}", plan.join("\n"));
}
