//! A producer on SQLite with a business of its own: per-key counters that change in the same transaction as the event is appended.
//!
//! One transaction in ten rolls back. Its ledger says what committed and what did not; the numbers of a key have no gaps,
//! because the counter rolls back too.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use postroom::sqlite::{SqliteOptions, SqliteStore};
use postroom::{Event, Outbox};
use serde_json::json;
use sqlx::Row;

use crate::ledger::{Ledger, Written};

/// How many keys there are.
const KEYS: u32 = 20;

/// A producer at work in a thread of its own.
#[derive(Debug)]
pub struct Producer {
    stop: Arc<AtomicBool>,
    work: JoinHandle<Ledger>,
}

impl Producer {
    /// Starts producing into a migrated database, one transaction per `pace`.
    pub fn start(database: PathBuf, pace: Duration) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let work = thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(produce(database, pace, &stopped))
        });
        Self { stop, work }
    }

    /// Stops it; its ledger agrees with its business.
    pub fn stop(self) -> Ledger {
        self.stop.store(true, Ordering::Relaxed);
        self.work.join().unwrap()
    }
}

async fn produce(database: PathBuf, pace: Duration, stop: &AtomicBool) -> Ledger {
    let store = SqliteStore::open(SqliteOptions::new("main", database.to_str().unwrap())).await.unwrap();
    let mut tx = store.begin().await.unwrap();
    sqlx::query("create table counter (key text primary key, number integer not null)")
        .execute(&mut *tx)
        .await
        .unwrap();
    tx.commit().await.unwrap();
    let mut ledger = Ledger::default();
    let mut ticks = tokio::time::interval(pace);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    while !stop.load(Ordering::Relaxed) {
        ticks.tick().await;
        one(&store, &mut ledger).await;
    }
    let rows = sqlx::query("select key, number from counter").fetch_all(store.pool()).await.unwrap();
    ledger.agrees_with(rows.iter().map(|row| (row.get(0), row.get(1))));
    ledger
}

/// One transaction: the counter moves, the event is appended, both or neither.
async fn one(store: &SqliteStore, ledger: &mut Ledger) {
    let key = format!("account-{}", fastrand::u32(..KEYS));
    let mut tx = store.begin().await.unwrap();
    let count = "insert into counter (key, number) values (?1, 1) on conflict do update set number = number + 1 returning number";
    let row = sqlx::query(count).bind(&key).fetch_one(&mut *tx).await.unwrap();
    let number = row.get::<i64, _>(0).cast_unsigned();
    let event = Event::new("account.changed").key(&key).json(&json!({ "key": key, "number": number })).unwrap();
    let appended = store.append(&mut tx, &event).await.unwrap();
    if fastrand::u32(..10) == 0 {
        tx.rollback().await.unwrap();
        ledger.rolled_back.insert(event.id);
    } else {
        tx.commit().await.unwrap();
        ledger.committed.push(Written { id: event.id, key, number });
        appended.wake();
    }
}
