//! A consumers' table that is there already: accepts in the caller's own transaction. Makes and changes no table.

use std::sync::Arc;
use std::time::Duration;

use postroom_adopted::layout::InboxTable;
use postroom_adopted::{Dialect, InboxTexts, ROWS_AT_ONCE};
use postroom_core::{Acceptance, Inbox, StoreError};
use sqlx::{AssertSqlSafe, PgPool, Transaction};

use super::catalogue;
use crate::error::Fault;
use crate::store::Postgres;

/// An inbox in a table of the application's: `event_inbox`, `processed_events`, or any other.
#[derive(Debug, Clone)]
pub struct PostgresInbox {
    texts: InboxTexts,
}

impl PostgresInbox {
    /// Looks at the table once: what is missing or would keep it from telling copies apart is an error that names it.
    pub async fn open(pool: &PgPool, table: &InboxTable) -> Result<Self, StoreError> {
        let found = catalogue::read(pool, &table.table).await?;
        Ok(Self { texts: InboxTexts::new(Dialect::Postgres, table, &found)? })
    }

    /// Deletes what was accepted longer ago than this by the database's clock, a thousand rows at a time; how many.
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

impl Inbox for PostgresInbox {
    type Tx<'t> = Transaction<'t, sqlx::Postgres>;

    async fn accept(&self, tx: &mut Self::Tx<'_>, consumer: &str, id: &str) -> Result<Acceptance, StoreError> {
        self.texts.check(consumer, id)?;
        let query = sqlx::query(AssertSqlSafe(Arc::clone(&self.texts.accept))).bind(consumer).bind(id);
        let done = query.execute(&mut **tx).await.map_err(|error| self.failed(error, "accept"))?;
        Ok(Postgres::accepted(done.rows_affected()))
    }
}
