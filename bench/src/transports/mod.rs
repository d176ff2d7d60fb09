//! Transports against the real brokers: how much of what the bare client makes is left with the relay around it.
//!
//! Fed from the memory store; candidate and baseline in turn, in one run, the middle of five ratios. Needs the servers of
//! `cargo xtask services up`.

mod kafka;
mod latency;
mod memory;
mod nats;
mod rabbitmq;
mod redis;
mod webhook;

use std::process::ExitCode;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use postroom_admin::ManagedStore as _;
use postroom_core::envelope::{Binding, Encoder, Format};
use postroom_core::{
    Delivery, Event, JSON, RetryPolicy, RouteHealth, RouteSpec, StartFrom, Template, Transport, Verdict,
};
use postroom_memory::MemoryStore;
use postroom_relay::{Observer, Relay, RelayOptions, Route, RouteObserver};
use postroom_testbed::Servers;

pub(crate) use kafka::create_topic;

const PAYLOAD_BYTES: usize = 300;
/// Deliveries on their way at once.
const WINDOW: usize = 16_384;
const ROUNDS: usize = 5;

/// Runs one of them, or all.
pub(crate) fn run(wanted: Option<&str>) -> ExitCode {
    let servers = Servers::find();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let all = wanted.is_none();
    let is = |name: &str| all || wanted == Some(name);
    runtime.block_on(async {
        if is("kafka") {
            kafka::run(&servers).await;
        }
        if is("rabbitmq") {
            rabbitmq::run(&servers).await;
        }
        if is("nats") {
            nats::run(&servers).await;
        }
        if is("redis") {
            redis::run(&servers).await;
        }
        if is("webhook") {
            webhook::run().await;
        }
        if is("latency") {
            latency::run(&servers).await;
        }
        if is("memory") {
            memory::run(&servers).await;
        }
    });
    ExitCode::SUCCESS
}

/// What is sent: the payload and three headers, so that the bare client sends about the same.
fn encoder(binding: Binding) -> Encoder {
    Encoder::new(Format::Raw, binding, "/bench")
}

fn template(text: &str) -> Template {
    Template::parse(text, &[]).unwrap()
}

fn payload() -> String {
    format!("{{\"x\":\"{}\"}}", "p".repeat(PAYLOAD_BYTES - 8))
}

fn unique(name: &str) -> String {
    format!("{name}-{}", fastrand::u32(..))
}

/// Events per second through a relay, from the start of its run to the last settled one.
async fn relayed(transport: Arc<dyn Transport>, count: usize, keys: usize) -> f64 {
    let store = filled(count, keys).await;
    let last = Arc::new(Last(Mutex::new(Instant::now())));
    let options = RelayOptions::default().drain(true).retention(None).in_flight_max(WINDOW);
    let retry = RetryPolicy::default().attempts(1);
    let route = Route::from_spec(definition()).retry(retry).to(Shared(transport));
    let start = Instant::now();
    Relay::new(store.clone())
        .options(options)
        .observer(last.clone())
        .route(route)
        .run(std::future::pending())
        .await
        .unwrap();
    let took = last.0.lock().unwrap().duration_since(start);
    let status = store.admin().routes().await.unwrap().remove(0).status;
    assert_eq!((status.delivered, status.dead), (count as u64, 0), "{}", status.message);
    count as f64 / took.as_secs_f64()
}

fn definition() -> RouteSpec {
    RouteSpec::new("bench").start_from(StartFrom::Beginning)
}

async fn filled(count: usize, keys: usize) -> MemoryStore {
    let store = MemoryStore::new();
    let admin = store.admin();
    admin.register(&[definition()]).await.unwrap();
    let payload = payload();
    for start in (0..count).step_by(10_000) {
        let event = |n: usize| Event::new("bench.event").key(format!("key-{}", n % keys)).bytes(JSON, payload.clone());
        admin.append(&(start..count.min(start + 10_000)).map(event).collect::<Vec<_>>()).await.unwrap();
    }
    store
}

/// Notes when the last delivery was settled.
#[derive(Debug)]
struct Last(Mutex<Instant>);

impl Observer for Last {
    fn route(self: Arc<Self>, _: &str, _: &str) -> Arc<dyn RouteObserver> {
        self
    }
}

impl RouteObserver for Last {
    fn settled(&self, _: &Delivery, _: &Verdict) {
        *self.0.lock().unwrap() = Instant::now();
    }

    fn health(&self, health: &RouteHealth) {
        if !health.message.is_empty() {
            println!("  the route is {}: {}", health.state.as_str(), health.message);
        }
    }
}

/// A transport that several runs use one after the other.
#[derive(Debug)]
struct Shared(Arc<dyn Transport>);

#[async_trait::async_trait]
impl Transport for Shared {
    fn capabilities(&self) -> postroom_core::Capabilities {
        self.0.capabilities()
    }

    async fn deliver(&self, batch: Vec<postroom_core::Outbound>) {
        self.0.deliver(batch).await;
    }

    async fn check(&self) -> Vec<postroom_core::Diagnostic> {
        self.0.check().await
    }

    async fn close(&self) {}
}

/// Sends one, so that connecting is not part of what is measured.
async fn warm(transport: &Arc<dyn Transport>) {
    assert!(relayed(Arc::clone(transport), 100, 100).await > 0.0);
}

fn per_second(count: usize, took: Duration) -> f64 {
    count as f64 / took.as_secs_f64()
}
