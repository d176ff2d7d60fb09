//! Orders are published, polled by hand, and handled by managers in Rust and in Python. `work` only handles what is there.

#![allow(clippy::print_stdout, reason = "what it prints is the example")]

use std::error::Error;
use std::future::pending;

use eventqueue::{EventQueue, Policy, handlers, program};
use postroom::SystemClock;
use postroom::postgres::sqlx;
use serde_json::json;

const PYTHON: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/handlers.py");

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let url = std::env::var("DATABASE_URL").map_err(|_| "set DATABASE_URL")?;
    let queue = EventQueue::open(&url, Policy::default()).await?;
    if std::env::args().nth(1).as_deref() == Some("work") {
        return Ok(queue.manager(handlers(&queue.pool), true).run(pending()).await?);
    }

    publish(&queue, "order-1", 2).await?;
    let event = queue.poll(&SystemClock::default()).await?.ok_or("another process was faster")?;
    println!("polled: {}, attempt {}", event.payload, event.attempts);
    println!("finalized: {}, again: {}", queue.finalize(&event, &[]).await?, queue.finalize(&event, &[]).await?);

    publish(&queue, "order-2", 3).await?;
    publish(&queue, "order-3", 0).await?;
    queue.manager(handlers(&queue.pool), true).run(pending()).await?;

    publish(&queue, "order-4", 4).await?;
    publish(&queue, "order-5", 51).await?;
    queue.manager(program(&["python3", PYTHON]), true).run(pending()).await?;

    let log = "select (payload->>'order') || ' ' || status || ' ' || errors from event_log order by id";
    for line in sqlx::query_scalar::<_, String>(log).fetch_all(&queue.pool).await? {
        println!("log: {line}");
    }
    Ok(())
}

async fn publish(queue: &EventQueue, order: &str, pieces: u32) -> Result<(), Box<dyn Error>> {
    let mut tx = queue.begin().await?;
    queue.publish(&mut tx, "OrderPlaced", &json!({ "order": order, "pieces": pieces })).await?;
    Ok(tx.commit().await?)
}
