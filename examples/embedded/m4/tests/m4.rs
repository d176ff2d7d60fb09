//! The example does what its README says, on a real PostgreSQL.

#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::process::Command;

use m4::M4;
use postroom::postgres::sqlx;
use postroom_testbed::{Database, Servers};

async fn query(m4: &M4, sql: &'static str) -> Vec<String> {
    sqlx::query_scalar(sql).fetch_all(&m4.pool).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_m4_example_prints_what_its_readme_says() {
    let readme = include_str!("../README.md");
    let expected = readme.split("```text\n").nth(1).unwrap().split("```").next().unwrap();
    let database = Database::create(&Servers::find()).await;
    let output = Command::new(env!("CARGO_BIN_EXE_m4")).env("DATABASE_URL", database.url()).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert_eq!(String::from_utf8(output.stdout).unwrap(), expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replay_runs_only_the_handlers_that_had_failed() {
    let database = Database::create(&Servers::find()).await;
    let m4 = M4::open(&database.url()).await.unwrap();
    m4.close_window("s-1", 3).await.unwrap();
    m4.dispatch().await.unwrap();
    let processed = "select consumer_name from processed_events order by 1";
    assert_eq!(query(&m4, processed).await, ["dashboard", "statistics"]);
    assert_eq!(
        query(&m4, "select status from event_outbox where event_type = 'StatisticCalculated'").await,
        ["failed"]
    );
    sqlx::query("insert into tariffs values ('s-1', 7)").execute(&m4.pool).await.unwrap();
    // The system's own way: a dead letter is inserted again by hand.
    sqlx::query(
        "INSERT INTO event_outbox (id, event_id, event_type, payload, status, attempts)
         SELECT event_id || '-replay', event_id, event_type, payload, 'pending', 0 FROM dead_letter_events",
    )
    .execute(&m4.pool)
    .await
    .unwrap();
    m4.dispatch().await.unwrap();
    assert_eq!(query(&m4, processed).await, ["dashboard", "invoices", "settlement", "statistics"]);
    assert_eq!(query(&m4, "select updates || ' ' || kwh from dashboards").await, ["1 3"]);
    assert_eq!(query(&m4, "select cents::text from invoices").await, ["21"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn copies_of_one_event_that_are_handled_at_the_same_time_take_effect_once() {
    let database = Database::create(&Servers::find()).await;
    let m4 = M4::open(&database.url()).await.unwrap();
    sqlx::query("insert into tariffs values ('s-1', 7)").execute(&m4.pool).await.unwrap();
    sqlx::query(
        r#"insert into event_outbox (id, event_id, event_type, payload)
           select n::text, 'e-1', 'StatisticCalculated', '{"payload": {"station": "s-1", "kwh": 1}}'
           from generate_series(1, 20) n"#,
    )
    .execute(&m4.pool)
    .await
    .unwrap();
    m4.dispatch().await.unwrap();
    assert_eq!(query(&m4, "select distinct status from event_outbox").await, ["sent"]);
    assert_eq!(query(&m4, "select updates::text from dashboards").await, ["1"]);
    assert_eq!(query(&m4, "select cents::text from invoices").await, ["7"]);
}
