//! What it costs to be watched: a drain with metrics, traces of one event in a hundred and JSON lines, against one without.

use std::sync::Arc;

use postroom_admin::ManagedStore as _;
use postroom_relay::{NoObserver, Noop, Observer, Relay, RelayOptions, Route};
use postroom_server::config::{Sources, load};
use postroom_server::monitor::Monitor;
use postroom_sqlite::SqliteStore;
use postroom_testbed::Collector;
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{fmt, reload};

use crate::process::cpu;
use crate::rounds::Rounds;
use crate::sqlite::event;

const COUNT: i32 = 200_000;
const ROUNDS: usize = 9;

/// Runs it.
pub(crate) fn run() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(drain());
}

async fn drain() {
    let (level, levels) = reload::Layer::new(LevelFilter::OFF);
    tracing_subscriber::registry().with(level).with(fmt::layer().json().with_writer(std::io::sink)).init();
    let folder = tempfile::tempdir().unwrap();
    let store = SqliteStore::create(folder.path().join("shop.db").to_str().unwrap()).await.unwrap();
    for batch in 0..COUNT / 10_000 {
        let events: Vec<_> = (0..10_000).map(|n| event(batch * 10_000 + n)).collect();
        store.admin().append(&events).await.unwrap();
    }
    let collector = Collector::start();
    let env = [
        ("POSTROOM_STORE__MAIN__URL".to_owned(), "sqlite://shop.db".to_owned()),
        ("POSTROOM_TELEMETRY__OTLP".to_owned(), format!("http://{}", collector.address)),
        ("POSTROOM_TELEMETRY__SAMPLE".to_owned(), "0.01".to_owned()),
    ];
    let cwd = folder.path().to_owned();
    let config = load(&Sources { env: env.into(), cwd, ..Sources::default() }).unwrap();
    let mut rounds = Rounds::default();
    for round in 0..ROUNDS {
        levels.modify(|level| *level = LevelFilter::OFF).unwrap();
        let bare = drained(&store, format!("bare-{round}"), Arc::new(NoObserver)).await;
        levels.modify(|level| *level = LevelFilter::INFO).unwrap();
        let monitor = Arc::new(Monitor::new(&config));
        let watched = drained(&store, format!("watched-{round}"), Arc::clone(&monitor) as _).await;
        monitor.stop().await;
        rounds.add(watched, bare);
    }
    assert!(!collector.taken().is_empty(), "nothing was traced");
    let (ratio, rates) = rounds.show();
    println!(
        "sqlite, drain to noop, metrics, 1 % traced, JSON lines, by processor time: {ratio:.2} of unwatched, {rates} (target ≥ 0.95)"
    );
}

/// Deliveries per second of processor time: others on the machine do not count.
async fn drained(store: &SqliteStore, route: String, observer: Arc<dyn Observer>) -> f64 {
    let route = Route::named(route).from_beginning().to(Noop);
    let options = RelayOptions::default().drain(true).retention(None);
    let before = cpu(std::process::id());
    let relay = Relay::new(store.clone()).options(options).observer(observer).route(route);
    relay.run(std::future::pending()).await.unwrap();
    f64::from(COUNT) / (cpu(std::process::id()) - before)
}
