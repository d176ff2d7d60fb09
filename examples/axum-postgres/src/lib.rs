//! A shop behind HTTP: `POST /orders` writes an order and its event, a relay in the same process mails about it once.

use axum::extract::State;
use axum::http::StatusCode;
use axum::{Json, Router, routing};
use postroom::postgres::PostgresStore;
use postroom::postgres::sqlx::{self, PgPool};
use postroom::{Event, Failure, Inbox, Incoming, Outbox, Relay, Route, StoreError};
use serde::{Deserialize, Serialize};

/// The shop: a store over the pool that the service has anyway.
#[derive(Debug, Clone)]
pub struct Shop {
    store: PostgresStore,
}

/// An order, as it comes and as its event tells it.
#[derive(Debug, Serialize, Deserialize)]
pub struct Order {
    /// Its number; orders of one number are told in order.
    pub number: String,
    /// How many pieces.
    pub pieces: i32,
}

impl Shop {
    /// Opens the shop in this database and makes its tables and those of the outbox.
    pub async fn open(pool: PgPool) -> Result<Self, Box<dyn std::error::Error>> {
        for table in ["orders (number text, pieces int)", "mails (about text)"] {
            let create = sqlx::AssertSqlSafe(format!("create table if not exists {table}"));
            sqlx::raw_sql(create).execute(&pool).await?;
        }
        let store = PostgresStore::from_pool(pool).await?;
        store.migrate().await?;
        Ok(Self { store })
    }

    /// The endpoints.
    pub fn router(self) -> Router {
        Router::new().route("/orders", routing::post(place)).with_state(self)
    }

    /// The relay: serves until it is told to stop.
    pub fn relay(&self) -> Relay {
        let shop = self.clone();
        let mailer = Route::named("mailer").matching("order.*").from_beginning();
        Relay::new(self.store.clone()).route(mailer.handle(move |order| shop.clone().mail(order)))
    }

    /// Writes an order and its event; both are there, or neither is.
    async fn place(&self, order: &Order) -> Result<(), Box<dyn std::error::Error>> {
        let mut tx = self.store.begin().await?;
        let insert = sqlx::query("insert into orders values ($1, $2)").bind(&order.number).bind(order.pieces);
        insert.execute(&mut *tx).await?;
        self.store.append(&mut tx, &Event::new("order.placed").aggregate("order", &order.number).json(order)?).await?;
        tx.commit().await?; // wakes the relay, too
        Ok(())
    }

    /// Mails about an order, once: the acceptance and the mail are one transaction.
    async fn mail(self, event: Incoming) -> Result<(), Failure> {
        let order: Order = event.payload_as()?;
        let mut tx = self.store.begin().await?;
        if self.store.accept(&mut tx, "mailer", &event.id).await?.is_new() {
            sqlx::query("insert into mails values ($1)").bind(order.number).execute(&mut *tx).await?;
            tx.commit().await?;
        }
        Ok(())
    }

    /// How many mails were written.
    pub async fn mails(&self) -> Result<i64, StoreError> {
        let count = sqlx::query_scalar("select count(*) from mails").fetch_one(self.store.pool()).await;
        count.map_err(|error| StoreError::new(postroom::StoreErrorKind::Other, "count", "mails").caused_by(error))
    }
}

async fn place(State(shop): State<Shop>, Json(order): Json<Order>) -> StatusCode {
    match shop.place(&order).await {
        Ok(()) => StatusCode::CREATED,
        Err(_) => StatusCode::SERVICE_UNAVAILABLE,
    }
}
