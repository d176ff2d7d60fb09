//! The consumer's side: remembers which events were accepted, in the transaction of their effect.

use postroom_core::{Acceptance, CONSUMER_BYTES_MAX, ID_BYTES_MAX, Inbox, StoreError, StoreErrorKind};
use sqlx::Transaction;

use crate::error::Fault;
use crate::store::Postgres;

impl Inbox for Postgres {
    type Tx<'t> = Transaction<'t, sqlx::Postgres>;

    async fn accept(&self, tx: &mut Self::Tx<'_>, consumer: &str, id: &str) -> Result<Acceptance, StoreError> {
        check("consumer", consumer, CONSUMER_BYTES_MAX)?;
        check("event id", id, ID_BYTES_MAX)?;
        let new = self
            .inner
            .db
            .sql
            .query(
                "insert into postroom.inbox (consumer, id, accepted_at) values ($1, $2, coalesce($3, clock_timestamp())) \
                 on conflict do nothing",
            )
            .bind(consumer.to_owned())
            .bind(id.to_owned())
            .bind(self.inner.clock())
            .execute(&mut **tx)
            .await
            .map_err(|error| Fault::from(error).at("accept", &self.inner.db.place))?
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
