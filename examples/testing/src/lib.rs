//! A service that takes the outbox and the transaction as parameters, so that its tests can give it those of memory.

use postroom::{Event, Failure, Incoming, Outbox, StoreError};
use serde_json::json;

/// Places an order in the caller's transaction.
pub async fn place_order<T: Send>(
    outbox: &impl Outbox<T>,
    tx: &mut T,
    order: &str,
    total: u32,
) -> Result<(), StoreError> {
    let event = Event::new("order.placed").aggregate("order", order).json(&json!({ "total": total }))?;
    outbox.append(tx, &event).await?;
    if total >= 1_000 {
        outbox.append(tx, &Event::new("order.flagged").aggregate("order", order).caused_by(&event)).await?;
    }
    Ok(())
}

/// Mails about an order; one of nothing is never mailed about.
#[allow(clippy::unused_async, reason = "a handler is async; this one has nobody to wait for")]
pub async fn mail(order: Incoming) -> Result<(), Failure> {
    let total: serde_json::Value = order.payload_as()?;
    match total["total"].as_u64() {
        None | Some(0) => Err(Failure::permanent("mail.empty", "an order of nothing")),
        Some(_) => Ok(()),
    }
}
