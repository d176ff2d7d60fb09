//! The event: a row of `event_outbox`, in the transaction of what it tells.

use serde_json::Value;
use sqlx::{Postgres, Transaction};

/// The tenant of this installation.
const GROUP: &str = "11111111-1111-4111-8111-111111111111";

/// Appends what happened to an aggregate.
pub(crate) async fn append(
    tx: &mut Transaction<'static, Postgres>,
    (aggregate_type, aggregate_id): (&str, &str),
    event_type: &str,
    payload: &Value,
) -> sqlx::Result<()> {
    let insert = "insert into event_outbox (group_id, aggregate_type, aggregate_id, event_type, payload) \
                  values ($1::uuid, $2, $3::uuid, $4, $5::jsonb)";
    let insert = sqlx::query(insert).bind(GROUP).bind(aggregate_type).bind(aggregate_id);
    insert.bind(event_type).bind(payload.to_string()).execute(&mut **tx).await?;
    Ok(())
}
