//! Which rows a statement looks at, and how, when nobody has analysed the table yet: after it was made, and after every crash,
//! which makes the server forget what autovacuum waits for.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use postroom_core::Store;
use postroom_postgres::{PostgresOptions, PostgresStore};
use postroom_testbed::{Schema, Servers};
use sqlx::pool::PoolConnection;
use sqlx::{AssertSqlSafe, Executor, Row};

/// A session on a fresh store, with the settings that relays' sessions have.
struct Bench {
    schema: Schema,
    session: PoolConnection<sqlx::Postgres>,
}

impl Bench {
    async fn new() -> Self {
        let schema = Schema::choose(&Servers::find());
        let options = PostgresOptions::new("main", schema.url()).schema(schema.name());
        let store = PostgresStore::open_unmigrated(options).await.unwrap();
        store.schema().unwrap().up().await.unwrap();
        let mut bench = Self { schema, session: store.pool().acquire().await.unwrap() };
        bench.sql("set enable_seqscan = off; set jit = off; set plan_cache_mode = force_generic_plan").await;
        bench
    }

    fn here(&self, text: &str) -> AssertSqlSafe<String> {
        AssertSqlSafe(text.replace("postroom.", &format!("{}.", self.schema.name())))
    }

    async fn sql(&mut self, text: &str) {
        let text = self.here(text);
        self.session.execute(text).await.unwrap();
    }

    /// How a statement with parameters of these types is run, whatever their values.
    async fn plan(&mut self, statement: &str, types: &[&str]) -> String {
        let nulls = vec!["null"; types.len()].join(", ");
        self.sql(&format!("prepare it ({}) as {statement}", types.join(", "))).await;
        let rows = self.session.fetch_all(AssertSqlSafe(format!("explain execute it ({nulls})"))).await.unwrap();
        self.sql("deallocate it").await;
        rows.iter().map(|row| row.get::<String, _>(0)).collect::<Vec<_>>().join("\n")
    }
}

#[tokio::test]
async fn the_events_of_a_key_are_found_without_looking_at_those_of_others() {
    let mut bench = Bench::new().await;
    bench.sql("alter table postroom.delivery set (autovacuum_enabled = off)").await;
    let fill = "insert into postroom.delivery (route, lane, seq, key, state, blocks, since) \
                select 'r', 0, n, 'k-' || n % 100, 'blocked', true, now() from generate_series(1, 5000) n";
    bench.sql(fill).await;
    let (text, texts, numbers, time) = ("text", "text[]", "int8[]", "timestamptz");
    for (statement, types) in [
        (include_str!("../src/sql/blocked.sql"), &[text, texts, numbers][..]),
        (include_str!("../src/sql/park_returned.sql"), &[text, time, "int2[]", numbers, texts]),
        (include_str!("../src/sql/release.sql"), &[text, texts, time]),
        (include_str!("../src/sql/block_again.sql"), &[text, texts, numbers, time]),
        (include_str!("../src/sql/head.sql"), &[text, text]),
        (include_str!("../src/sql/blocker.sql"), &[text, text, "int8"]),
    ] {
        let plan = bench.plan(statement, types).await;
        // Every look into the table is by key, or by the primary key of what was found so.
        let looks: Vec<&str> =
            plan.lines().filter(|line| line.contains("Index Cond") && line.contains("route =")).collect();
        assert!(!looks.is_empty() && looks.iter().all(|look| look.contains("key =")), "{statement}\n{plan}");
    }
}

#[tokio::test]
async fn what_is_old_is_found_without_looking_at_all_that_is_not() {
    let mut bench = Bench::new().await;
    for (table, column, index) in
        [("inbox", "accepted_at", "inbox_at"), ("append_key", "at", "append_key_at"), ("attempt", "at", "attempt_at")]
    {
        let old = format!("select ctid from postroom.{table} where {column} < $1 limit 5000");
        let plan = bench.plan(&old, &["timestamptz"]).await;
        assert!(plan.contains(index), "{plan}");
    }
}

/// Thousands of due deliveries may be in hand while others are looked for.
#[tokio::test]
async fn what_is_in_hand_is_left_out_without_comparing_each_with_all() {
    let mut bench = Bench::new().await;
    let due = include_str!("../src/sql/due.sql").replace("{columns}", "l.lane");
    let plan = bench.plan(&due, &["text", "int2[]", "timestamptz", "int8[]", "int8", "int4"]).await;
    assert!(plan.contains("delivery_due") && plan.contains("NOT (hashed SubPlan"), "{plan}");
}

/// A relay that takes over a lane reads what was under way there, and not the backlog behind it.
#[tokio::test]
async fn what_was_under_way_is_read_without_the_rest_of_a_long_log() {
    let mut bench = Bench::new().await;
    let fill = "insert into postroom.log (partition, lane, tx, seq, occurred_at, id, type, key, payload) \
                select 0, n % 16, 7, n, now(), 'e-' || n, 't', 'k', '' from generate_series(1, 100000) n";
    bench.sql(fill).await;
    bench.sql("analyze postroom.log").await;
    let numbers = "int8[]";
    let again = include_str!("../src/sql/again.sql").replace("{columns}", "l.seq");
    let load = include_str!("../src/sql/load.sql");
    for (statement, types) in
        [(again.as_str(), &["int2", numbers, numbers, numbers, numbers, "int4"][..]), (load, &["int2[]", numbers])]
    {
        let plan = bench.plan(statement, types).await;
        let looks: Vec<&str> = plan.lines().filter(|line| line.contains("Index Cond")).collect();
        assert!(!looks.is_empty() && looks.iter().all(|look| look.contains("seq")), "{statement}\n{plan}");
        assert!(!plan.contains("Seq Scan"), "{plan}");
    }
}
