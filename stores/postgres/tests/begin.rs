//! A `begin` whose caller went away leaves no connection inside a transaction.
//!
//! sqlx 0.9.0 does: a future of `Pool::begin` that is dropped half-way gives its connection back with an open transaction,
//! and the next write through the pool reports success and is never committed. [`PostgresStore::begin`] begins in a task that
//! nobody drops.

#![allow(clippy::unwrap_used, reason = "what cannot be made or read fails the test")]

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::Duration;

use postroom_postgres::{PostgresOptions, PostgresStore};
use postroom_testbed::{Database, Servers};
use sqlx::{Connection, Executor, PgConnection};

/// How many futures are dropped.
const ROUNDS: i32 = 400;

/// Some way to begin a transaction; what it gives is dropped.
type Begin<'s> = Pin<Box<dyn Future<Output = ()> + Send + 's>>;

/// How many plain inserts others did not see, each after a `begin` that was dropped.
async fn lost_after(begin: impl for<'s> Fn(&'s PostgresStore) -> Begin<'s>) -> i32 {
    let database = Database::create(&Servers::find()).await;
    let store = PostgresStore::open_unmigrated(PostgresOptions::new("main", database.url())).await.unwrap();
    let mut other = PgConnection::connect(&database.url()).await.unwrap();
    other.execute("create table note (n int)").await.unwrap();
    let mut lost = 0;
    for round in 0..ROUNDS {
        let mut begun = pin!(begin(&store));
        if round % 2 == 0 {
            let once = poll_fn(|context| {
                let _ = begun.as_mut().poll(context);
                Poll::Ready(())
            });
            once.await;
        } else {
            let soon = Duration::from_micros(u64::from(round.unsigned_abs()) * 5);
            let _ = tokio::time::timeout(soon, begun.as_mut()).await;
        }
        begun.set(Box::pin(async {})); // dropped
        let written = sqlx::query("insert into note values ($1)").bind(round).execute(store.pool()).await.unwrap();
        assert_eq!(written.rows_affected(), 1);
        let seen: bool = sqlx::query_scalar("select exists (select from note where n = $1)")
            .bind(round)
            .fetch_one(&mut other)
            .await
            .unwrap();
        lost += i32::from(!seen);
    }
    lost
}

#[tokio::test]
async fn a_dropped_begin_of_ours_loses_no_later_write() {
    assert_eq!(lost_after(|store| Box::pin(async { drop(store.begin().await) })).await, 0);
}

/// The negative control: the same loop over sqlx's own `begin` finds the loss.
#[tokio::test]
#[expect(clippy::disallowed_methods, reason = "to show why it is")]
async fn a_dropped_begin_of_sqlx_loses_later_writes() {
    let lost = lost_after(|store| Box::pin(async { drop(store.pool().begin().await) })).await;
    assert!(
        lost > 0,
        "sqlx lost none of {ROUNDS} writes: if this is a release that fixes Pool::begin, the task in Database::begin, the \
         entry in clippy.toml and this file can go; if not, the loop above proves nothing any more"
    );
}
