//! Books until Ctrl-C.
#![allow(clippy::print_stdout, reason = "it shows what happens")]

use inbox_consumer::{Books, consumer};
use postroom::postgres::PostgresStore;
use postroom::postgres::sqlx::{self, PgPool};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let setting = |name: &str, default: &str| std::env::var(name).unwrap_or_else(|_| default.to_owned());
    let pool = PgPool::connect(&setting("DATABASE_URL", "postgres://localhost/books")).await?;
    sqlx::raw_sql("create table if not exists ledger (entry text)").execute(&pool).await?;
    let store = PostgresStore::from_pool(pool).await?;
    store.migrate().await?;

    let (worked, mut orders) = tokio::sync::mpsc::unbounded_channel();
    let (brokers, topic) = (setting("KAFKA_BROKERS", "localhost:9092"), setting("TOPIC", "orders.v1"));
    let consumer = consumer(store, &brokers, &topic, Books { worked })?;
    let told = tokio::spawn(async move {
        while let Some(order) = orders.recv().await {
            println!("booked {order}");
        }
    });
    consumer.run(async { drop(tokio::signal::ctrl_c().await) }).await;
    told.await?;
    Ok(())
}
