//! In a transaction of tokio-postgres, or of a pool over it: deadpool's and bb8's transactions deref to this one.
//!
//! ```no_run
//! # async fn shop(store: &postroom_postgres::PostgresStore, client: &mut tokio_postgres::Client) -> Result<(), Box<dyn std::error::Error>> {
//! use postroom_core::Event;
//! use postroom_clients::tokio_postgres as outbox;
//!
//! let tx = client.transaction().await?;
//! tx.execute("update orders set paid = true where id = 7", &[]).await?;
//! let appended = outbox::append(store, &tx, &Event::new("order.paid").key("order-7")).await?;
//! tx.commit().await?;
//! appended.wake();
//! # Ok(()) }
//! ```
//!
//! One round trip each, without a named statement: fit for a pooler.

use postroom_core::{Acceptance, Appended, StoreError, ToEvent};
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Error, Transaction};

use postroom_postgres::{PostgresStore, Statement, Value};

use crate::NO_ANSWER;

/// Appends one event.
pub async fn append<E: ToEvent + Sync>(
    store: &PostgresStore,
    tx: &Transaction<'_>,
    event: &E,
) -> Result<Appended, StoreError> {
    append_by(store, tx, store.statement(event)?).await
}

/// Appends several in order; all or none.
pub async fn append_many<E: ToEvent + Sync>(
    store: &PostgresStore,
    tx: &Transaction<'_>,
    events: &[E],
) -> Result<Appended, StoreError> {
    append_by(store, tx, store.statement_many(events)?).await
}

/// Appends unless an earlier committed call used the same idempotency key.
pub async fn append_once<E: ToEvent + Sync>(
    store: &PostgresStore,
    tx: &Transaction<'_>,
    idempotency_key: &str,
    event: &E,
) -> Result<Appended, StoreError> {
    append_by(store, tx, store.statement_once(idempotency_key, event)?).await
}

/// Accepts the event for the consumer, in the transaction of its effect.
pub async fn accept(
    store: &PostgresStore,
    tx: &Transaction<'_>,
    consumer: &str,
    id: &str,
) -> Result<Acceptance, StoreError> {
    let rows = execute(tx, &store.statement_accept(consumer, id)?).await;
    rows.map(PostgresStore::accepted).map_err(|error| failed(store, "accept", error))
}

async fn append_by(store: &PostgresStore, tx: &Transaction<'_>, statement: Statement) -> Result<Appended, StoreError> {
    let rows = execute(tx, &statement).await.map_err(|error| failed(store, "append", error))?;
    Ok(store.appended(statement, rows))
}

async fn execute(tx: &Transaction<'_>, statement: &Statement) -> Result<u64, Error> {
    let values: Vec<_> = statement.values.iter().map(bound).collect();
    tx.execute_typed(&statement.sql, &values).await
}

fn bound(value: &Value) -> (&(dyn ToSql + Sync), Type) {
    match value {
        Value::Text(value) => (value, Type::TEXT),
        Value::Int(value) => (value, Type::INT4),
        Value::Bytes(value) => (value, Type::BYTEA),
        Value::Texts(value) => (value, Type::TEXT_ARRAY),
        Value::Ints(value) => (value, Type::INT4_ARRAY),
        Value::ByteStrings(value) => (value, Type::BYTEA_ARRAY),
    }
}

fn failed(store: &PostgresStore, operation: &'static str, error: Error) -> StoreError {
    let (state, said) = match error.as_db_error() {
        Some(error) => (error.code().code(), error.message().to_owned()),
        None => (NO_ANSWER, error.to_string()),
    };
    store.refused(operation, state, &said).caused_by(error)
}
