//! A relay delivers through a broker that crashes and falls silent: nothing is lost, and every key arrives in order.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use nix::sys::signal::Signal;
use postroom_admin::{Inspect as _, Operate};
use postroom_conformance::transports::until;
use postroom_core::{BreakerPolicy, Event, RouteSpec, StartFrom};
use postroom_memory::MemoryStore;
use postroom_relay::{Relay, RelayOptions, Route};
use tokio::sync::oneshot;

use super::Broker;
use crate::cluster::{Cluster, Record};
use crate::suite::threads::{Turn, kafka};

const KEYS: usize = 7;

/// So many more events, spread over the keys.
async fn append(store: &MemoryStore, numbers: std::ops::Range<usize>) {
    let event = |n: usize| Event::new("parcel.sent").id(format!("{n:06}")).key(format!("k{}", n % KEYS));
    Operate::append(store, &numbers.map(event).collect::<Vec<_>>()).await.expect("appended");
}

async fn delivered(store: &MemoryStore) -> u64 {
    store.routes().await.expect("routes")[0].status.delivered
}

/// Every event is there, and those of a key came in order the first time each; how many came again.
fn check(records: &[Record], events: usize) -> usize {
    let mut seen = HashSet::new();
    let mut last: HashMap<&str, &str> = HashMap::new();
    for record in records {
        if seen.insert(record.id()) {
            let key = record.key.as_deref().expect("a key");
            if let Some(before) = last.insert(key, record.id()) {
                assert!(before < record.id(), "{} of {key} came before {}", before, record.id());
            }
        }
    }
    assert_eq!(seen.len(), events, "events are missing");
    records.len() - events
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_key_stays_in_order_while_the_broker_crashes_and_falls_silent() {
    let broker = Broker::find().await;
    let _turn = Turn::take().await;
    broker.is_up().await;
    let cluster = Cluster::of(&broker.server.site);
    let topic = cluster.topic(3, &[]).await;
    let store = MemoryStore::new();
    let route = RouteSpec::new("parcels").start_from(StartFrom::Beginning);
    store.register(std::slice::from_ref(&route)).await.expect("registered");
    let transport = kafka(&cluster.brokers, &topic, Duration::from_secs(2));
    let cooldown = Duration::from_millis(200);
    let breaker = BreakerPolicy::default().cooldown(cooldown).cooldown_max(cooldown);
    let relay = Relay::new(store.clone())
        .options(RelayOptions::default().retention(None))
        .route(Route::from_spec(route).breaker(breaker).to(transport));
    let (stop, stopped) = oneshot::channel::<()>();
    let running = tokio::spawn(relay.run(async {
        let _ = stopped.await;
    }));

    append(&store, 0..1000).await;
    until("the first to be delivered", async || delivered(&store).await >= 200).await;
    broker.work(|broker| broker.server.signal(Signal::SIGSTOP)).await;
    append(&store, 1000..2000).await;
    let outage = async || store.routes().await.expect("routes")[0].status.message.clone();
    until("the silence to be noticed", async || outage().await.contains("kafka.timeout")).await;
    broker.work(|broker| broker.server.signal(Signal::SIGCONT)).await;
    until("it to go on", async || delivered(&store).await >= 1500).await;
    broker.work(|broker| broker.server.crash()).await;
    append(&store, 2000..3000).await;
    until("the crash to be noticed", async || outage().await.contains("kafka.unreachable")).await;
    broker.work(|broker| broker.server.resume()).await;
    until("all to be delivered", async || delivered(&store).await == 3000).await;

    let status = store.routes().await.expect("routes").remove(0).status;
    assert_eq!((status.dead, status.retrying), (0, 0));
    drop(stop);
    running.await.expect("no panic").expect("a good end");
    let again = check(&cluster.read(&topic).await, 3000);
    assert!(again <= 3 * 512, "{again} came again in three outages");
}
