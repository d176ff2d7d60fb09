//! The consumer's side: remembers which events were accepted, in the transaction of their effect, through sqlx.

use postroom_core::{Acceptance, Inbox, StoreError};

use crate::store::PostgresStore;
use crate::tx::PostgresTransaction;

impl<T: PostgresTransaction> Inbox<T> for PostgresStore {
    async fn accept(&self, tx: &mut T, consumer: &str, id: &str) -> Result<Acceptance, StoreError> {
        let mut statement = self.statement_accept(consumer, id)?;
        Ok(Self::accepted(self.execute(tx.connection(), &mut statement, "accept").await?))
    }
}

impl PostgresStore {
    /// Returns the result of an accept from the number of affected rows.
    pub fn accepted(rows: u64) -> Acceptance {
        if rows == 1 { Acceptance::New } else { Acceptance::Duplicate }
    }
}
