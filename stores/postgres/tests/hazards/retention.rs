//! Retention while everything goes on: writers, relays and long transactions over partitions whose turn comes every few seconds.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use postroom_admin::{ManagedStore as _, Selection, replay_at_once};
use postroom_core::{Event, Outbox as _, Retention, RouteSpec, StartFrom, Store as _, new_id};
use postroom_postgres::{PostgresOptions, PostgresStore};
use postroom_testbed::proxy::{Gate, Sign, Waiting};
use postroom_testbed::{Cluster, FaultProxy, Servers};
use postroom_testing::ManualClock;
use sqlx::{Connection as _, Executor as _, PgConnection};
use tokio::task::{JoinHandle, JoinSet};

use crate::hazards::bench::{Bench, Worker, ada, dead, delivered, events, rounds, wait_for};

const SECOND: Duration = Duration::from_secs(1);
const PARTITIONS: u16 = 5;

fn short() -> Retention {
    let keep = Some(Duration::from_millis(200));
    Retention { delivered: keep, attempts: keep, inbox: keep }
}

async fn few_partitions() -> Bench {
    Bench::with(|options| options.lanes(2).partitions(PARTITIONS).segment(SECOND)).await
}

fn payload(id: &str) -> Vec<u8> {
    format!("{{\"id\":\"{id}\",\"message\":\"{}\"}}", "x".repeat(200)).into_bytes()
}

fn event(id: &str) -> Event {
    Event::new("order.placed")
        .id(id)
        .key(format!("order-{}", id.len() + usize::from(id.as_bytes()[9])))
        .bytes("application/json", payload(id))
}

/// Whether it is one that no destination takes.
fn is_bad(id: &str) -> bool {
    id.ends_with("00") || id.ends_with("7a")
}

/// Prunes until it is told to stop; the number of events that are gone.
async fn prune_all_the_time(store: PostgresStore, stop: Arc<AtomicBool>) -> u64 {
    let mut gone = 0;
    while !stop.load(Ordering::SeqCst) {
        gone += store.admin().prune(&short(), false).await.unwrap().events;
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    gone
}

/// Appends until then; which were committed, and how long the longest transaction took.
async fn write(store: PostgresStore, number: u64, until: Instant) -> (BTreeSet<String>, Duration) {
    let (mut random, mut committed, mut longest) = (fastrand::Rng::with_seed(number), BTreeSet::new(), Duration::ZERO);
    while Instant::now() < until {
        let events: Vec<Event> = (0..random.usize(1..20)).map(|_| event(&new_id())).collect();
        let start = Instant::now();
        let mut tx = store.begin().await.unwrap();
        let appended = store.append_many(&mut tx, &events).await.unwrap();
        if random.u8(..10) == 0 {
            tx.rollback().await.unwrap();
            continue;
        }
        tx.commit().await.unwrap();
        longest = longest.max(start.elapsed());
        appended.wake();
        committed.extend(events.into_iter().map(|event| event.id));
    }
    (committed, longest)
}

/// One transaction after the other that stays open for several segments with an event in it.
async fn write_slowly(store: PostgresStore, until: Instant) -> BTreeSet<String> {
    let mut committed = BTreeSet::new();
    while Instant::now() < until {
        let (early, late) = (event(&new_id()), event(&new_id()));
        let mut tx = store.begin().await.unwrap();
        drop(store.append(&mut tx, &early).await.unwrap());
        tokio::time::sleep(3 * SECOND).await;
        drop(store.append(&mut tx, &late).await.unwrap());
        tx.commit().await.unwrap();
        committed.extend([early.id, late.id]);
    }
    committed
}

/// Other sessions' transactions: with an id, with an old snapshot, and with a lock on the log, one after the other.
async fn idle_in_transactions(url: String, look: String, until: Instant) {
    let mut conn = PgConnection::connect(&url).await.unwrap();
    while Instant::now() < until {
        for begin in ["begin; select pg_current_xact_id()", "begin isolation level repeatable read; select 1", &look] {
            conn.execute(sqlx::AssertSqlSafe(begin.to_owned())).await.unwrap();
            tokio::time::sleep(SECOND * 3 / 2).await;
            conn.execute("rollback").await.unwrap();
        }
    }
}

/// Asks for nothing again and again until then; how long the longest answer took, which is what the machine adds to everything.
async fn machine_delay(url: String, until: Instant) -> Duration {
    let mut conn = PgConnection::connect(&url).await.unwrap();
    let mut longest = Duration::ZERO;
    while Instant::now() < until {
        let start = Instant::now();
        conn.execute("select 1").await.unwrap();
        longest = longest.max(start.elapsed());
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    longest
}

async fn sizes(bench: &Bench) -> Vec<String> {
    let mut sizes = Vec::new();
    for partition in 0..PARTITIONS {
        sizes.push(bench.one(&format!("select pg_relation_size('postroom.log_{partition}')")).await);
    }
    sizes
}

/// Delivers what there is; what is bad dies.
async fn deliver(worker: &mut Worker) {
    let take = worker.look(300).await.unwrap();
    let verdict = |one| if is_bad(&delivery_id(one)) && one.attempts == 0 { dead(one) } else { delivered(one) };
    worker.settle_all(&take.deliveries.iter().map(verdict).collect::<Vec<_>>()).await;
}

fn delivery_id(delivery: &postroom_core::Delivery) -> String {
    delivery.event.id.clone()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn retention_under_load_loses_nothing_and_gives_all_space_back() {
    let bench = few_partitions().await;
    let until = Instant::now() + SECOND * u32::try_from(rounds(9, 120)).unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let pruner = tokio::spawn(prune_all_the_time(bench.another().await, Arc::clone(&stop)));
    let mut writers = JoinSet::new();
    for number in 0..3 {
        writers.spawn(write(bench.another().await, number, until));
    }
    let slow = tokio::spawn(write_slowly(bench.another().await, until));
    let look = format!("begin; select count(*) from {}.log", bench.name);
    let idle = tokio::spawn(idle_in_transactions(Servers::find().postgres_url("postgres"), look, until));
    let delay = tokio::spawn(machine_delay(Servers::find().postgres_url("postgres"), until));

    // One relay after the other: each begins from what the one before has written.
    let mut came = BTreeSet::new();
    while Instant::now() < until {
        let mut worker = bench.worker().await;
        let life = Instant::now() + SECOND;
        while Instant::now() < life {
            deliver(&mut worker).await;
        }
        worker.source.release().await.unwrap();
        came.extend(worker.came.into_keys());
    }
    let (mut committed, mut longest) = (slow.await.unwrap(), Duration::ZERO);
    for (ids, took) in writers.join_all().await {
        committed.extend(ids);
        longest = longest.max(took);
    }
    idle.await.unwrap();
    let delay = delay.await.unwrap();
    let mut worker = bench.worker().await;
    wait_for("the rest", async || {
        deliver(&mut worker).await;
        came.extend(worker.came.keys().cloned());
        came.len() >= committed.len()
    })
    .await;
    assert_eq!(came, committed, "what was committed, and nothing else, has come");
    wait_for("empty partitions", async || {
        deliver(&mut worker).await;
        sizes(&bench).await.iter().all(|size| size == "0")
    })
    .await;
    stop.store(true, Ordering::SeqCst);
    let gone = pruner.await.unwrap();
    // A transaction of a writer has three round trips.
    assert!(longest < SECOND + 3 * delay, "a writer waited {longest:?}, one that asks for nothing {delay:?}");

    // The dead ones have their payloads, and arrive when they are sent again.
    let bad: BTreeSet<String> = committed.iter().filter(|id| is_bad(id)).cloned().collect();
    assert!(!bad.is_empty() && gone >= (committed.len() - bad.len()) as u64, "{gone} of {} gone", committed.len());
    assert_eq!(bench.one("select count(*) from postroom.evacuated").await, bad.len().to_string());
    bench.agrees().await;
    let dead = postroom_admin::view::ReplayKind::Dead;
    replay_at_once(&*bench.store.admin(), dead, &Selection::default(), &ada()).await.unwrap();
    let mut again = BTreeSet::new();
    while again.len() < bad.len() {
        let taken = worker.take(300).await;
        for one in &taken {
            assert_eq!(one.event.payload, payload(&one.event.id), "the payload of {}", one.event.id);
            again.insert(one.event.id.clone());
        }
        worker.settle(&taken).await.unwrap();
    }
    assert_eq!(again, bad);
    wait_for("nothing left", async || {
        bench.store.admin().prune(&short(), false).await.unwrap();
        bench.one("select count(*) from postroom.evacuated").await == "0"
    })
    .await;
    assert_eq!(bench.agrees().await, committed.len() as u64);
}

#[tokio::test]
async fn a_route_that_lags_keeps_its_partition_until_it_has_read_it() {
    let bench = few_partitions().await;
    let slow = RouteSpec::new("archive").start_from(StartFrom::Beginning);
    bench.store.admin().register(std::slice::from_ref(&slow)).await.unwrap();
    bench.append(&events(0, 30)).await;
    let mut worker = bench.worker().await;
    worker.until(30).await;
    // Every partition has its turn once: the partition takes events again while its old ones are still there.
    let round = Instant::now() + SECOND * u32::from(PARTITIONS + 1);
    let mut n = 30;
    while Instant::now() < round {
        bench.append(&events(n, 1)).await;
        n += 1;
        worker.until(n).await;
        bench.store.admin().prune(&short(), false).await.unwrap();
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(bench.one("select count(*) from postroom.log").await, n.to_string(), "none of them is gone");
    let source = bench.store.source(&crate::hazards::bench::relay(crate::hazards::bench::LEASE), &slow).await.unwrap();
    let mut archive = Worker { source, came: std::collections::BTreeMap::new() };
    archive.until(n).await;
    assert_eq!((archive.came.len(), archive.twice()), (n, 0));
    wait_for("empty partitions", async || {
        bench.store.admin().prune(&short(), false).await.unwrap();
        sizes(&bench).await.iter().all(|size| size == "0")
    })
    .await;
    assert_eq!(bench.agrees().await, 2 * n as u64);
}

/// Lets statements go on until a partition was counted and the next step would be to truncate it, or until it has ended; whether it waits there.
async fn until_counted(gate: &mut Gate, prune: &JoinHandle<u64>) -> Option<Waiting> {
    let mut counted = false;
    while !prune.is_finished() {
        let Ok(Some(sign)) = tokio::time::timeout(SECOND / 10, gate.next()).await else { continue };
        if let Sign::Waits(waiting) = sign {
            if counted && waiting.text.contains("for update skip locked") {
                return Some(waiting);
            }
            counted |= waiting.text.contains("What partition");
            waiting.go_on();
        }
    }
    None
}

/// H-118
#[tokio::test]
async fn a_partition_that_two_relays_count_and_truncate_is_counted_once() {
    let bench = few_partitions().await;
    let mut worker = bench.worker().await;
    let proxy = FaultProxy::to_postgres(Servers::find().port("postgres")).await;
    let late = bench.by(proxy.url("postgres")).await;
    let (mut n, mut both) = (0, false);
    while !both {
        bench.append(&events(n, 10)).await;
        n += 10;
        worker.until(n).await;
        let (mut gate, late) = (proxy.gate(), late.clone());
        let prune = tokio::spawn(async move { late.admin().prune(&short(), false).await.unwrap().events });
        if let Some(waiting) = until_counted(&mut gate, &prune).await {
            both = bench.store.admin().prune(&short(), false).await.unwrap().events > 0;
            waiting.go_on();
        }
        drop(gate);
        prune.await.unwrap();
    }
    assert_eq!(bench.agrees().await, n as u64);
}

/// Appends one event every 50 ms, from number `n` on, until then; the next number.
async fn append_until(bench: &Bench, mut n: usize, until: Instant) -> usize {
    while Instant::now() < until {
        bench.append(&events(n, 1)).await;
        n += 1;
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    n
}

/// Lets a reader live until it leaves partitions out: takes and prunes for more than a turn of the partitioning. The next number.
async fn settle_in(bench: &Bench, worker: &mut Worker) -> usize {
    let turn = Instant::now() + SECOND * u32::from(PARTITIONS + 2);
    let mut n = 0;
    while Instant::now() < turn {
        n = append_until(bench, n, Instant::now() + SECOND / 4).await;
        worker.until(n).await;
        bench.store.admin().prune(&short(), false).await.unwrap();
    }
    n
}

/// A reader follows the partitions, then reads nothing for `segments` segments while events are appended; then it reads again.
async fn paused_for(segments: u32, by_an_operator: bool) {
    let bench = few_partitions().await;
    let mut worker = bench.worker().await;
    let n = settle_in(&bench, &mut worker).await;
    let admin = bench.store.admin();
    if by_an_operator {
        admin.pause("mailer", &ada()).await.unwrap();
        worker.look(100).await.unwrap();
    }
    let n = append_until(&bench, n, Instant::now() + SECOND * segments).await;
    if by_an_operator {
        admin.resume("mailer", &ada()).await.unwrap();
    }
    worker.until(n).await;
    assert_eq!((worker.came.len(), worker.twice()), (n, 0), "{segments} segments without a read");
    assert_eq!(bench.agrees().await, n as u64);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reader_that_paused_for_any_number_of_segments_loses_nothing() {
    let mut pauses = JoinSet::new();
    for segments in 1..=u32::from(PARTITIONS) + 2 {
        pauses.spawn(paused_for(segments, segments % 2 == 0));
        pauses.spawn(paused_for(segments, segments % 2 == 1));
    }
    pauses.join_all().await;
}

/// A reader that begins anew because lanes come or go looks at the partitions that it had left out. What it reads there in its turn, after
/// a whole turn of the partitions without a read, must not count as passed: it would be delivered and counted twice.
#[tokio::test]
async fn a_reader_that_gives_a_lane_up_after_a_turn_of_the_partitions_delivers_nothing_twice() {
    // On a server of its own: where others hold transactions open, nothing is left out.
    let (cluster, clock) = (Cluster::start(&[]).await, ManualClock::new());
    let options =
        PostgresOptions::new("main", cluster.url("postgres")).lanes(2).partitions(PARTITIONS).segment(10 * SECOND);
    let bench = Bench::made(options.clock(Arc::new(clock.clone()))).await;
    let mut worker = bench.worker().await;
    let mut n = 0;
    for _ in 0..2 * PARTITIONS {
        bench.append(&events(n, 10)).await;
        n += 10;
        // Each look may leave one more partition out.
        for _ in 0..4 {
            worker.drain().await;
        }
        clock.advance(10 * SECOND);
    }
    for _ in 0..2 * PARTITIONS {
        bench.append(&events(n, 10)).await;
        n += 10;
        clock.advance(10 * SECOND);
    }
    let mut other = bench.worker().await;
    wait_for("all events", async || {
        worker.drain().await;
        other.drain().await;
        worker.came.len() + other.came.len() >= n
    })
    .await;
    worker.drain().await;
    assert!(!other.came.is_empty(), "the other one has a lane");
    assert_eq!((worker.twice(), other.twice()), (0, 0), "{n} events");
    assert_eq!(bench.agrees().await, n as u64);
}

/// What a server's clock that jumps ahead and back between two reads partitions: events in a partition that the reader left out.
#[tokio::test]
async fn events_in_a_partition_that_a_reader_left_out_are_found_and_delivered() {
    let bench = Bench::with(|options| options.lanes(2).partitions(8).segment(SECOND)).await;
    let mut worker = bench.worker().await;
    let mut n = 0;
    let turn = Instant::now() + 4 * SECOND;
    while Instant::now() < turn {
        n = append_until(&bench, n, Instant::now() + SECOND / 4).await;
        worker.until(n).await;
    }
    // Four segments away is neither current nor next, and was left out for seconds; the reader goes on meanwhile.
    bench
        .sql(
            "with s as materialized (select pg_current_xact_id()::text::int8 x), \
             at as (select ((extract(epoch from clock_timestamp())::int8 + 4) % 8)::int2 partition) \
             insert into postroom.log (partition, lane, tx, seq, id, type, key, occurred_at, payload) \
             select at.partition, i % 2, s.x, nextval('postroom.log_seq'), 'jump-' || i, 'order.placed', 'jump-' || i, now(), '1' \
             from s, at, generate_series(1, 6) i",
        )
        .await;
    bench.append(&events(n, 20)).await;
    worker.until(n + 26).await;
    assert!((1..=6).all(|i| worker.came.get(&format!("jump-{i}")) == Some(&1)), "{:?}", worker.came);
    assert_eq!(bench.agrees().await, (n + 26) as u64);
}
