//! What a relay answers over HTTP: how fast workers pull, and what a scrape of many routes costs.

use std::sync::Arc;
use std::time::{Duration, Instant};

use postroom_core::{
    Delivery, Event, Failure, LaneTerm, Outcome, Receipt, RetryPolicy, RouteHealth, Timestamp, verdict,
};
use postroom_relay::Observer as _;
use postroom_server::config::{Config, Sources, load};
use postroom_server::http::Server;
use postroom_server::monitor::Monitor;
use postroom_server::relay::{self, RunOptions};
use postroom_server::stores::{self, IfMissing};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::sqlite::event;

const EVENTS: i32 = 100_000;
const WORKERS: usize = 2;
const BATCH: usize = 100;
const ROUTES: usize = 50;
const SCRAPES: usize = 200;

/// Runs it.
pub(crate) fn run() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        pull().await;
        scrape().await;
    });
}

fn config(folder: &std::path::Path, text: &str) -> Config {
    let file = folder.join("postroom.toml");
    let head = format!("[store.main]\nurl = \"sqlite://{}/shop.db\"\n", folder.display());
    std::fs::write(&file, head + "[http]\nlisten = \"127.0.0.1:0\"\nanonymous = \"operator\"\n" + text).unwrap();
    load(&Sources { file: Some(file), ..Sources::default() }).unwrap()
}

/// A site that answers for this configuration, and where.
async fn site(config: &Config) -> (Arc<Monitor>, String) {
    let monitor = Arc::new(Monitor::new(config));
    let server = Server::bind(config, Arc::clone(&monitor)).await.unwrap().unwrap();
    let address = server.address().unwrap().to_string();
    tokio::spawn(server.run(std::future::pending()));
    (monitor, address)
}

/// Events per second through workers that lease and settle a hundred at a time.
async fn pull() {
    let folder = tempfile::tempdir().unwrap();
    let route = "[[route]]\nname = \"work\"\nstart = \"beginning\"\nto = { pull = { in_flight = 512 } }\n";
    let config = config(folder.path(), route);
    let store = config.store(None).unwrap();
    stores::open_schema(store, config.limits, IfMissing::Create).await.unwrap().up().await.unwrap();
    let admin = stores::open(store, config.limits).await.unwrap().admin();
    for batch in 0..EVENTS / 10_000 {
        let events: Vec<_> = (0..10_000).map(|n| event(batch * 10_000 + n)).collect();
        admin.append(&events).await.unwrap();
    }
    let (monitor, address) = site(&config).await;
    let mut options = RunOptions::default();
    options.monitor = Some(Arc::clone(&monitor));
    let running = tokio::spawn(async move { relay::run(&config, options, monitor, std::future::pending()).await });
    let began = Instant::now();
    let workers: Vec<_> = (0..WORKERS).map(|_| tokio::spawn(work(address.clone()))).collect();
    let mut done = 0;
    for worker in workers {
        done += worker.await.unwrap();
    }
    let rate = f64::from(EVENTS) / began.elapsed().as_secs_f64();
    running.abort();
    assert_eq!(done, usize::try_from(EVENTS).unwrap());
    println!("pull over HTTP from SQLite, {WORKERS} workers, batches of {BATCH}: {rate:.0} events/s (target ≥ 10000)");
}

/// Works until nothing comes for a second; says how many it settled.
async fn work(address: String) -> usize {
    let mut client = Client::connect(&address).await;
    let mut done = 0;
    loop {
        let (status, body) = client.post("/api/v1/pull/work", &json!({ "limit": BATCH, "wait": "1s" })).await;
        if status == 404 {
            // The relay has not begun yet.
            tokio::time::sleep(Duration::from_millis(5)).await;
            continue;
        }
        let leased: Vec<Value> = serde_json::from_slice(&body).unwrap();
        if leased.is_empty() {
            return done;
        }
        let results: Vec<Value> = leased.iter().map(|one| json!({ "lease": one["lease"], "ok": true })).collect();
        let (_, body) = client.post("/api/v1/pull/work/settle", &json!({ "results": results })).await;
        let settled: Value = serde_json::from_slice(&body).unwrap();
        done += usize::try_from(settled["settled"].as_u64().unwrap()).unwrap();
    }
}

/// How long a scrape of many busy routes takes, and how large it is: every route has delivered, been tried again, and every
/// tenth has dead letters.
async fn scrape() {
    let folder = tempfile::tempdir().unwrap();
    let route = |n: usize| format!("[[route]]\nname = \"route-{n}\"\nto = {{ noop = {{}} }}\n");
    let config = config(folder.path(), &(0..ROUTES).map(route).collect::<String>());
    stores::open_schema(config.store(None).unwrap(), config.limits, IfMissing::Create)
        .await
        .unwrap()
        .up()
        .await
        .unwrap();
    let (monitor, address) = site(&config).await;
    let (mut options, served) = (RunOptions::default(), config.clone());
    options.monitor = Some(Arc::clone(&monitor));
    let engine = Arc::clone(&monitor);
    let running = tokio::spawn(async move { relay::run(&served, options, engine, std::future::pending()).await });
    for (n, route) in config.routes.iter().enumerate() {
        let observer = Arc::clone(&monitor).route("main", &route.definition.name);
        observer.health(&RouteHealth::running());
        let delivery = delivery();
        for tries in 0..200_u64 {
            let outcome: Outcome = match tries % 4 {
                0 => Err(Failure::transient("kafka.timeout", "no answer")),
                1 if n % 10 == 0 => Err(Failure::permanent("kafka.too_large", "too large")),
                _ => Ok(Receipt::default()),
            };
            observer.tried(&delivery, &outcome, Duration::from_micros(tries * 300));
            observer.settled(&delivery, &verdict(0, outcome, &RetryPolicy::default(), 0.5));
            observer.read(10, Duration::from_micros(tries));
            observer.wrote(10, Duration::from_micros(tries));
        }
    }
    let mut client = Client::connect(&address).await;
    // What the relay asks its store for is part of the page.
    while !String::from_utf8_lossy(&client.get("/metrics").await.1).contains("postroom_blocked_keys{") {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let (mut took, mut bytes) = (Vec::new(), 0);
    for _ in 0..SCRAPES {
        let began = Instant::now();
        let (status, body) = client.get("/metrics").await;
        took.push(began.elapsed());
        assert_eq!(status, 200);
        bytes = body.len();
    }
    running.abort();
    took.sort();
    let (median, p99) = (took[SCRAPES / 2].as_secs_f64() * 1e3, took[SCRAPES * 99 / 100].as_secs_f64() * 1e3);
    let size = bytes / 1000;
    println!(
        "scrape of {ROUTES} routes: {median:.2} ms, 99 % within {p99:.2} ms (target ≤ 5), {size} kB (target ≤ 200)"
    );
}

fn delivery() -> Delivery {
    let now = Timestamp::now();
    Delivery {
        handle: 1,
        lane: LaneTerm { lane: 0, term: 1 },
        event: Arc::new(Event::new("order.placed")),
        position: Some(1),
        attempts: 0,
        ordered: true,
        appended_at: now,
        refused: None,
    }
}

/// One connection that is kept.
pub(crate) struct Client {
    address: String,
    stream: TcpStream,
}

impl Client {
    pub(crate) async fn connect(address: &str) -> Self {
        let stream = TcpStream::connect(address).await.unwrap();
        stream.set_nodelay(true).unwrap();
        Self { address: address.to_owned(), stream }
    }

    pub(crate) async fn get(&mut self, path: &str) -> (u16, Vec<u8>) {
        self.send("GET", path, &[]).await
    }

    async fn post(&mut self, path: &str, body: &Value) -> (u16, Vec<u8>) {
        self.send("POST", path, body.to_string().as_bytes()).await
    }

    async fn send(&mut self, method: &str, path: &str, body: &[u8]) -> (u16, Vec<u8>) {
        let (host, length) = (&self.address, body.len());
        let kind = if body.is_empty() { "" } else { "content-type: application/json\r\n" };
        let head = format!("{method} {path} HTTP/1.1\r\nhost: {host}\r\n{kind}content-length: {length}\r\n\r\n");
        self.stream.write_all(&[head.as_bytes(), body].concat()).await.unwrap();
        let mut read = Vec::new();
        let (mut head, mut length) = (None, 0);
        loop {
            if head.is_none()
                && let Some(end) = read.windows(4).position(|four| four == b"\r\n\r\n")
            {
                let text = String::from_utf8_lossy(&read[..end]).to_lowercase();
                let of =
                    |name: &str| text.split(name).nth(1).and_then(|rest| rest.split_whitespace().next()?.parse().ok());
                length = of("content-length: ").expect("a length");
                head = Some((end + 4, text.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0)));
            }
            if let Some((at, status)) = head
                && read.len() >= at + length
            {
                return (status, read.split_off(at));
            }
            assert!(self.stream.read_buf(&mut read).await.unwrap() > 0, "the connection was closed");
        }
    }
}
