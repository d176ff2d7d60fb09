//! A shop: orders and their events commit together, a relay in the same process delivers them, effects happen once.
//!
//! Places three orders (one is rolled back), loses one answer on purpose, and ends when all is done.

#![allow(clippy::print_stdout, reason = "what it prints is the example")]

mod orders;
mod warehouse;

use std::error::Error;

use postroom::sqlite::{SqliteStore, sqlx};
use postroom::{Handlers, Relay, Route};
use tokio::sync::{mpsc, oneshot};

use crate::warehouse::Warehouse;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let store = SqliteStore::create(folder.path().join("shop.db")).await?;
    for table in ["create table orders (id text primary key, pieces int)", "create table parcels (order_id text)"] {
        sqlx::query(table).execute(store.pool()).await?;
    }

    orders::place(&store, "order-1", 2).await?;
    if let Err(error) = orders::place(&store, "order-2", 0).await {
        println!("order-2 was rolled back, and its event with it: {error}");
    }
    orders::place(&store, "order-3", 1).await?;

    let (packed, mut parcels) = mpsc::channel(1);
    let (stop, stopped) = oneshot::channel::<()>();
    let relay = tokio::spawn(relay(&store, Warehouse::new(store.clone(), packed)).run(async move {
        // An error means that nobody can say stop any more, which is as good.
        let _ = stopped.await;
    }));

    for _ in 0..2 {
        parcels.recv().await;
    }
    drop(stop);
    relay.await??;

    let sent: i64 = sqlx::query_scalar("select count(*) from parcels").fetch_one(store.pool()).await?;
    println!("stopped: 2 orders, {sent} parcels");
    Ok(())
}

/// A relay that brings placed orders to the warehouse.
fn relay(store: &SqliteStore, warehouse: Warehouse) -> Relay {
    // One at a time, so that the output is the same every time.
    let handlers = Handlers::new()
        .on("order.placed", "warehouse", move |order| {
            let warehouse = warehouse.clone();
            async move { warehouse.pack(order).await }
        })
        .in_flight(1);
    Relay::new(store.clone()).route(Route::named("warehouse").matching("order.*").from_beginning().to(handlers))
}
