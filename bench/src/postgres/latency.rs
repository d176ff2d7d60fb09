//! From the commit to the handler: a steady stream of small transactions, one relay.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use postroom_core::{Event, Failure, JSON, Outbox};
use postroom_postgres::PostgresStore;
use postroom_relay::{Handlers, Incoming, Relay, RelayOptions, Route};
use tokio::sync::oneshot;

use super::Server;

/// Commits overlap a little, so several connections share the rate.
const PRODUCERS: u32 = 4;
const PER_SECOND: u32 = 500;
const SECONDS: u32 = 10;

/// When what happened, by event id.
type Times = Arc<Mutex<HashMap<String, Instant>>>;

/// Whether the relay is told of a commit or has to find it.
#[derive(Clone, Copy)]
enum Producer {
    /// In the relay's process; it says so after its commit.
    Here,
    /// In another process, as far as the relay can tell.
    Elsewhere,
}

pub(crate) async fn run(server: &Server) {
    for (producer, name) in [(Producer::Elsewhere, "another process"), (Producer::Here, "the relay's process")] {
        let (store, pool) = server.store("latency").await;
        let (committed, handled) = (Times::default(), Times::default());
        let noted = handled.clone();
        let handlers = Handlers::new().on("*", "clock", move |incoming: Incoming| {
            noted.lock().unwrap().insert(incoming.event.id.clone(), Instant::now());
            async { Ok::<(), Failure>(()) }
        });
        let (stop, stopped) = oneshot::channel();
        let relay = Relay::new(store.clone())
            .options(RelayOptions::default().retention(None))
            .route(Route::named("bench").to(handlers));
        let relay = tokio::spawn(relay.run(async move { stopped.await.unwrap() }));
        warm_up(&store, &handled).await;
        let before = server.spent(&pool).await;
        produce(&store, &committed, producer).await;
        let (cpu, _) = server.spent(&pool).await.per(before, f64::from(PER_SECOND * SECONDS));
        while !all_in(&committed, &handled) {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        stop.send(()).unwrap();
        relay.await.unwrap().unwrap();
        let mut waits = waits(&committed.lock().unwrap(), &handled.lock().unwrap());
        waits.sort();
        let at = |share: usize| waits[waits.len() * share / 1000].as_secs_f64() * 1000.0;
        println!(
            "postgres, commit → handler at {PER_SECOND}/s from {name}: p50 {:.1} ms, p99 {:.1} ms, p99.9 {:.1} ms, server {cpu:.0} µs an event with its transaction (targets p50 ≤ 4 ms, p99 ≤ 12 ms)",
            at(500),
            at(990),
            at(999)
        );
    }
}

/// Until the relay has its lanes and has delivered something.
async fn warm_up(store: &PostgresStore, handled: &Times) {
    while handled.lock().unwrap().is_empty() {
        append(store).await;
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Commits evenly spread over time, each noted when the server has confirmed it.
async fn produce(store: &PostgresStore, committed: &Times, producer: Producer) {
    let start = tokio::time::Instant::now();
    let every = Duration::from_secs(1) / (PER_SECOND / PRODUCERS);
    let producers = (0..PRODUCERS).map(|n| {
        let (store, committed) = (store.clone(), committed.clone());
        tokio::spawn(async move {
            let mut ticks = tokio::time::interval_at(start + every * n / PRODUCERS, every);
            for _ in 0..PER_SECOND / PRODUCERS * SECONDS {
                ticks.tick().await;
                let id = append(&store).await;
                committed.lock().unwrap().insert(id, Instant::now());
                if matches!(producer, Producer::Here) {
                    store.wake().wake();
                }
            }
        })
    });
    for done in futures_util::future::join_all(producers).await {
        done.unwrap();
    }
}

async fn append(store: &PostgresStore) -> String {
    let payload = format!("{{\"x\":\"{}\"}}", "p".repeat(292));
    let event = Event::new("order.placed").key(format!("order-{}", fastrand::u32(..10_000))).bytes(JSON, payload);
    let mut tx = store.begin().await.unwrap();
    let _ = store.append(&mut tx, &event).await.unwrap();
    tx.commit().await.unwrap();
    event.id
}

/// Whether everything that was committed has been handled.
fn all_in(committed: &Times, handled: &Times) -> bool {
    let handled = handled.lock().unwrap();
    committed.lock().unwrap().keys().all(|id| handled.contains_key(id))
}

/// How long each event took; one that its handler saw before the producer heard of the commit took no time.
fn waits(committed: &HashMap<String, Instant>, handled: &HashMap<String, Instant>) -> Vec<Duration> {
    committed.iter().map(|(id, commit)| handled[id].saturating_duration_since(*commit)).collect()
}
