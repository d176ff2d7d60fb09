//! How fast one relay reads the log, against `COPY` of the same rows; and while others hold it up.

use std::time::{Duration, Instant};

use futures_util::TryStreamExt;
use postroom_postgres::PostgresStore;
use postroom_relay::{Noop, Relay, RelayOptions, Route};
use sqlx::postgres::PgPoolCopyExt;
use sqlx::{Connection, Executor, PgConnection, PgPool};

use super::{Server, median};

const EVENTS: i32 = 1_000_000;

pub(crate) async fn run(server: &Server) {
    let (store, pool) = server.store("drain").await;
    fill(&pool, EVENTS).await;
    for in_flight_max in [16_384, 512] {
        let (mut ratios, mut cpus, mut wals, mut rates) = (Vec::new(), Vec::new(), Vec::new(), (0.0, 0.0));
        for round in 0..3 {
            let copied = copy(&pool).await;
            let before = server.spent(&pool).await;
            let took = drain(&store, &format!("r-{in_flight_max}-{round}"), in_flight_max).await;
            let (cpu, wal) = server.spent(&pool).await.per(before, f64::from(EVENTS));
            rates = (f64::from(EVENTS) / took.as_secs_f64(), f64::from(EVENTS) / copied.as_secs_f64());
            ratios.push(rates.0 / rates.1);
            cpus.push(cpu);
            wals.push(wal);
        }
        println!(
            "postgres, drain to noop, in_flight_max = {in_flight_max}: {:.2} of COPY, {:.0}/s against {:.0}/s, server {:.2} µs and {:.0} B of WAL an event (targets ≥ 0.50, ≤ 2.5 µs, ≤ 30 B)",
            median(&mut ratios),
            rates.0,
            rates.1,
            median(&mut cpus),
            median(&mut wals)
        );
    }
    held_up(server, &store, &pool).await;
}

/// The plain drain against one while a transaction pins the horizon, and one of a log with rollbacks in it while a writer
/// is idle in another database.
async fn held_up(server: &Server, store: &PostgresStore, pool: &PgPool) {
    let (other, other_pool) = server.store("rollbacks").await;
    fill_with_rollbacks(&other_pool, EVENTS).await;
    let (mut pinned, mut rolled_back) = (Vec::new(), Vec::new());
    for round in 0..3 {
        let plain = drain(store, &format!("plain-{round}"), 16_384).await.as_secs_f64();
        let mut reader = pool.acquire().await.unwrap();
        reader.execute("begin isolation level repeatable read; select count(*) from postroom.route").await.unwrap();
        pinned.push(plain / drain(store, &format!("pinned-{round}"), 16_384).await.as_secs_f64());
        reader.execute("rollback").await.unwrap();
        let mut writer = PgConnection::connect(&server.url("postgres")).await.unwrap();
        writer.execute("begin; select pg_current_xact_id()").await.unwrap();
        rolled_back.push(plain / drain(&other, &format!("r-{round}"), 16_384).await.as_secs_f64());
        writer.execute("rollback").await.unwrap();
    }
    for (what, mut ratios) in [
        ("a transaction that pins the horizon", pinned),
        ("30 % rollbacks and a writer idle in another database", rolled_back),
    ] {
        let middle = median(&mut ratios);
        println!(
            "postgres, drain with {what}: {middle:.2} of the plain one, {:.2} to {:.2} over the rounds (target ≥ 0.90)",
            ratios[0],
            ratios[ratios.len() - 1]
        );
    }
}

/// Appends this many events of 300 B, spread over 10,000 keys, through the library's own statement.
pub(crate) async fn fill(pool: &PgPool, events: i32) {
    let mut connection = pool.acquire().await.unwrap();
    for from in (0..events).step_by(50_000) {
        append(&mut connection, from, 50_000.min(events - from)).await;
    }
    connection.execute("vacuum analyze postroom.log").await.unwrap();
}

/// The same in small batches, of which three of ten are rolled back; this many events stay.
async fn fill_with_rollbacks(pool: &PgPool, events: i32) {
    let mut connection = pool.acquire().await.unwrap();
    let (mut from, mut batches) = (0, 0);
    while from < events {
        let mut tx = connection.begin().await.unwrap();
        append(&mut tx, from, 1_000).await;
        if batches % 10 < 3 {
            tx.rollback().await.unwrap();
        } else {
            tx.commit().await.unwrap();
            from += 1_000;
        }
        batches += 1;
    }
    connection.execute("vacuum analyze postroom.log").await.unwrap();
}

async fn append(connection: &mut PgConnection, from: i32, events: i32) {
    let text = "with s as materialized (select pg_current_xact_id()::text::int8 as x) \
         insert into postroom.log (partition, lane, tx, seq, occurred_at, id, type, key, payload) \
         select extract(epoch from clock_timestamp())::int8 / 86400 % 10, \
           (hashtextextended('order-' || g % 10000, 0) & 9223372036854775807) % 16, s.x, nextval('postroom.log_seq'), \
           clock_timestamp(), postroom.uuid7(), 'order.placed', 'order-' || g % 10000, convert_to('{\"x\":\"' || repeat('p', 292) || '\"}', 'UTF8') \
         from s, generate_series($1, $1 + $2 - 1) g";
    sqlx::query(text).bind(from).bind(events).execute(connection).await.unwrap();
}

async fn copy(pool: &PgPool) -> Duration {
    let start = Instant::now();
    let mut stream = pool
        .copy_out_raw(
            "copy (select seq, tx, lane, id, type, key, occurred_at, appended_at, payload from postroom.log) to stdout (format binary)",
        )
        .await
        .unwrap();
    let mut bytes = 0;
    while let Some(chunk) = stream.try_next().await.unwrap() {
        bytes += chunk.len();
    }
    assert!(bytes > 300 * EVENTS as usize);
    start.elapsed()
}

async fn drain(store: &PostgresStore, route: &str, in_flight_max: usize) -> Duration {
    let route = Route::named(route).from_beginning().to(Noop);
    let options = RelayOptions::default().drain(true).retention(None).in_flight_max(in_flight_max);
    let start = Instant::now();
    Relay::new(store.clone()).options(options).route(route).run(std::future::pending()).await.unwrap();
    start.elapsed()
}
