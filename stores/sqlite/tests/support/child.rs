//! A process of its own on a file that others use too; run by `processes.rs`.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout, reason = "a helper of tests")]

use std::sync::Arc;
use std::time::Duration;

use postroom_core::{
    Budget, Delivery, Event, Outbox, Receipt, RelayIdentity, RouteHealth, RouteSpec, Settlement, Source, StartFrom,
    Store, Verdict,
};
use postroom_sqlite::SqliteStore;

const PROCESSES: u32 = 8;
const EVENTS: u32 = 40;
const HOUR: Duration = Duration::from_hours(1);

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let [role, file, name] = std::env::args().skip(1).collect::<Vec<_>>().try_into().unwrap();
    let store = SqliteStore::create(file).await.unwrap();
    match role.as_str() {
        "appends-and-delivers" => appends_and_delivers(store, name).await,
        "takes-and-hangs" => takes_and_hangs(store, name).await,
        other => panic!("no role {other}"),
    }
}

async fn appends_and_delivers(store: SqliteStore, name: String) {
    let source = open(&store, &name, Duration::from_secs(30)).await;
    let producer = {
        let store = store.clone();
        tokio::spawn(async move {
            for n in 1..=EVENTS {
                let mut tx = store.begin().await.unwrap();
                let event = Event::new("t").key(&name).id(format!("{name}-{n}"));
                let _ = store.append(&mut tx, &event).await.unwrap();
                tx.commit().await.unwrap();
            }
        })
    };
    let all = i64::from(PROCESSES * EVENTS);
    while number(&store, "select delivered from postroom_checkpoint").await < all {
        source.renew(&RouteHealth::running()).await.unwrap();
        let taken = take(&source).await;
        if taken.is_empty() {
            // The pause between two looks of a relay.
            tokio::time::sleep(Duration::from_millis(10)).await;
            continue;
        }
        let mut tx = store.begin().await.unwrap();
        for delivery in &taken {
            sqlx::query("insert into sent (id) values (?1)").bind(&delivery.event.id).execute(&mut *tx).await.unwrap();
        }
        tx.commit().await.unwrap();
        source.settle(&taken.iter().map(delivered).collect::<Vec<_>>()).await.unwrap();
    }
    producer.await.unwrap();
    source.release().await.unwrap();
}

async fn takes_and_hangs(store: SqliteStore, boot: String) {
    let source = open(&store, &boot, HOUR).await;
    println!("taken {}", take(&source).await.len());
    std::future::pending::<()>().await;
}

async fn number(store: &SqliteStore, sql: &'static str) -> i64 {
    sqlx::query_scalar(sql).fetch_one(store.pool()).await.unwrap()
}

async fn open(store: &SqliteStore, boot: &str, lease: Duration) -> Arc<dyn Source> {
    let relay = RelayIdentity { name: "relay".into(), boot: boot.into(), version: "0".into(), lease };
    store.source(&relay, &RouteSpec::new("r").start_from(StartFrom::Beginning)).await.unwrap()
}

async fn take(source: &Arc<dyn Source>) -> Vec<Delivery> {
    source.take(Budget { rows: 1_000, bytes: 64 * 1024 * 1024 }).await.unwrap().deliveries
}

fn delivered(delivery: &Delivery) -> Settlement {
    let verdict = Verdict::Delivered(Receipt::default());
    Settlement { handle: delivery.handle, lane: delivery.lane, verdict, took: Duration::ZERO }
}
