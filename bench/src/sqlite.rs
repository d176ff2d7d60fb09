//! The SQLite store: what an append adds to a business transaction, and how fast a relay drains.

use std::time::{Duration, Instant};

use postroom_admin::ManagedStore as _;
use postroom_core::{Event, JSON, Outbox};
use postroom_relay::{Noop, Relay, RelayOptions, Route};
use postroom_sqlite::SqliteStore;
use sqlx::Row;

/// Runs all SQLite benchmarks.
pub(crate) fn run() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(append());
    runtime.block_on(drain());
}

/// The business transaction with and without its event, in turn.
async fn append() {
    let folder = tempfile::tempdir().unwrap();
    let store = SqliteStore::create(folder.path().join("shop.db").to_str().unwrap()).await.unwrap();
    sqlx::query("create table orders (id integer primary key, customer text, total integer, state text)")
        .execute(store.pool())
        .await
        .unwrap();
    let event = event(7);
    let mut ratios = Vec::new();
    let mut rates = [0.0; 2];
    for _ in 0..15 {
        for (n, with_event) in [false, true].into_iter().enumerate() {
            let start = Instant::now();
            for order in 0..200 {
                let mut tx = store.begin().await.unwrap();
                sqlx::query("insert into orders (customer, total, state) values (?, ?, 'placed')")
                    .bind(format!("customer-{order}"))
                    .bind(order)
                    .execute(&mut *tx)
                    .await
                    .unwrap();
                if with_event {
                    let _ = Outbox::append(&store, &mut tx, &event).await.unwrap();
                }
                tx.commit().await.unwrap();
            }
            rates[n] = 200.0 / start.elapsed().as_secs_f64();
        }
        ratios.push(rates[1] / rates[0]);
    }
    println!(
        "sqlite, business transaction with its event: {:.2} of the bare one, {:.0}/s against {:.0}/s (target ≥ 0.60)",
        median(&mut ratios),
        rates[1],
        rates[0]
    );
}

/// A relay to nowhere against a plain `select` of the same rows with the same driver.
async fn drain() {
    let count = 300_000;
    let folder = tempfile::tempdir().unwrap();
    let store = SqliteStore::create(folder.path().join("shop.db").to_str().unwrap()).await.unwrap();
    let admin = store.admin();
    for batch in 0..count / 10_000 {
        let events: Vec<Event> = (0..10_000).map(|n| event(batch * 10_000 + n)).collect();
        admin.append(&events).await.unwrap();
    }
    for in_flight_max in [512, 16_384] {
        let mut ratios = Vec::new();
        let mut rates = (0.0, 0.0);
        for round in 0..5 {
            let plain = select(&store, count).await;
            let route = Route::named(format!("drain-{in_flight_max}-{round}")).from_beginning().to(Noop);
            let options = RelayOptions::default().drain(true).retention(None).in_flight_max(in_flight_max);
            let start = Instant::now();
            Relay::new(store.clone()).options(options).route(route).run(std::future::pending()).await.unwrap();
            rates = (f64::from(count) / start.elapsed().as_secs_f64(), f64::from(count) / plain.as_secs_f64());
            ratios.push(rates.0 / rates.1);
        }
        println!(
            "sqlite, drain to noop, in_flight_max = {in_flight_max}: {:.2} of a plain select, {:.0}/s against {:.0}/s (target ≥ 0.30)",
            median(&mut ratios),
            rates.0,
            rates.1
        );
    }
}

async fn select(store: &SqliteStore, count: i32) -> Duration {
    use futures_util::TryStreamExt;
    let start = Instant::now();
    let mut rows = sqlx::query("select * from postroom_log order by seq").fetch(store.pool());
    let (mut seen, mut bytes) = (0, 0);
    while let Some(row) = rows.try_next().await.unwrap() {
        seen += 1;
        bytes += row.get::<Vec<u8>, _>("payload").len() + row.get::<String, _>("id").len();
        bytes += row.get::<String, _>("type").len() + row.get::<Option<String>, _>("key").map_or(0, |k| k.len());
    }
    assert!(seen == count && bytes > 0);
    start.elapsed()
}

pub(crate) fn event(n: i32) -> Event {
    let payload = format!("{{\"x\":\"{}\"}}", "p".repeat(292));
    Event::new("order.placed").key(format!("order-{}", n % 10_000)).bytes(JSON, payload)
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
