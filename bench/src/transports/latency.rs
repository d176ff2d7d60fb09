//! From the commit in PostgreSQL to Kafka's acknowledgement, at half of what the way carries at most, producers included.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use postroom_admin::ManagedStore as _;
use postroom_core::envelope::Binding;
use postroom_core::{Capabilities, Event, JSON, Outbound, Outbox, Outcome, RouteSpec, StartFrom, Store, Transport};
use postroom_kafka::{Kafka, KafkaOptions};
use postroom_postgres::{PostgresOptions, PostgresStore};
use postroom_relay::{Relay, RelayOptions, Route};
use postroom_testbed::{Database, Servers};
use tokio::sync::{mpsc, oneshot};

use super::{encoder, payload, template};

/// Events of one transaction.
const TOGETHER: usize = 10;
const SECONDS: usize = 10;
/// Who commits without a pause, to find out how much the way carries with its producers beside it.
const PRODUCERS: usize = 16;

type Times = Arc<Mutex<HashMap<String, Instant>>>;

pub(crate) async fn run(servers: &Servers) {
    let database = Database::create(servers).await;
    PostgresStore::open_unmigrated(PostgresOptions::new("main", database.url()))
        .await
        .unwrap()
        .schema()
        .unwrap()
        .up()
        .await
        .unwrap();
    let store = PostgresStore::open(PostgresOptions::new("main", database.url())).await.unwrap();
    let broker = format!("127.0.0.1:{}", servers.site("kafka").port);
    let topic = super::kafka::topic(&broker);
    let acked = Times::default();
    let kafka = Kafka::new("bench", KafkaOptions::new(vec![broker], template(&topic)), encoder(Binding::Kafka));
    let transport = Clocked { inner: Arc::new(kafka), acked: acked.clone() };
    let route = RouteSpec::new("bench").start_from(StartFrom::Beginning);
    store.admin().register(std::slice::from_ref(&route)).await.unwrap();

    let (stop, stopped) = oneshot::channel();
    let options = RelayOptions::default().retention(None);
    let relay = Relay::new(store.clone()).options(options).route(Route::from_spec(route).to(transport));
    let relay = tokio::spawn(relay.run(async move { stopped.await.unwrap() }));
    let committed = Times::default();
    produce(&store, &committed, 1).await;
    until_acked(&committed, &acked).await;
    let most = flood(&store, &acked).await;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a rate is small and not negative")]
    let per_second = most as usize / 2;
    committed.lock().unwrap().clear();
    produce(&store, &committed, per_second).await;
    until_acked(&committed, &acked).await;
    stop.send(()).unwrap();
    relay.await.unwrap().unwrap();

    let (committed, acked) = (committed.lock().unwrap(), acked.lock().unwrap());
    let mut waits: Vec<Duration> = committed.iter().map(|(id, at)| acked[id].saturating_duration_since(*at)).collect();
    waits.sort();
    let at = |share: usize| waits[waits.len() * share / 1000].as_secs_f64() * 1000.0;
    println!(
        "transports, PostgreSQL → Kafka, commit → ack at {per_second}/s (of {most:.0}/s at most): p50 {:.1} ms, p99 {:.1} ms (targets ≤ 10, ≤ 40)",
        at(500),
        at(990)
    );
}

/// Events per second from the first commit to the last acknowledgement while everybody commits as fast as they can.
async fn flood(store: &PostgresStore, acked: &Times) -> f64 {
    let start = Instant::now();
    let committed = Times::default();
    let mut producers = tokio::task::JoinSet::new();
    for _ in 0..PRODUCERS {
        let (store, committed) = (store.clone(), committed.clone());
        producers.spawn(async move {
            while start.elapsed() < Duration::from_secs(SECONDS as u64 / 2) {
                commit(&store, &committed).await;
            }
        });
    }
    while producers.join_next().await.is_some() {}
    until_acked(&committed, acked).await;
    let count = committed.lock().unwrap().len();
    super::per_second(count, start.elapsed())
}

fn event() -> Event {
    Event::new("bench.event").key(format!("key-{}", fastrand::u32(..5_000))).bytes(JSON, payload())
}

/// Transactions evenly spread over time; the relay has to find them.
async fn produce(store: &PostgresStore, committed: &Times, per_second: usize) {
    let start = tokio::time::Instant::now();
    let transactions = (per_second * SECONDS / TOGETHER).max(1);
    let every = Duration::from_secs(SECONDS as u64) / u32::try_from(transactions).unwrap();
    let mut running = tokio::task::JoinSet::new();
    for n in 0..transactions {
        tokio::time::sleep_until(start + every * u32::try_from(n).unwrap()).await;
        let (store, committed) = (store.clone(), committed.clone());
        running.spawn(async move { commit(&store, &committed).await });
    }
    while running.join_next().await.is_some() {}
}

/// One transaction, noted when the server has confirmed it.
async fn commit(store: &PostgresStore, committed: &Times) {
    let events: Vec<Event> = (0..TOGETHER).map(|_| event()).collect();
    let mut tx = store.begin().await.unwrap();
    // Not woken: a relay in another process is not either.
    let _appended = store.append_many(&mut tx, &events).await.unwrap();
    tx.commit().await.unwrap();
    let now = Instant::now();
    committed.lock().unwrap().extend(events.into_iter().map(|event| (event.id, now)));
}

async fn until_acked(committed: &Times, acked: &Times) {
    loop {
        let all = {
            let acked = acked.lock().unwrap();
            committed.lock().unwrap().keys().all(|id| acked.contains_key(id))
        };
        if all {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Notes when what it forwards is acknowledged.
#[derive(Debug, Clone)]
struct Clocked {
    inner: Arc<dyn Transport>,
    acked: Times,
}

#[async_trait::async_trait]
impl Transport for Clocked {
    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities()
    }

    async fn deliver(&self, batch: Vec<Outbound>) {
        let (report, mut reports) = mpsc::unbounded_channel::<(u64, Outcome)>();
        let mut originals = Vec::with_capacity(batch.len());
        let mut copies = Vec::with_capacity(batch.len());
        for (ticket, outbound) in (0..).zip(batch) {
            copies.push(Outbound::new(
                ticket,
                outbound.attempt,
                outbound.event.clone(),
                outbound.position,
                report.clone(),
            ));
            originals.push(Some(outbound));
        }
        drop(report);
        let acked = self.acked.clone();
        tokio::spawn(async move {
            while let Some((ticket, outcome)) = reports.recv().await {
                let now = Instant::now();
                let Some(original) = originals[usize::try_from(ticket).unwrap()].take() else { continue };
                if outcome.is_ok() {
                    acked.lock().unwrap().insert(original.event.id.clone(), now);
                }
                original.report(outcome);
            }
        });
        self.inner.deliver(copies).await;
    }

    async fn close(&self) {}
}
