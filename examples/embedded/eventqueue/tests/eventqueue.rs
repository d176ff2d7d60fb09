//! The example does what its README says, on a real PostgreSQL and with a real Python.

#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::process::{Child, Command};
use std::time::Duration;

use eventqueue::{EventQueue, Policy, handlers};
use postroom::postgres::sqlx;
use postroom::{Clock as _, HandlerError, Timestamp};
use postroom_testbed::{Database, Servers};
use postroom_testing::ManualClock;
use serde_json::json;

async fn queue(policy: Policy) -> (Database, EventQueue) {
    let database = Database::create(&Servers::find()).await;
    let queue = EventQueue::open(&database.url(), policy).await.unwrap();
    (database, queue)
}

async fn publish(queue: &EventQueue, pieces: u32) {
    let mut tx = queue.begin().await.unwrap();
    queue.publish(&mut tx, "OrderPlaced", &json!({ "order": "o-1", "pieces": pieces })).await.unwrap();
    tx.commit().await.unwrap();
}

async fn query(queue: &EventQueue, sql: &'static str) -> Vec<String> {
    sqlx::query_scalar(sql).fetch_all(&queue.pool).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_eventqueue_example_prints_what_its_readme_says() {
    let readme = include_str!("../README.md");
    let expected = readme.split("```text\n").nth(1).unwrap().split("```").next().unwrap();
    let database = Database::create(&Servers::find()).await;
    let output = Command::new(env!("CARGO_BIN_EXE_eventqueue")).env("DATABASE_URL", database.url()).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert_eq!(String::from_utf8(output.stdout).unwrap(), expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn publish_queues_a_pending_event_in_the_transaction_of_its_caller_and_returns_it() {
    let (_database, queue) = queue(Policy::default()).await;
    let mut tx = queue.begin().await.unwrap();
    queue.publish(&mut tx, "OrderPlaced", &json!({})).await.unwrap();
    tx.rollback().await.unwrap();
    let mut tx = queue.begin().await.unwrap();
    let event = queue.publish(&mut tx, "OrderPlaced", &json!({"n": 1})).await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!((event.event_type.as_str(), event.payload.as_str(), event.attempts), ("OrderPlaced", r#"{"n": 1}"#, 0));
    assert_eq!(
        query(&queue, "select id || ' ' || status || ' ' || attempts from event_queue").await,
        [format!("{} PENDING 0", event.id)]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_is_abandoned_by_the_clock_that_poll_is_given_and_its_first_owner_cannot_finalize_it() {
    let (_database, queue) = queue(Policy::default()).await;
    publish(&queue, 1).await;
    let clock = ManualClock::new();
    let first = queue.poll(&clock).await.unwrap().unwrap();
    assert_eq!(queue.poll(&clock).await.unwrap(), None, "it is taken");
    clock.advance(Duration::from_secs(59));
    assert_eq!(queue.poll(&clock).await.unwrap(), None, "it may still come back");
    clock.advance(Duration::from_secs(2));
    let second = queue.poll(&clock).await.unwrap().unwrap();
    assert_eq!((second.id, second.attempts), (first.id, 2));
    let since =
        query(&queue, "select to_char(updated_at at time zone 'utc', 'YYYY-MM-DD\"T\"HH24:MI:SS') from event_queue")
            .await;
    assert!(clock.now().to_string().starts_with(&since[0]), "{since:?}");
    assert!(!queue.finalize(&first, &[]).await.unwrap(), "the count has gone on");
    let error = HandlerError { handler: "mail".to_owned(), error: "full".to_owned() };
    assert!(queue.finalize(&second, &[error]).await.unwrap());
    assert!(!queue.finalize(&second, &[]).await.unwrap(), "a second time does nothing");
    let log = query(&queue, "select status || ' ' || attempts || ' ' || errors from event_log").await;
    assert_eq!(log, [r#"COMPLETED_WITH_ERRORS 2 [{"error": "full", "handler": "mail"}]"#]);
    assert_eq!(query(&queue, "select id::text from event_queue").await, [""; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_process_has_polled_and_left_is_handled_by_the_manager_until_it_is_poison() {
    let (_database, queue) = queue(Policy { attempts_max: 2, ..Policy::default() }).await;
    // By our clock all of this was long ago.
    let clock = ManualClock::at(Timestamp::now() - Duration::from_hours(1));
    for _ in 0..2 {
        publish(&queue, 1).await;
    }
    let left = queue.poll(&clock).await.unwrap().unwrap();
    let poison = queue.poll(&clock).await.unwrap().unwrap();
    sqlx::query("update event_queue set attempts = 2 where id = $1")
        .bind(poison.id)
        .execute(&queue.pool)
        .await
        .unwrap();
    queue.manager(handlers(&queue.pool), true).run(std::future::pending()).await.unwrap();
    let log = query(&queue, "select id || ' ' || status from event_log order by id").await;
    assert_eq!(log, [format!("{} COMPLETED", left.id), format!("{} COMPLETED_WITH_ERRORS", poison.id)]);
    assert_eq!(query(&queue, "select about from mails").await, ["o-1"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn several_processes_share_the_queue_and_each_event_is_handled_once() {
    let (database, queue) = queue(Policy::default()).await;
    sqlx::query(
        "insert into event_queue (event_type, payload) \
         select 'OrderPlaced', jsonb_build_object('order', n::text, 'pieces', 1) from generate_series(1, 300) n",
    )
    .execute(&queue.pool)
    .await
    .unwrap();
    let work = || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_eventqueue"));
        command.arg("work").env("DATABASE_URL", database.url()).spawn().unwrap()
    };
    let processes: Vec<Child> = (0..3).map(|_| work()).collect();
    for mut process in processes {
        assert!(process.wait().unwrap().success());
    }
    let log =
        query(&queue, "select status || ' ' || attempts || ' ' || count(*) from event_log group by status, attempts")
            .await;
    assert_eq!(log, ["COMPLETED 1 300"]);
    assert_eq!(query(&queue, "select count(*) || ' ' || count(distinct about) from mails").await, ["300 300"]);
    assert_eq!(query(&queue, "select pieces::text from stock").await, ["-200"]);
}
