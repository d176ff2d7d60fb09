//! Writes of this process, one transaction at a time; what has queued up meanwhile commits together.
//!
//! Each piece of work is all or nothing by itself (a savepoint), and its caller hears of it after the commit. The work
//! runs in a task of its own, so that a caller who stops waiting cannot leave a transaction half done.

use std::sync::{Arc, Mutex, PoisonError};

use postroom_core::{StoreError, StoreErrorKind};
use sqlx::{Connection, SqliteConnection, SqlitePool};
use tokio::sync::oneshot;

use crate::error::{Fault, is_busy};
use crate::gate::Gated;
use crate::work::{AnyResult, ConnectionTask};

/// How often a `begin` that found the file locked for the whole busy time-out is tried in all. `error` tells people how
/// long that is.
const BEGIN_TRIES: u32 = 3;
/// Most pieces of work in one transaction.
const TOGETHER_MAX: usize = 64;

/// The process's one writer.
#[derive(Debug)]
pub(crate) struct Writer {
    pool: SqlitePool,
    path: String,
    queue: Mutex<Queue>,
    gate: Gated,
}

#[derive(Default)]
struct Queue {
    jobs: Vec<Job>,
    // Whether a task is at work; it looks at the queue again before it ends.
    busy: bool,
}

impl std::fmt::Debug for Queue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Queue({})", self.jobs.len())
    }
}

impl Writer {
    /// A writer over a pool of one connection.
    pub(crate) fn new(pool: SqlitePool, path: String, gate: Gated) -> Self {
        Self { pool, path, queue: Mutex::default(), gate }
    }

    /// Runs the work in a `begin immediate` transaction and returns after its commit.
    pub(crate) async fn write(
        self: &Arc<Self>,
        operation: &'static str,
        work: ConnectionTask,
    ) -> Result<AnyResult, StoreError> {
        let (answer, answered) = oneshot::channel();
        let job = Job { operation, work: Some(work), result: None, answer };
        let start = {
            let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
            queue.jobs.push(job);
            !std::mem::replace(&mut queue.busy, true)
        };
        if start {
            tokio::spawn(Arc::clone(self).drain());
        }
        answered.await.unwrap_or_else(|_| {
            Err(StoreError::new(StoreErrorKind::CommitUnknown, operation, format!("{operation} was cut off"))
                .hint("the program is stopping"))
        })
    }

    async fn drain(self: Arc<Self>) {
        let mut guard = Busy { writer: &self, armed: true };
        loop {
            let jobs = {
                let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
                if queue.jobs.is_empty() {
                    queue.busy = false;
                    guard.armed = false;
                    return;
                }
                let many = queue.jobs.len().min(TOGETHER_MAX);
                queue.jobs.drain(..many).collect::<Vec<_>>()
            };
            self.commit_together(jobs).await;
        }
    }

    async fn commit_together(&self, mut jobs: Vec<Job>) {
        let failure = self.run(&mut jobs).await.err().map(|error| Fault::from(error).at("commit", &self.path));
        for job in jobs {
            job.finish(failure.as_ref().map(shared));
        }
    }

    async fn run(&self, jobs: &mut [Job]) -> Result<(), sqlx::Error> {
        let first = jobs.first().map_or("", |job| job.operation);
        let passage = self.gate.pass("begin", first).await?;
        let mut conn = self.pool.acquire().await?;
        let outcome = self.transact(&mut conn, jobs, passage).await;
        if outcome.is_err() {
            // SQLite ends a transaction by itself when the disk is full, and sqlx does not know; start with a clean one.
            let _ = conn.close().await;
        }
        outcome
    }

    async fn transact<P>(&self, conn: &mut SqliteConnection, jobs: &mut [Job], begun: P) -> Result<(), sqlx::Error> {
        let first = jobs.first().map_or("", |job| job.operation);
        let mut tries = 1;
        let mut tx = loop {
            match conn.begin_with("begin immediate").await {
                Ok(tx) => break tx,
                Err(error) if tries < BEGIN_TRIES && is_busy(&error) => tries += 1,
                Err(error) => return Err(error),
            }
        };
        if let [job] = jobs {
            if !job.run(&mut tx, &self.path).await {
                return tx.rollback().await;
            }
        } else {
            for job in jobs {
                let mut own = tx.begin().await?;
                if job.run(&mut own, &self.path).await {
                    own.commit().await?;
                } else {
                    own.rollback().await?;
                }
            }
        }
        drop(begun);
        {
            let _passage = self.gate.pass("commit", first).await?;
            tx.commit().await?;
        }
        self.gate.pass("committed", first).await.map(drop)
    }
}

/// What one failed commit means to each of its callers.
fn shared(failure: &StoreError) -> StoreError {
    let error = StoreError::new(failure.kind, failure.operation, failure.message.clone()).hint(failure.hint.clone());
    match std::error::Error::source(failure) {
        Some(cause) => error.caused_by(cause.to_string()),
        None => error,
    }
}

/// Lets the next write start a new task when this one ended by a panic.
struct Busy<'w> {
    writer: &'w Writer,
    armed: bool,
}

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        if self.armed {
            self.writer.queue.lock().unwrap_or_else(PoisonError::into_inner).busy = false;
        }
    }
}

/// A piece of work and the caller who waits for it.
struct Job {
    operation: &'static str,
    work: Option<ConnectionTask>,
    result: Option<Result<AnyResult, StoreError>>,
    answer: oneshot::Sender<Result<AnyResult, StoreError>>,
}

impl Job {
    /// Does it; says whether to keep what it did.
    async fn run(&mut self, conn: &mut SqliteConnection, path: &str) -> bool {
        let Some(work) = self.work.take() else { return false };
        let result = work(conn).await.map_err(|fault| fault.at(self.operation, path));
        let keep = result.is_ok();
        self.result = Some(result);
        keep
    }

    /// Tells the caller, after the commit or its failure.
    fn finish(self, failure: Option<StoreError>) {
        let result = match (self.result, failure) {
            (Some(Err(own)), _) => Err(own),
            (_, Some(failure)) => Err(failure),
            (Some(Ok(found)), None) => Ok(found),
            (None, None) => Err(StoreError::new(StoreErrorKind::Other, self.operation, "the work was not done")),
        };
        // Nobody waits any more: the work is done all the same.
        let _ = self.answer.send(result);
    }
}

#[cfg(test)]
mod tests {
    use sqlx::sqlite::{SqliteConnectOptions, SqlitePoolOptions};

    use super::*;
    use crate::work::any;

    async fn writer(folder: &tempfile::TempDir) -> Arc<Writer> {
        let connect = SqliteConnectOptions::new()
            .filename(folder.path().join("w.db"))
            .create_if_missing(true)
            .pragma("max_page_count", "20");
        let pool = SqlitePoolOptions::new().max_connections(1).connect_lazy_with(connect);
        sqlx::query("create table t (n blob)").execute(&pool).await.unwrap();
        Arc::new(Writer::new(pool, "w.db".to_owned(), Gated::default()))
    }

    async fn insert(writer: &Arc<Writer>, bytes: i64, fail: bool) -> Result<i64, StoreError> {
        let work = any(move |conn| {
            Box::pin(async move {
                sqlx::query("insert into t values (zeroblob(?1))").bind(bytes).execute(&mut *conn).await?;
                if fail {
                    return Err(StoreError::new(StoreErrorKind::Conflict, "insert", "changed my mind").into());
                }
                Ok(sqlx::query_scalar::<_, i64>("select count(*) from t").fetch_one(conn).await?)
            })
        });
        writer.write("insert", work).await?.known("insert")
    }

    #[tokio::test]
    async fn writes_that_meet_commit_together_and_a_failed_one_takes_no_other_with_it() {
        let folder = tempfile::tempdir().unwrap();
        let writer = writer(&folder).await;
        let (a, b, c) = tokio::join!(insert(&writer, 1, false), insert(&writer, 1, true), insert(&writer, 1, false));
        assert_eq!((a.unwrap(), b.unwrap_err().kind, c.unwrap()), (1, StoreErrorKind::Conflict, 2));
    }

    #[tokio::test]
    async fn after_a_full_disk_nobody_is_told_of_a_commit_that_was_not_and_the_writer_goes_on() {
        let folder = tempfile::tempdir().unwrap();
        let writer = writer(&folder).await;
        let large = 1_000_000;
        let (a, b) = tokio::join!(insert(&writer, 1, false), insert(&writer, large, false));
        assert_eq!(b.unwrap_err().kind, StoreErrorKind::StorageFull);
        let committed = i64::from(a.is_ok());
        assert_eq!(insert(&writer, large, false).await.unwrap_err().kind, StoreErrorKind::StorageFull);
        assert_eq!(insert(&writer, 1, false).await.unwrap(), committed + 1);
    }
}
