//! The program of the README.
#![allow(clippy::print_stdout, reason = "it shows what happens")]

use postroom::sqlite::{Sqlite, sqlx};
use postroom::{Event, Failure, Handlers, Outbox, Relay, RelayOptions, RouteDefinition, RouteRun, Start};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let store = Sqlite::create("shop.db").await?;
    sqlx::query("create table if not exists orders (id text, total int)").execute(store.pool()).await?;

    // The order and its event commit together, or neither does.
    let mut tx = store.begin().await?;
    sqlx::query("insert into orders values ('order-7', 4200)").execute(&mut *tx).await?;
    let event = Event::new("order.placed").key("order-7").json(&serde_json::json!({ "total": 4200 }))?;
    let appended = store.append(&mut tx, &event).await?;
    tx.commit().await?;
    appended.wake();

    // The relay delivers it: in order per key, again and again until the handler says yes.
    let handlers = Handlers::new().on("order.*", "mailer", |order| async move {
        println!("attempt {}: mail about {}", order.attempt, order.ordering_key().unwrap_or("?"));
        if order.attempt == 1 { Err(Failure::transient("smtp", "mail server is asleep")) } else { Ok(()) }
    });
    let route = RouteDefinition::new("mailer").starting(Start::Beginning);
    let relay = Relay::new(RelayOptions { drain: true, ..Default::default() });
    Ok(relay.serve(RouteRun::new(store, route, handlers)).run(std::future::pending()).await?)
}
