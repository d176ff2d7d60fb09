//! The demo's producer: a shop whose orders and events commit together, as in any application.

use std::sync::Arc;
use std::time::Duration;

use postroom_core::{Event, Outbox, StoreError, StoreErrorKind};
use postroom_sqlite::SqliteStore;
use serde_json::json;
use sqlx::Row;
use tokio::time::{MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

use crate::dev::home::STORE;
use crate::dev::narrate::Narrator;
use crate::exit::Failed;
use crate::traces::Traces;

/// How many orders are open at a time.
const OPEN_ORDERS: i64 = 3;

/// The shop.
#[derive(Debug)]
pub(crate) struct Shop {
    store: SqliteStore,
    narrator: Arc<Narrator>,
    traces: Traces,
}

impl Shop {
    /// Opens the shop; its table lies beside the outbox, in the same database.
    pub(crate) async fn open(store: SqliteStore, narrator: Arc<Narrator>, traces: Traces) -> Result<Self, Failed> {
        let mut tx = store.begin().await?;
        sqlx::query(include_str!("orders.sql")).execute(&mut *tx).await.map_err(broken)?;
        tx.commit().await?;
        Ok(Self { store, narrator, traces })
    }

    /// Does business at this rate until stopped.
    pub(crate) async fn sell(&self, rate: f64, stop: &CancellationToken) -> Result<(), Failed> {
        let mut ticks = interval(Duration::from_secs_f64(1.0 / rate));
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                () = stop.cancelled() => return Ok(()),
                _ = ticks.tick() => {}
            }
            // Not cancelled half-way: what was begun is committed and told.
            self.step().await?;
        }
    }

    /// One thing happens: an order is placed, paid or shipped. The order is written first, then the event, then both commit.
    async fn step(&self) -> Result<(), Failed> {
        let mut tx = self.store.begin().await?;
        let next = sqlx::query(include_str!("next_order.sql")).fetch_one(&mut *tx).await.map_err(broken)?;
        let (open, id, status): (i64, Option<i64>, Option<String>) = (next.get(0), next.get(1), next.get(2));
        let (order, status) = match (id, status.as_deref()) {
            (Some(id), Some("placed")) if open >= OPEN_ORDERS => (id, "paid"),
            (Some(id), Some("paid")) if open >= OPEN_ORDERS => (id, "shipped"),
            _ => {
                let placed = sqlx::query("insert into orders (status) values ('placed') returning id");
                (placed.fetch_one(&mut *tx).await.map_err(broken)?.get(0), "placed")
            }
        };
        let update = sqlx::query("update orders set status = ?2 where id = ?1").bind(order).bind(status);
        update.execute(&mut *tx).await.map_err(broken)?;
        let mut event = Event::new(format!("order.{status}"))
            .aggregate("order", format!("order-{order}"))
            .json(&json!({ "order": order, "status": status, "total": 10 + order % 90 }))
            .map_err(StoreError::from)?;
        let begun = self.traces.begin(STORE, [&mut event]);
        self.store.append(&mut tx, &event).await?;
        let committed = tx.commit().await.map_err(Failed::from);
        begun.end(&committed);
        committed?;
        self.narrator.appended(&event);
        Ok(())
    }
}

fn broken(error: sqlx::Error) -> Failed {
    let hint = "is the demo's folder still there?";
    StoreError::new(StoreErrorKind::Other, "sell", "the shop's own table cannot be written")
        .hint(hint)
        .caused_by(error)
        .into()
}
