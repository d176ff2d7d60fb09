//! The example does what its README says, on a real PostgreSQL, Kafka and NATS.

#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::process::Command;
use std::sync::{Arc, Mutex};

use async_nats::jetstream::consumer::{AckPolicy, pull};
use async_nats::jetstream::{self, stream};
use axum::body::Bytes;
use axum::http::StatusCode;
use axum::{Router, routing};
use corebilling::Billing;
use corebilling::downstream::{Downstream, REPLAYS};
use corebilling::outbox::apply_metadata;
use futures_util::TryStreamExt as _;
use postroom::config::Sources;
use postroom::dedup::{DedupOutcome, DedupWindowOptions, MemoryDedupWindow};
use postroom::postgres::sqlx;
use postroom::with_correlation_id;
use postroom_presets::Kafka;
use postroom_testbed::{Database, Servers, unique_name};
use serde_json::{Value, json};

/// An operator inserts the rows again, under new ids.
const AGAIN: &str = "insert into billing_events (id, subject, tenant_id, resource_id, payload) \
    select id || '-again', subject, tenant_id, resource_id, payload || '{\"outbox_status\": \"pending\"}' from billing_events";

async fn billing(bus: &[(&str, &str)]) -> (Database, Billing) {
    let database = Database::create(&Servers::find()).await;
    let url = database.url();
    let env = bus.iter().copied().chain([("DATABASE_URL", url.as_str())]);
    let env = env.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    let billing = Billing::open(Sources { env, ..Sources::default() }).await.unwrap();
    (database, billing)
}

async fn query(billing: &Billing, sql: &'static str) -> Vec<String> {
    sqlx::query_scalar(sql).fetch_all(&billing.pool).await.unwrap()
}

/// Everything in a topic; its client blocks.
async fn read(kafka: &Kafka, topic: &str) -> Vec<String> {
    let (kafka, topic) = (kafka.clone(), topic.to_owned());
    let read = move || kafka.read(&topic).into_iter().map(|record| record.body).collect();
    tokio::task::spawn_blocking(read).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_corebilling_example_prints_what_its_readme_says() {
    let readme = include_str!("../README.md");
    let expected = readme.split("```text\n").nth(1).unwrap().split("```").next().unwrap();
    let database = Database::create(&Servers::find()).await;
    let mut command = Command::new(env!("CARGO_BIN_EXE_corebilling"));
    let output = command.env("DATABASE_URL", database.url()).env("EVENT_BUS", "noop").output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert_eq!(String::from_utf8(output.stdout).unwrap(), expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_domain_inserts_through_the_helper_and_what_is_rolled_back_is_never_published() {
    let mut payload = json!({"plan": "yearly"}).as_object().unwrap().clone();
    apply_metadata(&mut payload);
    let keys: Vec<&String> = payload.keys().collect();
    let all = ["outbox_last_error", "outbox_next_attempt_at", "outbox_retry_count", "outbox_status", "plan"];
    assert_eq!(keys, all);

    let (_database, billing) = billing(&[("EVENT_BUS", "noop")]).await;
    billing.subscribe("subscription.created", "sub-1").await.unwrap();
    billing.subscribe("subscription.created", "sub-1").await.unwrap_err();
    let rows = "select tenant_id || ' ' || resource_id || ' ' || (payload->>'outbox_status') from billing_events";
    assert_eq!(query(&billing, rows).await, ["acme sub-1 pending"]);
    billing.dispatch().await.unwrap();
    assert_eq!(query(&billing, rows).await, ["acme sub-1 dispatched"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn webhooks_and_replays_are_told_apart_by_correlation_and_causation_and_not_by_the_rows_id() {
    let kafka = Kafka::shared();
    let topic = unique_name("subscription.created");
    let (made, on) = (kafka.clone(), topic.clone());
    tokio::task::spawn_blocking(move || made.create(&[&on], 1)).await.unwrap();
    let (_database, billing) = billing(&[("EVENT_BUS", "kafka"), ("KAFKA_BROKERS", &kafka.brokers)]).await;
    let downstream = Downstream::open(&billing).await.unwrap();
    with_correlation_id("request-31", billing.subscribe(&topic, "sub-1")).await.unwrap();
    billing.dispatch().await.unwrap();
    sqlx::query(AGAIN).execute(&billing.pool).await.unwrap();
    billing.dispatch().await.unwrap();
    let bodies = read(&kafka, &topic).await;
    let ids: Vec<Value> =
        bodies.iter().map(|body| serde_json::from_str::<Value>(body).unwrap()["id"].clone()).collect();
    assert!(ids.len() == 2 && ids[0] != ids[1], "two rows, two messages: {ids:?}");
    assert_eq!(downstream.webhook(bodies[0].as_bytes()).await.unwrap(), DedupOutcome::Done);
    assert_eq!(
        downstream.webhook(bodies[0].as_bytes()).await.unwrap(),
        DedupOutcome::Duplicate,
        "a delivery attempt more"
    );
    assert_eq!(downstream.webhook(bodies[1].as_bytes()).await.unwrap(), DedupOutcome::Duplicate, "a replay");
    // Another request is another thing to do, which the state knows to be done.
    let other = bodies[0].replace("request-31", "request-32");
    assert_eq!(downstream.webhook(other.as_bytes()).await.unwrap(), DedupOutcome::Done);
    assert_eq!(query(&billing, "select subscription from welcome_mails").await, ["sub-1"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_webhook_brings_again_after_a_lost_answer_or_a_replay_has_no_second_effect() {
    let (database, plain) = billing(&[("EVENT_BUS", "noop")]).await;
    let (downstream, results) = (Arc::new(Downstream::open(&plain).await.unwrap()), Arc::new(Mutex::new(Vec::new())));
    let seen = Arc::clone(&results);
    let receive = move |body: Bytes| async move {
        let done = downstream.webhook(&body).await.unwrap();
        let mut seen = seen.lock().unwrap();
        seen.push(done);
        // The first time the work is done and the answer is lost.
        if seen.len() == 1 { StatusCode::BAD_GATEWAY } else { StatusCode::NO_CONTENT }
    };
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/hooks", listener.local_addr().unwrap());
    let router = Router::new().route("/hooks", routing::post(receive));
    tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });

    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("postroom.toml");
    let text = format!(
        "[transport.webhook]\nhttps_only = false\nallow_networks = [\"127.0.0.0/8\"]\n\
         [[route]]\nname = \"corebilling\"\nretry = {{ base = \"10ms\" }}\nto = {{ webhook = {{ url = \"{url}\" }} }}\n"
    );
    std::fs::write(&file, text).unwrap();
    let env = [("DATABASE_URL".to_owned(), database.url())].into();
    let billing = Billing::open(Sources { file: Some(file), env, ..Sources::default() }).await.unwrap();
    with_correlation_id("request-31", billing.subscribe("subscription.created", "sub-1")).await.unwrap();
    billing.dispatch().await.unwrap();
    sqlx::query(AGAIN).execute(&billing.pool).await.unwrap();
    billing.dispatch().await.unwrap();
    assert_eq!(*results.lock().unwrap(), [DedupOutcome::Done, DedupOutcome::Duplicate, DedupOutcome::Duplicate]);
    assert_eq!(query(&billing, "select subscription from welcome_mails").await, ["sub-1"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn with_nats_in_its_variable_the_example_publishes_there() {
    let url = format!("nats://127.0.0.1:{}", Servers::find().port("nats"));
    let context = jetstream::new(async_nats::connect(&url).await.unwrap());
    let subject = unique_name("subscription.created");
    let stream = stream::Config { name: unique_name("S"), subjects: vec![subject.clone()], ..Default::default() };
    let mut stream = context.create_stream(stream).await.unwrap();
    let (_database, billing) = billing(&[("EVENT_BUS", "nats"), ("NATS_URL", &url)]).await;
    billing.subscribe(&subject, "sub-1").await.unwrap();
    billing.dispatch().await.unwrap();
    let consumer = pull::Config { ack_policy: AckPolicy::None, ..Default::default() };
    let consumer = stream.create_consumer(consumer).await.unwrap();
    let messages: Vec<_> = consumer.fetch().max_messages(2).messages().await.unwrap().try_collect().await.unwrap();
    let envelope: Value = serde_json::from_slice(&messages[0].payload).unwrap();
    assert_eq!(messages.len(), 1);
    assert_eq!((&envelope["resource_id"], &envelope["payload"]["plan"]), (&json!("sub-1"), &json!("yearly")));
    let name = stream.info().await.unwrap().config.name.clone();
    context.delete_stream(name).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_subscription_takes_each_step_once_and_none_backwards() {
    let (_database, billing) = billing(&[("EVENT_BUS", "noop")]).await;
    let downstream = Downstream::open(&billing).await.unwrap();
    billing.subscribe("subscription.created", "sub-1").await.unwrap();
    for _ in 0..2 {
        downstream.start_trial("sub-1").await.unwrap();
    }
    assert_eq!(query(&billing, "select subscription from welcome_mails").await, ["sub-1"]);
    sqlx::query("update subscriptions set status = 'active'").execute(&billing.pool).await.unwrap();
    assert_eq!(downstream.start_trial("sub-1").await.unwrap_err().code, "guard.refused");
    assert_eq!(query(&billing, "select status from subscriptions").await, ["active"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_window_of_ten_minutes_is_refused_where_events_may_come_later() {
    let (_database, billing) = billing(&[("EVENT_BUS", "noop")]).await;
    let ten_minutes = DedupWindowOptions::new(&billing.retries()).redelivery(REPLAYS);
    assert!(MemoryDedupWindow::new(&ten_minutes).is_err());
    assert!(Downstream::open(&billing).await.is_ok());
}
