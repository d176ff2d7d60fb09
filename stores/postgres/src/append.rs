//! The producer's side: appends in the caller's own transaction, through sqlx.
//!
//! What is executed and what is checked before is `statement`'s.

use std::sync::Arc;

use postroom_core::{Appended, Outbox, StoreError, ToEvent};
use sqlx::PgConnection;

use crate::error::Fault;
use crate::statement::{Statement, Value};
use crate::store::PostgresStore;
use crate::tx::PostgresTransaction;

impl<T: PostgresTransaction> Outbox<T> for PostgresStore {
    async fn append<E: ToEvent + Sync>(&self, tx: &mut T, event: &E) -> Result<Appended, StoreError> {
        self.append_by(tx, self.statement(event)?).await
    }

    async fn append_many<E: ToEvent + Sync>(&self, tx: &mut T, events: &[E]) -> Result<Appended, StoreError> {
        self.append_by(tx, self.statement_many(events)?).await
    }

    async fn append_once<E: ToEvent + Sync>(
        &self,
        tx: &mut T,
        idempotency_key: &str,
        event: &E,
    ) -> Result<Appended, StoreError> {
        self.append_by(tx, self.statement_once(idempotency_key, event)?).await
    }
}

impl PostgresStore {
    async fn append_by(
        &self,
        tx: &mut impl PostgresTransaction,
        mut statement: Statement,
    ) -> Result<Appended, StoreError> {
        if statement.ids.is_empty() {
            return Ok(self.appended(statement, 0));
        }
        let rows = self.execute(tx.connection(), &mut statement, "append").await?;
        let appended = self.appended(statement, rows);
        if !appended.ids().is_empty() {
            tx.set_appended();
        }
        Ok(appended)
    }

    /// Executes a statement with its values, which are gone afterwards; gives back the number of rows.
    pub(crate) async fn execute(
        &self,
        tx: &mut PgConnection,
        statement: &mut Statement,
        operation: &'static str,
    ) -> Result<u64, StoreError> {
        let query = self.inner.db.sql.query_made(Arc::clone(&statement.sql));
        let query = statement.values.drain(..).fold(query, |query, value| match value {
            Value::Text(value) => query.bind(value),
            Value::Int(value) => query.bind(value),
            Value::Bytes(value) => query.bind(value),
            Value::Texts(value) => query.bind(value),
            Value::Ints(value) => query.bind(value),
            Value::ByteStrings(value) => query.bind(value),
        });
        let done = query.execute(tx).await.map_err(|e| Fault::from(e).at(operation, &self.inner.db.place))?;
        Ok(done.rows_affected())
    }
}
