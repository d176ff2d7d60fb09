//! The consumer's side: remembers which events were accepted, in the transaction of their effect, through sqlx.

use postroom_core::{Acceptance, Inbox, StoreError};
use sqlx::Transaction;

use crate::store::Postgres;

impl Inbox for Postgres {
    type Tx<'t> = Transaction<'t, sqlx::Postgres>;

    async fn accept(&self, tx: &mut Self::Tx<'_>, consumer: &str, id: &str) -> Result<Acceptance, StoreError> {
        let mut statement = self.statement_accept(consumer, id)?;
        Ok(accepted(self.execute(tx, &mut statement, "accept").await?))
    }
}

/// What the number of rows says.
pub(crate) fn accepted(rows: u64) -> Acceptance {
    if rows == 1 { Acceptance::New } else { Acceptance::Duplicate }
}
