//! The program of the README.
#![allow(clippy::print_stdout, reason = "it shows what happens")]

use postroom::sqlite::SqliteStore;
use postroom::{Event, Outbox, Relay, RelayOptions, Route};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let store = SqliteStore::create("shop.db").await?;
    sqlx::query("create table if not exists orders (id text, total int)").execute(store.pool()).await?;

    // The order and its event commit together, or neither does. The commit wakes the relay.
    let mut tx = store.begin().await?;
    sqlx::query("insert into orders values ('order-7', 4200)").execute(&mut *tx).await?;
    let event = Event::new("order.placed").key("order-7").json(&serde_json::json!({ "total": 4200 }))?;
    store.append(&mut tx, &event).await?;
    tx.commit().await?;

    // The relay delivers the event, in order per key, and retries until the handler succeeds.
    let mailer = Route::named("mailer").matching("order.*").from_beginning().handle(|order| async move {
        println!("attempt {}: mail about {}", order.attempt, order.ordering_key().unwrap_or("?"));
        if order.attempt == 1 { Err(std::io::Error::other("mail server is asleep")) } else { Ok(()) }
    });
    let options = RelayOptions::default().drain(true); // return when nothing is left
    Ok(Relay::new(store).options(options).route(mailer).run(std::future::pending()).await?)
}
