//! Events arrive in the topic, in order per key; what is rolled back does not.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use postroom::postgres::{PostgresOptions, PostgresStore};
use postroom::{Event, Outbox, RelayOptions};
use postroom_presets::Kafka;
use postroom_testbed::{Database, Servers, unique_name};

#[tokio::test(flavor = "multi_thread")]
async fn committed_orders_arrive_in_the_topic_in_their_order() {
    let (kafka, topic) = (Kafka::shared(), unique_name("orders"));
    let (made, on) = (kafka.clone(), topic.clone());
    tokio::task::spawn_blocking(move || made.create(&[&on], 1)).await.unwrap();
    let database = Database::create(&Servers::find()).await;
    let store = PostgresStore::open_unmigrated(PostgresOptions::new("main", database.url())).await.unwrap();
    store.migrate().await.unwrap();
    for (status, keep) in [("placed", true), ("cancelled", false), ("paid", true), ("shipped", true)] {
        let mut tx = store.begin().await.unwrap();
        let event = Event::new(format!("order.{status}")).key("order-7").json(&status).unwrap();
        store.append(&mut tx, &event).await.unwrap();
        if keep { tx.commit().await.unwrap() } else { tx.rollback().await.unwrap() }
    }
    let drain = RelayOptions::default().drain(true);
    let relay = kafka_relay::relay(store, &kafka.brokers, &topic).unwrap();
    relay.options(drain).run(std::future::pending()).await.unwrap();
    let bodies = tokio::task::spawn_blocking(move || {
        kafka.read(&topic).into_iter().map(|record| record.body).collect::<Vec<String>>()
    });
    assert_eq!(bodies.await.unwrap(), ["\"placed\"", "\"paid\"", "\"shipped\""]);
}
