//! How the domain writes events: the helper that puts the outbox's keys into a payload, and the row.

use postroom::postgres::sqlx::{self, Postgres, Transaction};
use postroom::{Event, Failure, Timestamp};
use serde_json::{Map, Value, json};

/// Puts the four keys of the outbox into a payload.
pub fn apply_metadata(payload: &mut Map<String, Value>) {
    payload.insert("outbox_status".to_owned(), json!("pending"));
    payload.insert("outbox_retry_count".to_owned(), json!(0));
    payload.insert("outbox_next_attempt_at".to_owned(), json!(Timestamp::now().to_string()));
    payload.insert("outbox_last_error".to_owned(), Value::Null);
}

/// Writes an event in the transaction of what it speaks of.
pub async fn insert(tx: &mut Transaction<'_, Postgres>, event: &Event) -> Result<(), Failure> {
    let mut payload: Map<String, Value> = event.payload_as()?;
    payload.insert("correlation_id".to_owned(), json!(event.correlation()));
    payload.insert("causation_id".to_owned(), json!(event.causation_id));
    apply_metadata(&mut payload);
    let text =
        "insert into billing_events (id, subject, tenant_id, resource_id, payload) values ($1, $2, $3, $4, $5::jsonb)";
    sqlx::query(text)
        .bind(&event.id)
        .bind(&event.event_type)
        .bind(&event.tenant)
        .bind(&event.aggregate_id)
        .bind(Value::Object(payload).to_string())
        .execute(&mut **tx)
        .await?;
    Ok(())
}
