//! In a transaction of SeaORM.
//!
//! ```no_run
//! # async fn shop(store: &postroom_postgres::PostgresStore, database: &sea_orm::DatabaseConnection) -> Result<(), Box<dyn std::error::Error>> {
//! use postroom_core::Event;
//! use postroom_clients::sea_orm as outbox;
//! use sea_orm::{ConnectionTrait, TransactionTrait};
//!
//! let tx = database.begin().await?;
//! tx.execute_unprepared("update orders set paid = true where id = 7").await?;
//! let appended = outbox::append(store, &tx, &Event::new("order.paid").key("order-7")).await?;
//! tx.commit().await?;
//! appended.wake();
//! # Ok(()) }
//! ```
//!
//! A future of `database.begin()` must not be dropped half-way (in a `select!`, by a timeout): sqlx 0.9.0 below it can then
//! lose a later write of the pool. Begin in a task of its own where that may happen.

use std::borrow::Cow;

use postroom_core::{Acceptance, Appended, StoreError, ToEvent};
use sea_orm::sea_query::{ArrayType, Value as SeaValue};
use sea_orm::{ConnectionTrait, DatabaseTransaction, DbBackend, DbErr, RuntimeErr};

use postroom_postgres::{PostgresStore, Statement, Value};

use crate::NO_ANSWER;

/// Appends one event.
pub async fn append<E: ToEvent + Sync>(
    store: &PostgresStore,
    tx: &DatabaseTransaction,
    event: &E,
) -> Result<Appended, StoreError> {
    append_by(store, tx, store.statement(event)?).await
}

/// Appends several in order; all or none.
pub async fn append_many<E: ToEvent + Sync>(
    store: &PostgresStore,
    tx: &DatabaseTransaction,
    events: &[E],
) -> Result<Appended, StoreError> {
    append_by(store, tx, store.statement_many(events)?).await
}

/// Appends unless an earlier committed call used the same idempotency key.
pub async fn append_once<E: ToEvent + Sync>(
    store: &PostgresStore,
    tx: &DatabaseTransaction,
    idempotency_key: &str,
    event: &E,
) -> Result<Appended, StoreError> {
    append_by(store, tx, store.statement_once(idempotency_key, event)?).await
}

/// Accepts the event for the consumer, in the transaction of its effect.
pub async fn accept(
    store: &PostgresStore,
    tx: &DatabaseTransaction,
    consumer: &str,
    id: &str,
) -> Result<Acceptance, StoreError> {
    let mut statement = store.statement_accept(consumer, id)?;
    let rows = execute(tx, &mut statement).await;
    rows.map(PostgresStore::accepted).map_err(|error| failed(store, "accept", error))
}

async fn append_by(
    store: &PostgresStore,
    tx: &DatabaseTransaction,
    mut statement: Statement,
) -> Result<Appended, StoreError> {
    let rows = execute(tx, &mut statement).await.map_err(|error| failed(store, "append", error))?;
    Ok(store.appended(statement, rows))
}

async fn execute(tx: &DatabaseTransaction, statement: &mut Statement) -> Result<u64, DbErr> {
    let values = statement.values.drain(..).map(bound);
    let statement = sea_orm::Statement::from_sql_and_values(DbBackend::Postgres, &*statement.sql, values);
    Ok(tx.execute_raw(statement).await?.rows_affected())
}

fn bound(value: Value) -> SeaValue {
    let array = |of, values: Vec<SeaValue>| SeaValue::Array(of, Some(Box::new(values)));
    match value {
        Value::Text(value) => value.into(),
        Value::Int(value) => value.into(),
        Value::Bytes(value) => value.into(),
        Value::Texts(value) => literal(&value).into(),
        Value::Ints(value) => array(ArrayType::Int, value.into_iter().map(Into::into).collect()),
        Value::ByteStrings(value) => array(ArrayType::Bytes, value.into_iter().map(Into::into).collect()),
    }
}

/// The array as PostgreSQL writes it: SeaORM panics on an array with a null in it, and a text can be cast to one.
fn literal(values: &[Option<String>]) -> String {
    let quoted = values.iter().map(|value| match value {
        Some(value) => format!("\"{}\"", value.replace('\\', "\\\\").replace('"', "\\\"")),
        None => "null".to_owned(),
    });
    format!("{{{}}}", quoted.collect::<Vec<_>>().join(","))
}

fn failed(store: &PostgresStore, operation: &'static str, error: DbErr) -> StoreError {
    let (state, said) = match &error {
        DbErr::Exec(RuntimeErr::SqlxError(error)) | DbErr::Query(RuntimeErr::SqlxError(error)) => {
            let told = error.as_database_error();
            let said = told.map_or_else(|| error.to_string(), |told| told.message().to_owned());
            (told.and_then(sea_orm::sqlx::error::DatabaseError::code).map(Cow::into_owned), said)
        }
        _ => (None, error.to_string()),
    };
    store.refused(operation, state.as_deref().unwrap_or(NO_ANSWER), &said).caused_by(error)
}
