//! A consumers' table that is there already: accepts in the caller's own transaction. Makes and changes no table.

use std::sync::Arc;
use std::time::Duration;

use postroom_adopted::mapping::InboxTable;
use postroom_adopted::{Dialect, InboxTexts, ROWS_AT_ONCE};
use postroom_core::{Acceptance, Inbox, StoreError};
use sqlx::{AssertSqlSafe, PgPool};

use super::catalogue;
use crate::error::Fault;
use crate::store::PostgresStore;
use crate::tx::PostgresTransaction;

/// Inbox in a table of the application: `event_inbox`, `processed_events`, or any other.
#[derive(Debug, Clone)]
pub struct PostgresInbox {
    texts: InboxTexts,
}

impl PostgresInbox {
    /// Opens the inbox and checks its table once: the error names a missing column or unique constraint.
    pub async fn open(pool: &PgPool, table: &InboxTable) -> Result<Self, StoreError> {
        let found = catalogue::read(pool, &table.table).await?;
        Ok(Self { texts: InboxTexts::new(Dialect::Postgres, table, &found)? })
    }

    /// Deletes acceptances older than `keep` by the database's clock, a thousand rows at a time, and returns their number.
    ///
    /// Keep longer than an event can still come: retries, redeliveries of the broker, and replays.
    pub async fn prune(&self, pool: &PgPool, keep: Duration) -> Result<u64, StoreError> {
        let (text, keep) = self.texts.prune(keep)?;
        let mut gone = 0;
        loop {
            let query = sqlx::query(AssertSqlSafe(Arc::clone(text))).bind(&keep).execute(pool);
            let turn = query.await.map_err(|error| self.failed(error, "prune"))?.rows_affected();
            gone += turn;
            if turn < ROWS_AT_ONCE {
                return Ok(gone);
            }
        }
    }

    fn failed(&self, error: sqlx::Error, operation: &'static str) -> StoreError {
        Fault::from(error).at(operation, &self.texts.table())
    }
}

impl<T: PostgresTransaction> Inbox<T> for PostgresInbox {
    async fn accept(&self, tx: &mut T, consumer: &str, id: &str) -> Result<Acceptance, StoreError> {
        self.texts.check(consumer, id)?;
        let query = sqlx::query(AssertSqlSafe(Arc::clone(&self.texts.accept))).bind(consumer).bind(id);
        let done = query.execute(tx.connection()).await.map_err(|error| self.failed(error, "accept"))?;
        Ok(PostgresStore::accepted(done.rows_affected()))
    }
}
