//! Relays until Ctrl-C.

use kafka_relay::relay;
use postroom::postgres::{PostgresOptions, PostgresStore};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let setting = |name: &str, default: &str| std::env::var(name).unwrap_or_else(|_| default.to_owned());
    let url = setting("DATABASE_URL", "postgres://localhost/shop");
    let store = PostgresStore::open_unmigrated(PostgresOptions::new("main", url)).await?;
    store.migrate().await?;
    let relay = relay(store, &setting("KAFKA_BROKERS", "localhost:9092"), &setting("TOPIC", "orders.v1"))?;
    relay.run(async { drop(tokio::signal::ctrl_c().await) }).await?;
    Ok(())
}
