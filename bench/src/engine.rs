//! The engine alone: memory store, transports that cost nothing, take their time, or get stuck.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use postroom_admin::ManagedStore as _;
use postroom_core::{Capabilities, Event, Outbound, Receipt, RouteSpec, StartFrom, Transport};
use postroom_memory::MemoryStore;
use postroom_relay::{Relay, RelayOptions, Route};
use tokio::sync::Semaphore;

const PAYLOAD_BYTES: usize = 300;

/// Runs all engine benchmarks.
pub(crate) fn run() {
    noop_on_one_core();
    five_milliseconds_each();
    one_stuck_event();
}

/// Deliveries per second to a destination that costs nothing, everything on one thread.
fn noop_on_one_core() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let count = 2_000_000;
    let mut best = 0.0_f64;
    for _ in 0..3 {
        let store = runtime.block_on(filled(count, 10_000));
        let options = RelayOptions::default().drain(true).retention(None);
        let took = runtime.block_on(drain(&store, Instantly, options));
        best = best.max(f64::from(count) / took.as_secs_f64());
    }
    println!("engine, memory → noop, 16 lanes, 300 B, one core: {best:.0} deliveries/s (target ≥ 500,000)");
}

/// How close to the ideal a destination of 5 ms gets with 512 in flight.
fn five_milliseconds_each() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let count = 300_000;
    let store = runtime.block_on(filled(count, 10_000));
    let options = RelayOptions::default().drain(true).retention(None);
    let (later, start) = (Later::new(None), Instant::now());
    runtime.block_on(drain(&store, later.clone(), options));
    // To the last delivery: that a drain then looks whether there is more is not what is measured.
    let took = later.last.lock().unwrap().duration_since(start);
    let rate = f64::from(count) / took.as_secs_f64();
    // The timer ticks once a millisecond, so 5 ms take up to 6.
    let bare = runtime.block_on(bare_loop(count));
    println!(
        "engine, 5 ms a delivery, 512 in flight, 10,000 keys: {rate:.0}/s, {:.2} of a bare loop with the same window (target ≥ 0.90)",
        rate / bare
    );
}

/// What one delivery that takes 30 s does to the others.
fn one_stuck_event() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let mut times = [Duration::ZERO; 2];
    for (n, stuck) in [None, Some(1_000)].into_iter().enumerate() {
        let count: u32 = 300_000;
        let store = runtime.block_on(filled(count, 10_000));
        let transport = Later::new(stuck);
        let options = RelayOptions::default().retention(None).shutdown_grace(Duration::from_millis(100));
        let start = Instant::now();
        let admin = store.admin();
        // The stuck event's key holds back about 30 of the 300,000.
        let enough = u64::from(count) - 60;
        runtime.block_on(async {
            let watch = async {
                loop {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                    if admin.routes().await.unwrap()[0].status.delivered >= enough {
                        break;
                    }
                }
                times[n] = start.elapsed();
            };
            relay(&store, transport, options).run(watch).await.unwrap();
        });
    }
    let change = times[1].as_secs_f64() / times[0].as_secs_f64() - 1.0;
    println!("engine, one event stuck for 30 s: the others take {:+.1} % (target < 5 %)", change * 100.0);
}

async fn filled(count: u32, keys: u32) -> MemoryStore {
    let store = MemoryStore::new();
    let payload = format!("{{\"x\":\"{}\"}}", "p".repeat(PAYLOAD_BYTES - 8));
    let admin = store.admin();
    admin.register(&[definition()]).await.unwrap();
    let mut batch = Vec::with_capacity(10_000);
    for n in 0..count {
        let event = Event::new("bench.event").key(format!("key-{}", n % keys));
        batch.push(event.bytes(postroom_core::JSON, payload.clone()));
        if batch.len() == 10_000 || n + 1 == count {
            admin.append(&std::mem::take(&mut batch)).await.unwrap();
        }
    }
    store
}

fn definition() -> RouteSpec {
    RouteSpec::new("bench").start_from(StartFrom::Beginning)
}

fn relay(store: &MemoryStore, transport: impl Transport + 'static, options: RelayOptions) -> Relay {
    Relay::new(store.clone()).options(options).route(Route::from_spec(definition()).to(transport))
}

async fn drain(store: &MemoryStore, transport: impl Transport + 'static, options: RelayOptions) -> Duration {
    let start = Instant::now();
    relay(store, transport, options).run(std::future::pending()).await.unwrap();
    start.elapsed()
}

/// The ideal: the same window over the same deliveries, nothing else.
async fn bare_loop(count: u32) -> f64 {
    let start = Instant::now();
    let window = Arc::new(Semaphore::new(512));
    for _ in 0..count {
        let slot = window.clone().acquire_owned().await.unwrap();
        tokio::spawn(async move {
            tokio::time::sleep(Duration::from_millis(5)).await;
            drop(slot);
        });
    }
    let _all = window.acquire_many(512).await.unwrap();
    f64::from(count) / start.elapsed().as_secs_f64()
}

/// Delivers at once.
#[derive(Debug)]
struct Instantly;

#[async_trait]
impl Transport for Instantly {
    fn capabilities(&self) -> Capabilities {
        capabilities("noop")
    }

    async fn deliver(&self, batch: Vec<Outbound>) {
        for outbound in batch {
            outbound.report(Ok(Receipt::default()));
        }
    }

    async fn close(&self) {}
}

/// Delivers after 5 ms; one position after 30 s.
#[derive(Debug, Clone)]
struct Later {
    stuck: Option<i64>,
    last: Arc<Mutex<Instant>>,
}

impl Later {
    fn new(stuck: Option<i64>) -> Self {
        Self { stuck, last: Arc::new(Mutex::new(Instant::now())) }
    }
}

#[async_trait]
impl Transport for Later {
    fn capabilities(&self) -> Capabilities {
        capabilities("later")
    }

    async fn deliver(&self, batch: Vec<Outbound>) {
        for outbound in batch {
            let takes = if outbound.position == self.stuck { 30_000 } else { 5 };
            let last = self.last.clone();
            tokio::spawn(async move {
                tokio::time::sleep(Duration::from_millis(takes)).await;
                outbound.report(Ok(Receipt::default()));
                *last.lock().unwrap() = Instant::now();
            });
        }
    }

    async fn close(&self) {}
}

fn capabilities(name: &'static str) -> Capabilities {
    Capabilities::plain(name)
}
