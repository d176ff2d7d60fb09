//! The consumer: packs each order once, however often it is told of it.

use postroom::sqlite::{SqliteStore, sqlx};
use postroom::{Failure, Inbox, Incoming};
use tokio::sync::mpsc;

use crate::orders::OrderPlaced;

/// Where orders become parcels.
#[derive(Debug, Clone)]
pub(crate) struct Warehouse {
    store: SqliteStore,
    packed: mpsc::Sender<()>,
}

impl Warehouse {
    pub(crate) fn new(store: SqliteStore, packed: mpsc::Sender<()>) -> Self {
        Self { store, packed }
    }

    /// Packs an order. The first answer about order 1 is lost after the work is done, as happens in real life.
    pub(crate) async fn pack(&self, event: Incoming) -> Result<(), Failure> {
        let OrderPlaced { order, pieces } = event.payload_as()?;
        let mut tx = self.store.begin().await?;
        if self.store.accept(&mut tx, "warehouse", &event.id).await?.is_new() {
            sqlx::query("insert into parcels values (?1)").bind(&order).execute(&mut *tx).await?;
            tx.commit().await?;
            println!("{order}: packed {pieces}, attempt {}", event.attempt);
        } else {
            println!("{order}: packed before, attempt {}", event.attempt);
        }
        if order == "order-1" && event.attempt == 1 {
            println!("{order}: the answer is lost");
            return Err(Failure::transient("warehouse.answer_lost", "the connection broke"));
        }
        // Nobody listens only when the shop has closed.
        let _ = self.packed.send(()).await;
        Ok(())
    }
}
