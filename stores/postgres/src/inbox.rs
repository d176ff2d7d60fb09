//! The consumer's side: remembers which events were accepted, in the transaction of their effect, through sqlx.

use postroom_core::{Acceptance, Inbox, StoreError};
use sqlx::Transaction;

use crate::store::Postgres;

impl Inbox for Postgres {
    type Tx<'t> = Transaction<'t, sqlx::Postgres>;

    async fn accept(&self, tx: &mut Self::Tx<'_>, consumer: &str, id: &str) -> Result<Acceptance, StoreError> {
        let mut statement = self.statement_accept(consumer, id)?;
        Ok(Self::accepted(self.execute(tx, &mut statement, "accept").await?))
    }
}

impl Postgres {
    /// What an accept came to, by the number of rows that the client counted.
    pub fn accepted(rows: u64) -> Acceptance {
        if rows == 1 { Acceptance::New } else { Acceptance::Duplicate }
    }
}
