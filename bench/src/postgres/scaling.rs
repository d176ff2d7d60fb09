//! What more relays bring when the destination takes its time: each has a window of its own.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use postroom_core::{Capabilities, Outbound, Receipt, Transport};
use postroom_relay::{Relay, RelayOptions, Route};
use sqlx::PgPool;
use tokio::sync::watch;

use super::{Server, drain, median};

const EVENTS: i32 = 2_000_000;
const LANES: usize = 16;
const IN_FLIGHT_MAX: usize = 64;
const MEASURED: Duration = Duration::from_secs(4);

pub(crate) async fn run(server: &Server) {
    let (_store, pool) = server.store("scaling").await;
    drain::fill(&pool, EVENTS).await;
    let (mut two, mut four, mut one_rate, mut cpus) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for round in 0..3 {
        let [one, by_two, by_four] = [
            rate(server, &pool, 1, &format!("one-{round}")).await,
            rate(server, &pool, 2, &format!("two-{round}")).await,
            rate(server, &pool, 4, &format!("four-{round}")).await,
        ];
        one_rate.push(one.0);
        two.push(by_two.0 / one.0);
        four.push(by_four.0 / one.0);
        cpus.push(by_four.1);
    }
    let one = median(&mut one_rate);
    for (relays, mut ratios, target) in [(2, two, "1.8"), (4, four, "3.2")] {
        println!(
            "postgres, {relays} relays, 2 ms a delivery, in_flight_max = {IN_FLIGHT_MAX}: {:.2} × one, which makes {one:.0}/s (target ≥ {target})",
            median(&mut ratios)
        );
    }
    println!("postgres, 4 relays: the whole machine's cores were busy for {:.2} of the time", median(&mut cpus));
}

/// Deliveries a second of this many relays, each with connections of its own, once all lanes are shared out; and the
/// share of the machine's cores that were busy meanwhile.
async fn rate(server: &Server, pool: &PgPool, relays: usize, route: &str) -> (f64, f64) {
    let (stop, delivered) = (watch::Sender::new(()), Arc::new(AtomicU64::new(0)));
    let mut running = Vec::new();
    for _ in 0..relays {
        let options = RelayOptions::default().retention(None).in_flight_max(IN_FLIGHT_MAX);
        let route = Route::named(route).from_beginning().to(Later(delivered.clone()));
        let mut stopped = stop.subscribe();
        let relay = Relay::new(server.open("scaling").await).options(options).route(route);
        running.push(tokio::spawn(relay.run(async move { stopped.changed().await.unwrap() })));
    }
    while !shared_out(pool, route, relays).await {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let (before, busy, start) = (delivered.load(Ordering::Relaxed), busy(), Instant::now());
    tokio::time::sleep(MEASURED).await;
    let made = delivered.load(Ordering::Relaxed) - before;
    let (rate, busy) = (made as f64 / start.elapsed().as_secs_f64(), self::busy() - busy);
    stop.send(()).unwrap();
    for relay in running {
        relay.await.unwrap().unwrap();
    }
    (rate, busy / start.elapsed().as_secs_f64())
}

/// Whether every relay has its part of the lanes.
async fn shared_out(pool: &PgPool, route: &str, relays: usize) -> bool {
    let held = sqlx::query_scalar(
        "select count(*) from postroom.lane where route = $1 and holder is not null group by holder",
    );
    let held: Vec<i64> = held.bind(route).fetch_all(pool).await.unwrap();
    held.len() == relays && held.iter().all(|lanes| usize::try_from(*lanes) == Ok(LANES / relays))
}

/// Delivers after 2 ms.
#[derive(Debug)]
struct Later(Arc<AtomicU64>);

#[async_trait]
impl Transport for Later {
    fn capabilities(&self) -> Capabilities {
        Capabilities::plain("later")
    }

    async fn deliver(&self, batch: Vec<Outbound>) {
        let delivered = self.0.clone();
        // One timer for what was sent together, as one answer of a broker is.
        tokio::spawn(async move {
            tokio::time::sleep(Duration::from_millis(2)).await;
            for outbound in batch {
                outbound.report(Ok(Receipt::default()));
                delivered.fetch_add(1, Ordering::Relaxed);
            }
        });
    }

    async fn close(&self) {}
}

/// Seconds a core of this machine was busy on average, whoever with.
fn busy() -> f64 {
    let stat = std::fs::read_to_string("/proc/stat").unwrap();
    let all: Vec<f64> = stat.lines().next().unwrap().split_whitespace().skip(1).map(|n| n.parse().unwrap()).collect();
    // user, nice and system; irq and softirq. Between them stand idle and waiting for a disk.
    let ticks: f64 = all[..3].iter().chain(&all[5..7]).sum();
    ticks / 100.0 / std::thread::available_parallelism().unwrap().get() as f64
}
