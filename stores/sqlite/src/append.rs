//! The producer's side: appends in the caller's own transaction.

use postroom_core::{Appended, Event, Outbox, StoreError, StoreErrorKind, ToEvent};
use serde_json::json;
use sqlx::{Connection, SqliteConnection};

use crate::clock::micros;
use crate::error::{Fault, is_busy, late_write_lock};
use crate::store::SqliteStore;
use crate::tx::SqliteTransaction;

/// Longest word of `append_once`, in bytes.
const IDEMPOTENCY_KEY_BYTES_MAX: usize = 255;

impl<T: SqliteTransaction> Outbox<T> for SqliteStore {
    async fn append<E: ToEvent + Sync>(&self, tx: &mut T, event: &E) -> Result<Appended, StoreError> {
        let event = self.checked(event)?;
        self.insert(tx.connection(), &event).await?;
        Ok(self.appended(tx, vec![event.id]))
    }

    async fn append_many<E: ToEvent + Sync>(&self, tx: &mut T, events: &[E]) -> Result<Appended, StoreError> {
        let events = events.iter().map(|event| self.checked(event)).collect::<Result<Vec<_>, _>>()?;
        let mut all = tx.connection().begin().await.map_err(|e| self.failed(e))?;
        for event in &events {
            self.insert(&mut all, event).await?;
        }
        all.commit().await.map_err(|e| self.failed(e))?;
        Ok(self.appended(tx, events.into_iter().map(|event| event.id).collect()))
    }

    async fn append_once<E: ToEvent + Sync>(
        &self,
        tx: &mut T,
        idempotency_key: &str,
        event: &E,
    ) -> Result<Appended, StoreError> {
        if idempotency_key.is_empty() || idempotency_key.len() > IDEMPOTENCY_KEY_BYTES_MAX {
            let message = format!(
                "the idempotency key is {} bytes, it must be 1 to {IDEMPOTENCY_KEY_BYTES_MAX}",
                idempotency_key.len()
            );
            return Err(StoreError::new(StoreErrorKind::Invalid, "append", message)
                .hint("use the id of the request that must not be repeated"));
        }
        let event = self.checked(event)?;
        let mut both = tx.connection().begin().await.map_err(|e| self.failed(e))?;
        let new = sqlx::query(include_str!("sql/append_once.sql"))
            .bind(idempotency_key)
            .bind(self.inner.now())
            .execute(&mut *both)
            .await
            .map_err(|e| self.failed(e))?
            .rows_affected();
        if new == 1 {
            self.insert(&mut both, &event).await?;
        }
        both.commit().await.map_err(|e| self.failed(e))?;
        Ok(self.appended(tx, if new == 1 { vec![event.id] } else { Vec::new() }))
    }
}

impl SqliteStore {
    fn checked<E: ToEvent>(&self, event: &E) -> Result<Event, StoreError> {
        let event = event.to_event()?;
        self.inner.check(&event)?;
        Ok(event)
    }

    async fn insert(&self, conn: &mut SqliteConnection, event: &Event) -> Result<(), StoreError> {
        insert(conn, event, self.inner.now()).await.map_err(|e| self.failed(e))
    }

    fn appended(&self, tx: &mut impl SqliteTransaction, ids: Vec<String>) -> Appended {
        if !ids.is_empty() {
            tx.set_appended();
        }
        Appended::new(ids, self.inner.wake.clone())
    }

    fn failed(&self, error: sqlx::Error) -> StoreError {
        if is_busy(&error) {
            return late_write_lock("append", error);
        }
        Fault::from(error).at("append", &self.inner.db.path)
    }
}

/// Inserts a checked event.
pub(crate) async fn insert(conn: &mut SqliteConnection, event: &Event, now: i64) -> Result<(), sqlx::Error> {
    sqlx::query(include_str!("sql/append.sql"))
        .bind(&event.id)
        .bind(&event.event_type)
        .bind(&event.key)
        .bind(&event.aggregate_type)
        .bind(&event.aggregate_id)
        .bind(&event.tenant)
        .bind(&event.content_type)
        .bind(json!(event.headers).to_string())
        .bind(json!(event.attributes).to_string())
        .bind(&event.correlation_id)
        .bind(&event.causation_id)
        .bind(event.schema_version)
        .bind(micros(event.occurred_at))
        .bind(event.available_at.map(micros))
        .bind(now)
        .bind(&event.payload[..])
        .execute(conn)
        .await
        .map(drop)
}
