//! A new route on a long log beside many open transactions, and the end of one that was open for all of its numbers.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use postroom_core::Failure;
use postroom_relay::{Handlers, Incoming, Relay, RelayOptions, Route};
use sqlx::{AssertSqlSafe, Connection, Executor, PgConnection, PgPool};
use tokio::sync::oneshot;

use super::{Server, drain};

/// Transactions that stay open, the first of them since before the log was filled.
const OPEN: usize = 50;
/// Numbers that nobody used, on top of the log's.
const GAP: i64 = 10_000_000;

/// Keys that the handler received, with the times.
type Arrivals = Arc<Mutex<Vec<(String, Instant)>>>;

pub(crate) async fn run(server: &Server, events: i32) {
    let (store, pool) = server.store("open").await;
    let mut open = vec![begin(server, 0).await];
    drain::fill(&pool, events).await;
    let gap = format!("select setval('postroom.log_seq', nextval('postroom.log_seq') + {GAP})");
    pool.execute(AssertSqlSafe(gap)).await.unwrap();
    for n in 1..OPEN {
        open.push(begin(server, n).await);
    }
    let seen = Arrivals::default();
    let noted = seen.clone();
    let handlers = Handlers::new().on("*", "clock", move |incoming: Incoming| {
        noted.lock().unwrap().push((incoming.event.key.clone().unwrap_or_default(), Instant::now()));
        async { Ok::<(), Failure>(()) }
    });
    let (stop, stopped) = oneshot::channel();
    let started = Instant::now();
    let relay = Relay::new(store.clone())
        .options(RelayOptions::default().retention(None))
        .route(Route::named("bench").to(handlers));
    let relay = tokio::spawn(relay.run(async move { stopped.await.unwrap() }));
    // It starts with what comes after its registration.
    while sqlx::query_scalar::<_, i64>("select count(*) from postroom.checkpoint").fetch_one(&pool).await.unwrap() == 0
    {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    append(&pool, "first").await;
    let first = until(&seen, "first").await - started;
    println!(
        "postgres, a new route on {events} events beside {OPEN} open transactions: first delivery {:.2} s after the relay's start (target ≤ 2 s)",
        first.as_secs_f64()
    );
    for tx in &mut open {
        tx.execute("commit").await.unwrap();
    }
    let mut slowest = Duration::ZERO;
    let mut committed = Instant::now();
    for n in 0..40 {
        let key = format!("other-{n}");
        append(&pool, &key).await;
        slowest = slowest.max(until(&seen, &key).await.saturating_duration_since(committed));
        committed = Instant::now();
    }
    for n in 0..OPEN {
        until(&seen, &format!("open-{n}")).await;
    }
    println!(
        "postgres, the end of {OPEN} transactions, one open for {} numbers: others wait {:.2} s at most (target < 1 s)",
        i64::from(events) + GAP,
        slowest.as_secs_f64()
    );
    stop.send(()).unwrap();
    relay.await.unwrap().unwrap();
}

/// A transaction that has appended one event and stays open.
async fn begin(server: &Server, n: usize) -> PgConnection {
    let mut connection = PgConnection::connect(&server.url("bench_open")).await.unwrap();
    let text = format!("begin; select postroom.append('order.placed', 'open-{n}', '1')");
    connection.execute(AssertSqlSafe(text)).await.unwrap();
    connection
}

async fn append(pool: &PgPool, key: &str) {
    sqlx::query("select postroom.append('order.placed', $1, '1')").bind(key).execute(pool).await.unwrap();
}

/// When the handler saw this key; waits for it.
async fn until(seen: &Arrivals, key: &str) -> Instant {
    loop {
        let when = seen.lock().unwrap().iter().find(|(one, _)| one == key).map(|(_, when)| *when);
        if let Some(when) = when {
            return when;
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}
