//! The consumer's side: remembers which events were accepted, in the transaction of their effect.

use postroom_core::{Acceptance, CONSUMER_BYTES_MAX, ID_BYTES_MAX, Inbox, StoreError, StoreErrorKind};

use crate::error::{Fault, is_busy, late_write_lock};
use crate::store::SqliteStore;
use crate::tx::SqliteTransaction;

impl<T: SqliteTransaction> Inbox<T> for SqliteStore {
    async fn accept(&self, tx: &mut T, consumer: &str, id: &str) -> Result<Acceptance, StoreError> {
        check("consumer", consumer, CONSUMER_BYTES_MAX)?;
        check("event id", id, ID_BYTES_MAX)?;
        let new = sqlx::query(include_str!("sql/accept.sql"))
            .bind(consumer)
            .bind(id)
            .bind(self.inner.now())
            .execute(tx.connection())
            .await
            .map_err(|error| {
                if is_busy(&error) {
                    late_write_lock("accept", error)
                } else {
                    Fault::from(error).at("accept", &self.inner.db.path)
                }
            })?
            .rows_affected();
        Ok(if new == 1 { Acceptance::New } else { Acceptance::Duplicate })
    }
}

fn check(what: &str, value: &str, limit: usize) -> Result<(), StoreError> {
    if value.is_empty() || value.len() > limit {
        let message = format!("the {what} is {} bytes, it must be 1 to {limit}", value.len());
        return Err(StoreError::new(StoreErrorKind::Invalid, "accept", message));
    }
    Ok(())
}
