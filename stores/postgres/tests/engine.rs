//! The real engine over the real store: writers append while three relays share two routes to a destination that fails, is
//! slow, and goes down now and then. What overlaps only here: takes, settles, reads ahead, recalls and retries.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "helpers are part of the tests")]

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use postroom_admin::ManagedStore as _;
use postroom_core::{
    BreakerPolicy, Capabilities, Delays, Event, Failure, Outbound, Outbox as _, Receipt, RetryPolicy, Store as _,
    Transport,
};
use postroom_postgres::{PostgresOptions, PostgresStore};
use postroom_relay::{Relay, RelayOptions, Route};
use postroom_testbed::{Database, Servers};
use tokio::sync::oneshot;

const WRITERS: u32 = 4;
const KEYS: u32 = 60;
const EACH: u32 = 600;

/// Keys and numbers in the order they arrived.
type Arrivals = Vec<(String, u32)>;

/// What arrived, per route.
#[derive(Debug, Clone, Default)]
struct Destination(Arc<Mutex<HashMap<String, Arrivals>>>);

#[derive(Debug)]
struct Flaky {
    to: Destination,
    route: String,
}

#[async_trait]
impl Transport for Flaky {
    fn capabilities(&self) -> Capabilities {
        Capabilities::plain("flaky")
    }

    async fn deliver(&self, batch: Vec<Outbound>) {
        for one in batch {
            let (to, route) = (self.to.clone(), self.route.clone());
            tokio::spawn(async move {
                tokio::time::sleep(Duration::from_micros(fastrand::u64(..3_000))).await;
                let outcome = match fastrand::u32(..200) {
                    0 => Err(Failure::unavailable("down", "not there")),
                    1..20 => Err(Failure::transient("again", "not now")),
                    _ => {
                        let event = one.event.clone();
                        let number = event.payload_as::<u32>().unwrap();
                        let mut arrived = to.0.lock().unwrap();
                        arrived.entry(route).or_default().push((event.key.clone().unwrap(), number));
                        Ok(Receipt::default())
                    }
                };
                one.report(outcome);
            });
        }
    }

    async fn close(&self) {}
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn relays_that_share_routes_to_a_flaky_destination_lose_nothing_and_keep_every_keys_order() {
    let database = Database::create(&Servers::find()).await;
    let options = PostgresOptions::new("main", database.url());
    PostgresStore::open_unmigrated(options.clone()).await.unwrap().schema().unwrap().up().await.unwrap();
    let store = PostgresStore::open(options.clone()).await.unwrap();
    let destination = Destination::default();
    let mut relays = Vec::new();
    for name in ["a", "b", "c"] {
        let store = PostgresStore::open(options.clone()).await.unwrap();
        let options = RelayOptions::default().name(name.to_owned()).in_flight_max(256);
        let mut relay = Relay::new(store).options(options);
        for route in ["billing", "search"] {
            let flaky = Flaky { to: destination.clone(), route: route.to_owned() };
            let delays = Delays::Exponential { base: Duration::from_millis(5), max: Duration::from_millis(50) };
            let retry = RetryPolicy::default().delays(delays).attempts(1_000);
            let breaker = BreakerPolicy::default().cooldown(Duration::from_millis(20));
            relay = relay.route(Route::named(route).from_beginning().retry(retry).breaker(breaker).to(flaky));
        }
        let (stop, stopped) = oneshot::channel::<()>();
        let running = tokio::spawn(relay.run(async move { drop(stopped.await) }));
        relays.push((stop, running));
    }
    let writers = (0..WRITERS).map(|writer| tokio::spawn(write(store.clone(), writer)));
    for writer in writers.collect::<Vec<_>>() {
        writer.await.unwrap();
    }
    let all = u64::from(WRITERS * EACH);
    let admin = store.admin();
    let done = async || admin.routes().await.unwrap().iter().all(|route| route.status.delivered == all);
    let wait = async {
        while !done().await {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let arrived = tokio::time::timeout(Duration::from_mins(2), wait).await.is_ok();
    assert!(arrived, "not all arrived: {:#?}", admin.routes().await.unwrap());
    for (stop, running) in relays {
        drop(stop);
        running.await.unwrap().unwrap();
    }
    for row in admin.verify().await.unwrap() {
        assert!(row.differences.is_empty(), "{row:?}");
    }
    for (route, arrived) in destination.0.lock().unwrap().iter() {
        assert_eq!(arrived.len() as u64, all, "on {route} each arrived once");
        let mut last: HashMap<&str, u32> = HashMap::new();
        for (key, number) in arrived {
            let before = last.insert(key, *number).unwrap_or(0);
            assert_eq!(*number, before + 1, "order of {key} on {route}");
        }
    }
}

/// Appends the numbers of this writer's keys, one transaction each; some have company, some roll back first.
async fn write(store: PostgresStore, writer: u32) {
    let mut numbers: HashMap<u32, u32> = HashMap::new();
    for n in 0..EACH {
        let key = fastrand::u32(..KEYS / WRITERS) * WRITERS + writer;
        let number = numbers.get(&key).copied().unwrap_or(0) + 1;
        let event = Event::new("counted").key(format!("k-{key}")).json(&number).unwrap();
        if n % 7 == 0 {
            let mut tx = store.begin().await.unwrap();
            let _ = store.append(&mut tx, &event).await.unwrap();
            tx.rollback().await.unwrap();
        }
        let mut tx = store.begin().await.unwrap();
        let appended = store.append(&mut tx, &event).await.unwrap();
        tx.commit().await.unwrap();
        appended.wake();
        numbers.insert(key, number);
    }
}
