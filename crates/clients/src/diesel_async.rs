//! In a transaction of diesel-async; a pooled connection derefs to this one.
//!
//! ```no_run
//! # async fn shop(store: &postroom_postgres::PostgresStore, connection: &mut diesel_async::AsyncPgConnection) -> Result<(), Box<dyn std::error::Error>> {
//! use diesel_async::{AsyncConnection, RunQueryDsl};
//! use postroom_core::Event;
//! use postroom_clients::diesel_async as outbox;
//!
//! let appended = connection
//!     .transaction(async |tx| {
//!         diesel::sql_query("update orders set paid = true where id = 7").execute(tx).await?;
//!         let appended = outbox::append(store, tx, &Event::new("order.paid").key("order-7")).await?;
//!         Ok::<_, Box<dyn std::error::Error + Send + Sync>>(appended)
//!     })
//!     .await
//!     .map_err(|error| error as Box<dyn std::error::Error>)?;
//! appended.wake();
//! # Ok(()) }
//! ```
//!
//! Diesel's type does not say whether a transaction is open, so it is asked: outside of one nothing is appended. Diesel
//! keeps no SQLSTATE either; most refusals are [`StoreErrorKind::Other`], with the server's words as their cause.

use diesel::pg::Pg;
use diesel::query_builder::{BoxedSqlQuery, SqlQuery};
use diesel::result::{DatabaseErrorKind, Error};
use diesel::sql_types::{Array, Binary, Integer, Nullable, Text};
use diesel_async::{AnsiTransactionManager, AsyncPgConnection, RunQueryDsl, TransactionManager};
use postroom_core::{Acceptance, Appended, StoreError, StoreErrorKind, ToEvent};

use postroom_postgres::{PostgresStore, Statement, Value};

use crate::NO_ANSWER;

/// Appends one event.
pub async fn append<E: ToEvent + Sync>(
    store: &PostgresStore,
    tx: &mut AsyncPgConnection,
    event: &E,
) -> Result<Appended, StoreError> {
    append_by(store, tx, store.statement(event)?).await
}

/// Appends several in order; all or none.
pub async fn append_many<E: ToEvent + Sync>(
    store: &PostgresStore,
    tx: &mut AsyncPgConnection,
    events: &[E],
) -> Result<Appended, StoreError> {
    append_by(store, tx, store.statement_many(events)?).await
}

/// Appends unless an earlier committed call used the same idempotency key.
pub async fn append_once<E: ToEvent + Sync>(
    store: &PostgresStore,
    tx: &mut AsyncPgConnection,
    idempotency_key: &str,
    event: &E,
) -> Result<Appended, StoreError> {
    append_by(store, tx, store.statement_once(idempotency_key, event)?).await
}

/// Accepts the event for the consumer, in the transaction of its effect.
pub async fn accept(
    store: &PostgresStore,
    tx: &mut AsyncPgConnection,
    consumer: &str,
    id: &str,
) -> Result<Acceptance, StoreError> {
    let mut statement = store.statement_accept(consumer, id)?;
    Ok(PostgresStore::accepted(execute(store, tx, &mut statement, "accept").await?))
}

async fn append_by(
    store: &PostgresStore,
    tx: &mut AsyncPgConnection,
    mut statement: Statement,
) -> Result<Appended, StoreError> {
    let rows = execute(store, tx, &mut statement, "append").await?;
    Ok(store.appended(statement, rows))
}

async fn execute(
    store: &PostgresStore,
    tx: &mut AsyncPgConnection,
    statement: &mut Statement,
    operation: &'static str,
) -> Result<u64, StoreError> {
    let depth = AnsiTransactionManager::transaction_manager_status_mut(tx).transaction_depth();
    if depth.map_err(|error| failed(store, operation, error))?.is_none() {
        let message = format!("{operation} was called outside of a transaction");
        return Err(StoreError::new(StoreErrorKind::Invalid, operation, message)
            .hint("call it inside `connection.transaction(…)`, together with the write it belongs to"));
    }
    let query = diesel::sql_query(&*statement.sql).into_boxed::<Pg>();
    let query = statement.values.drain(..).fold(query, bind);
    let rows = query.execute(tx).await.map_err(|error| failed(store, operation, error))?;
    Ok(rows as u64)
}

fn bind(query: BoxedSqlQuery<'_, Pg, SqlQuery>, value: Value) -> BoxedSqlQuery<'_, Pg, SqlQuery> {
    match value {
        Value::Text(value) => query.bind::<Nullable<Text>, _>(value),
        Value::Int(value) => query.bind::<Integer, _>(value),
        Value::Bytes(value) => query.bind::<Binary, _>(value),
        Value::Texts(value) => query.bind::<Array<Nullable<Text>>, _>(value),
        Value::Ints(value) => query.bind::<Array<Integer>, _>(value),
        Value::ByteStrings(value) => query.bind::<Array<Binary>, _>(value),
    }
}

fn failed(store: &PostgresStore, operation: &'static str, error: Error) -> StoreError {
    let (state, said) = match &error {
        Error::DatabaseError(kind, said) => {
            let state = match kind {
                DatabaseErrorKind::SerializationFailure => "40001",
                DatabaseErrorKind::ReadOnlyTransaction => "25006",
                DatabaseErrorKind::ClosedConnection | DatabaseErrorKind::UnableToSendCommand => NO_ANSWER,
                _ => "",
            };
            (state, said.message().to_owned())
        }
        _ => ("", String::new()),
    };
    store.refused(operation, state, &said).caused_by(error)
}
