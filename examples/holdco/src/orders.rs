//! Orders, payments and stock: every change and what it tells are one commit.
//!
//! Nothing here knows of RabbitMQ. What happens to the events is the relay's business.

#![allow(clippy::disallowed_methods, reason = "nothing here is cancelled, so that a plain begin will do")]

use std::error::Error;

use serde_json::json;
use sqlx::PgPool;

use crate::outbox::append;

/// Places an order and takes its pieces from stock. An order number is the key of the request: repeated, nothing happens.
pub(crate) async fn place(
    pool: &PgPool,
    no: &str,
    total: &str,
    sku: &str,
    pieces: i32,
) -> Result<bool, Box<dyn Error>> {
    let mut tx = pool.begin().await?;
    let insert =
        "insert into orders (order_no, total_amount) values ($1, $2) on conflict do nothing returning id::text";
    let order: Option<String> = sqlx::query_scalar(insert).bind(no).bind(total).fetch_optional(&mut *tx).await?;
    let Some(order) = order else { return Ok(false) };
    let payload = json!({"order_no": no, "total_amount": total, "currency": "NGN"});
    append(&mut tx, ("order", &order), "created", &payload).await?;

    let take = "update stock set pieces = pieces - $2 where sku = $1 and pieces >= $2 and $2 > 0";
    if sqlx::query(take).bind(sku).bind(pieces).execute(&mut *tx).await?.rows_affected() == 0 {
        // The order and its event go back with it.
        return Err(format!("there are no {pieces} pieces of {sku}").into());
    }
    let insert = "insert into stock_adjustments (order_id, sku, pieces) values ($1::uuid, $2, $3) returning id::text";
    let insert = sqlx::query_scalar(insert).bind(&order).bind(sku).bind(-pieces);
    let adjustment: String = insert.fetch_one(&mut *tx).await?;
    append(&mut tx, ("stock_adjustment", &adjustment), "posted", &json!({"sku": sku, "pieces": -pieces})).await?;
    tx.commit().await?;
    Ok(true)
}

/// Notes how the payment of an order went: `captured` or `failed`. An order is paid once.
pub(crate) async fn pay(pool: &PgPool, no: &str, outcome: &str) -> Result<bool, Box<dyn Error>> {
    let mut tx = pool.begin().await?;
    let update = "update orders set status = case $2 when 'captured' then 'paid' else status end \
                  where order_no = $1 and status = 'open' returning id::text";
    let order: Option<String> = sqlx::query_scalar(update).bind(no).bind(outcome).fetch_optional(&mut *tx).await?;
    let Some(order) = order else { return Ok(false) };
    let insert = "insert into payment_intents (order_id, status) values ($1::uuid, $2) returning id::text";
    let intent: String = sqlx::query_scalar(insert).bind(&order).bind(outcome).fetch_one(&mut *tx).await?;
    append(&mut tx, ("payment_intent", &intent), outcome, &json!({"order_no": no})).await?;
    tx.commit().await?;
    Ok(true)
}
