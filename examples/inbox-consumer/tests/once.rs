//! Two copies of a message have one effect.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use inbox_consumer::{Books, consumer};
use postroom::postgres::PostgresStore;
use postroom::postgres::sqlx::{self, PgPool};
use postroom::{Event, Outbox, RelayOptions};
use postroom_presets::Kafka;
use postroom_testbed::{Database, Servers, unique_name};

#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_comes_twice_is_booked_once() {
    let (kafka, topic) = (Kafka::shared(), unique_name("orders"));
    let (made, on) = (kafka.clone(), topic.clone());
    tokio::task::spawn_blocking(move || made.create(&[&on, &format!("{on}.dead")], 1)).await.unwrap();
    let database = Database::create(&Servers::find()).await;
    let pool = PgPool::connect(&database.url()).await.unwrap();
    sqlx::raw_sql("create table ledger (entry text)").execute(&pool).await.unwrap();
    let store = PostgresStore::from_pool(pool.clone()).await.unwrap();
    store.migrate().await.unwrap();

    // The same event twice, as after a crash of the relay; then another one, in the same partition.
    let order = |n: u32| Event::new("order.placed").id(format!("e-{n}")).key(format!("order-{n}")).json(&n).unwrap();
    let mut tx = store.begin().await.unwrap();
    store.append_many(&mut tx, &[order(1), order(1), order(2)]).await.unwrap();
    tx.commit().await.unwrap();
    let drain = RelayOptions::default().drain(true);
    let relay = kafka_relay::relay(store.clone(), &kafka.brokers, &topic).unwrap();
    relay.options(drain).run(std::future::pending()).await.unwrap();

    let (worked, mut orders) = tokio::sync::mpsc::unbounded_channel();
    let last_is_booked = async move { while orders.recv().await.is_some_and(|order| order != "order-2") {} };
    consumer(store, &kafka.brokers, &topic, Books { worked }).unwrap().run(last_is_booked).await;
    let booked: Vec<String> = sqlx::query_scalar("select entry from ledger order by 1").fetch_all(&pool).await.unwrap();
    assert_eq!(booked, ["order-1", "order-2"]);
}
