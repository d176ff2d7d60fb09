//! How fast one relay reads the log, against `COPY` of the same rows.

use std::time::{Duration, Instant};

use futures_util::TryStreamExt;
use postroom_core::{RouteDefinition, Start};
use postroom_postgres::Postgres;
use postroom_relay::{Noop, Relay, RelayOptions, RouteRun};
use sqlx::PgPool;
use sqlx::postgres::PgPoolCopyExt;

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
}

/// Appends events of 300 B, spread over 10,000 keys, through the function's own statement.
pub(crate) async fn fill(pool: &PgPool, events: i32) {
    for from in (0..events).step_by(50_000) {
        sqlx::query(
            "with s as materialized (select pg_current_xact_id()::text::int8 as x) \
             insert into postroom.log (seg, lane, tx, seq, occurred_at, id, type, key, payload) \
             select extract(epoch from clock_timestamp())::int8 / 86400 % 10, \
               (hashtextextended('order-' || g % 10000, 0) & 9223372036854775807) % 16, s.x, nextval('postroom.log_seq'), \
               clock_timestamp(), postroom.uuid7(), 'order.placed', 'order-' || g % 10000, convert_to('{\"x\":\"' || repeat('p', 292) || '\"}', 'UTF8') \
             from s, generate_series($1, $1 + 49999) g",
        )
        .bind(from)
        .execute(pool)
        .await
        .unwrap();
    }
    sqlx::query("vacuum analyze postroom.log").execute(pool).await.unwrap();
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

async fn drain(store: &Postgres, route: &str, in_flight_max: usize) -> Duration {
    let route = RouteDefinition::new(route).starting(Start::Beginning);
    let options = RelayOptions { drain: true, retention: None, in_flight_max, ..RelayOptions::default() };
    let start = Instant::now();
    let run = RouteRun::new(store.clone(), route, Noop);
    Relay::new(options).serve(run).run(std::future::pending()).await.unwrap();
    start.elapsed()
}
