//! Transactions that stay open while events are delivered: their locks are the claims of rows in an adopted table.

use std::sync::Arc;
use std::time::Duration;

use postroom_core::StoreError;
use postroom_core::faults::{self, Fault as Old};
use sqlx::{AssertSqlSafe, Executor as _};

use super::{DEADLINE, Database, Session, SessionFuture, acquire, ended, joined};
use crate::error::Fault;

impl Database {
    /// Runs the work in a transaction that stays open, in the session that comes back: as long as it is not idle for longer
    /// than that.
    pub(crate) async fn hold<T, F>(
        &self,
        operation: &'static str,
        idle_max: Duration,
        work: F,
    ) -> Result<(T, Session), StoreError>
    where
        T: Send + 'static,
        F: for<'c> FnOnce(&'c mut Session) -> SessionFuture<'c, T> + Send + 'static,
    {
        let (pool, sql) = (Arc::clone(&self.workers), Arc::clone(&self.sql));
        let task = tokio::spawn(async move {
            let mut session = Session { conn: acquire(&pool, None).await?, sql };
            let work = async {
                session.conn.execute(AssertSqlSafe(begin_held(idle_max))).await?;
                work(&mut session).await
            };
            let result = tokio::time::timeout(DEADLINE, work).await.unwrap_or(Err(Fault::TimedOut))?;
            Ok((result, session))
        });
        let result = joined(task.await, operation)?;
        if result.as_ref().is_err_and(Fault::may_have_moved) {
            self.lost();
        }
        self.explained(operation, result)
    }

    /// Goes on in a transaction that was held open, and holds it.
    pub(crate) async fn go_on<T, F>(
        mut session: Session,
        operation: &'static str,
        work: F,
    ) -> Result<(T, Session), Fault>
    where
        T: Send + 'static,
        F: for<'c> FnOnce(&'c mut Session) -> SessionFuture<'c, T> + Send + 'static,
    {
        let task = tokio::spawn(async move {
            let result = tokio::time::timeout(DEADLINE, work(&mut session)).await.unwrap_or(Err(Fault::TimedOut))?;
            Ok((result, session))
        });
        joined(task.await, operation)?
    }

    /// Ends a transaction that was held open: runs the work in it and commits.
    pub(crate) async fn finish<T, F>(mut session: Session, operation: &'static str, work: F) -> Result<T, Fault>
    where
        T: Send + 'static,
        F: for<'c> FnOnce(&'c mut Session) -> SessionFuture<'c, T> + Send + 'static,
    {
        let task = tokio::spawn(async move {
            let result = tokio::time::timeout(DEADLINE, ended(&mut session, work)).await;
            let result = result.unwrap_or(Err(Fault::TimedOut));
            if matches!(&result, Ok(_) | Err(Fault::Store(_))) {
                session.conn.give_back();
            }
            result
        });
        joined(task.await, operation)?
    }
}

/// How a transaction begins that is held while events are delivered. The server ends one that is idle for longer than
/// `idle_max`, or whose other end does not answer for so long: its holder stands still, or its host is gone without a word.
/// All of it in the transaction, because behind a pooler the session is somebody else's afterwards.
fn begin_held(idle_max: Duration) -> String {
    let idle_max = if faults::is(Old::RowsAreHeldForEver) { Duration::from_hours(1) } else { idle_max };
    let (millis, seconds) = (idle_max.as_millis().max(1), (idle_max.as_secs() / 4).max(1));
    format!(
        "begin isolation level read committed; set local jit = off; set local enable_seqscan = off; \
         set local statement_timeout = '19s'; set local lock_timeout = '10s'; \
         set local idle_in_transaction_session_timeout = {millis}; set local tcp_user_timeout = {millis}; \
         set local tcp_keepalives_idle = {seconds}; set local tcp_keepalives_interval = {seconds}; \
         set local tcp_keepalives_count = 3"
    )
}
