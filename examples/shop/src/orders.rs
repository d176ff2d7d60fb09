//! The producer: an order and its event are one commit.

use std::error::Error;

use postroom::sqlite::{SqliteStore, sqlx};
use postroom::{Event, Outbox, ToEvent};
use serde::{Deserialize, Serialize};

/// An order was placed.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct OrderPlaced {
    pub(crate) order: String,
    pub(crate) pieces: u32,
}

impl ToEvent for OrderPlaced {
    fn to_event(&self) -> Result<Event, serde_json::Error> {
        Event::new("order.placed").aggregate("order", &self.order).json(self)
    }
}

/// Places an order; one of nothing is refused after its event was appended, and takes it along.
pub(crate) async fn place(store: &SqliteStore, order: &str, pieces: u32) -> Result<(), Box<dyn Error>> {
    let mut tx = store.begin().await?;
    sqlx::query("insert into orders values (?1, ?2)").bind(order).bind(pieces).execute(&mut *tx).await?;
    store.append(&mut tx, &OrderPlaced { order: order.to_owned(), pieces }).await?;
    if pieces == 0 {
        return Err("an order of nothing".into());
    }
    tx.commit().await?;
    println!("{order} is placed");
    Ok(())
}
