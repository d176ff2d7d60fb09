//! Much of something: large payloads, stuck rows, idle relays, a slow network.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use postroom_admin::{ManagedStore as _, Selection};
use postroom_core::{Budget, Event, Outbox as _};
use postroom_testbed::proxy::Mode;
use postroom_testbed::{Cluster, FaultProxy, Servers};
use sqlx::{AssertSqlSafe, Connection as _, Executor as _, PgConnection, Row as _};

use crate::hazards::bench::{Bench, LEASE, Worker, append, delivered, events, retry, wait_for};

/// H-33
#[tokio::test]
async fn a_take_of_large_payloads_stays_within_its_bytes() {
    const MIB: usize = 1 << 20;
    let bench = Bench::new().await;
    let payload: Vec<u8> = std::iter::repeat_with(|| fastrand::u8(..)).take(MIB).collect();
    for n in 0..24 {
        let event = Event::new("scan.done").id(n.to_string()).key(format!("scan-{n}"));
        bench.append(&[event.bytes("application/octet-stream", payload.clone())]).await;
    }
    bench.append(&events(100, 50)).await;
    let mut worker = bench.worker().await;
    let budget = Budget { rows: 1_000, bytes: 4 * MIB };
    while worker.came.len() < 74 {
        let taken = worker.source.take(budget).await.unwrap().deliveries;
        let bytes: usize = taken.iter().map(|one| one.event.payload.len()).sum();
        assert!(bytes <= budget.bytes, "{} deliveries of {bytes} bytes", taken.len());
        for one in &taken {
            assert!(one.event.payload.len() < 100 || one.event.payload == payload[..]);
            *worker.came.entry(one.event.id.clone()).or_default() += 1;
        }
        worker.settle(&taken).await.unwrap();
    }
    assert_eq!(worker.twice(), 0);
    assert_eq!(bench.agrees().await, 74);
}

#[tokio::test]
async fn a_hundred_thousand_dead_letters_are_sorted_into_groups_while_somebody_waits() {
    let bench = Bench::new().await;
    let log = "insert into postroom.log (partition, lane, tx, seq, occurred_at, id, type, key, payload) \
         select n % 4, n % 16, 1, n, now(), 'e-' || n, 'order.' || n % 5, 'k-' || n % 1000, '' \
         from generate_series(1, 300000) n";
    // Every one has an error of its own, which is the most that can be told apart.
    let dead = "insert into postroom.delivery (route, lane, seq, state, code, error, since) \
         select 'r', n % 16, n, 'dead', 'code.' || n % 2, 'no template for order-' || n, now() \
         from generate_series(1, 300000, 3) n";
    let making = Instant::now();
    for sql in [log, dead] {
        bench.sql(sql).await;
    }
    let (making, began) = (making.elapsed(), Instant::now());
    let groups = bench.store.admin().dead_groups(&Selection::default(), 100).await.unwrap();
    // An API gives up after two seconds, in which a machine without other work makes a third of these rows; this one may
    // have got other work meanwhile.
    let asking = began.elapsed();
    assert!(asking < 4 * making, "{asking:?} to sort what took {making:?} to make");
    assert_eq!((groups.len(), groups.iter().map(|group| group.count).sum::<u64>()), (2, 100_000));
    assert_eq!((groups[0].count, groups[0].types.len(), groups[0].types["order.0"]), (50_000, 5, 10_000));
}

/// H-39
#[tokio::test]
async fn ten_thousand_stuck_events_do_not_hide_those_behind_them() {
    let bench = Bench::new().await;
    let stuck: Vec<Event> =
        (0..10_000).map(|n| Event::new("order.placed").id(n.to_string()).key(format!("stuck-{n}"))).collect();
    for some in stuck.chunks(2_000) {
        bench.append(some).await;
    }
    // Half of them wait for a retry, half are in the hands of a relay that is gone.
    let mut gone = Worker::on(&bench.another().await, Duration::from_secs(3)).await;
    while gone.came.len() < 5_000 {
        let taken = gone.look(1_000).await.unwrap().deliveries;
        let failed: Vec<_> = taken.iter().map(|one| retry(one, Duration::from_hours(1))).collect();
        gone.source.settle(&failed).await.unwrap();
        gone.renew().await.unwrap();
    }
    while gone.came.len() < 10_000 {
        gone.look(1_000).await.unwrap();
        gone.renew().await.unwrap();
    }
    bench.append(&events(20_000, 50)).await;
    gone.renew().await.unwrap();
    assert_eq!(gone.look(100).await.unwrap().deliveries.len(), 50, "what is stuck stands in nobody's way");

    let mut next = Worker::on(&bench.another().await, LEASE).await;
    wait_for("the take-over", async || {
        let take = next.look(1_000).await.unwrap();
        next.settle(&take.deliveries).await.unwrap();
        next.came.len() == 5_050
    })
    .await;
    bench.append(&events(30_000, 50)).await;
    let start = Instant::now();
    next.until(5_100).await;
    assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
    assert_eq!(bench.agrees().await, 5_100);
    assert_eq!(bench.one("select count(*) from postroom.delivery where state = 'retrying'").await, "5000");
}

/// H-40
#[tokio::test]
async fn idle_relays_ask_one_statement_a_poll_each() {
    // A server of its own: when a stranger's transaction ends, relays must look whether it was a writer.
    let cluster = Cluster::start(&[("autovacuum", "off"), ("max_connections", "200")]).await;
    let (few, many) = (idle(&cluster, "few", 2).await, idle(&cluster, "many", 22).await);
    let polls = i64::try_from(RELAYS * 20).unwrap();
    assert!(many - few <= polls + polls / 10, "{} transactions for {polls} polls", many - few);
    assert!(many > polls / 4, "the counter counts");
}

const RELAYS: usize = 16;

/// How many transactions it takes to serve a new database with 16 relays that have nothing to do, and poll so often each.
async fn idle(cluster: &Cluster, name: &str, polls: usize) -> i64 {
    let mut conn = PgConnection::connect(&cluster.url("postgres")).await.unwrap();
    conn.execute(AssertSqlSafe(format!("create database {name}"))).await.unwrap();
    let bench = Bench::at(cluster.url(name)).await;
    bench.append(&events(0, 20)).await;
    let mut relays = Vec::new();
    for _ in 0..RELAYS {
        relays.push(Worker::on(&bench.another().await, LEASE).await);
    }
    // Each has looked until it found nothing new, also of the others.
    for _ in 0..6 {
        for relay in &mut relays {
            relay.drain().await;
        }
    }
    for _ in 0..polls {
        for relay in &mut relays {
            assert_eq!(relay.look(100).await.unwrap().deliveries.len(), 0);
        }
    }
    drop((relays, bench));
    // What somebody did is counted at the latest when their session ends.
    let sessions = format!("select count(*) from pg_stat_activity where datname = '{name}'");
    wait_for("the end of all sessions", async || {
        conn.fetch_one(AssertSqlSafe(sessions.clone())).await.unwrap().get::<i64, _>(0) == 0
    })
    .await;
    let committed = format!("select xact_commit from pg_stat_database where datname = '{name}'");
    conn.fetch_one(AssertSqlSafe(committed)).await.unwrap().get(0)
}

/// H-32
#[tokio::test]
async fn a_renewal_does_not_wait_behind_a_slow_settle() {
    let bench = Bench::new().await;
    let proxy = FaultProxy::to_postgres(Servers::find().port("postgres")).await;
    let store = bench.by(proxy.url("postgres")).await;
    let mut worker = Worker::on(&store, LEASE).await;
    append(&store, &events(0, 2_000)).await.unwrap();
    worker.renew().await.unwrap();
    let taken = worker.look(2_000).await.unwrap().deliveries;
    assert_eq!(taken.len(), 2_000);
    // Every second one fails: the settle has much to say.
    let settlements: Vec<_> = taken
        .iter()
        .enumerate()
        .map(|(n, one)| if n % 2 == 0 { retry(one, Duration::from_hours(1)) } else { delivered(one) })
        .collect();
    proxy.set(Mode::Throttle(50_000)).await;
    let settle = worker.source.settle(&settlements);
    let renewals = async {
        let mut slowest = Duration::ZERO;
        for _ in 0..4 {
            let start = Instant::now();
            worker.renew().await.unwrap();
            slowest = slowest.max(start.elapsed());
        }
        slowest
    };
    let start = Instant::now();
    let (settled, slowest) = tokio::join!(async { (settle.await, start.elapsed()) }, renewals);
    settled.0.unwrap();
    assert!(settled.1 > slowest, "the settle took {:?}, so there was nothing to wait for", settled.1);
    assert!(slowest < Duration::from_secs(3), "a renewal took {slowest:?}");
    proxy.set(Mode::Pass).await;
    worker.drain().await;
    bench.agrees().await;
}

/// A reader far from the end goes in windows of numbers: late commits, gaps larger than a window and lanes without events
/// are in its way.
#[tokio::test]
async fn a_reader_far_behind_sees_late_commits_and_gets_over_gaps() {
    let bench = Bench::with(|options| options.lanes(16)).await;
    let keyed = |id: String, key: &str| Event::new("order.placed").id(id).key(key);
    let mut late = bench.store.begin().await.unwrap();
    let first = [keyed("late-0".to_owned(), "late"), keyed("late-1".to_owned(), "late")];
    drop(bench.store.append_many(&mut late, &first).await.unwrap());
    let keys = ["order-a", "order-b", "order-c", "order-d", "order-e"];
    let mut appended = 0;
    for round in 0..4 {
        for _ in 0..4 {
            let some: Vec<Event> =
                (appended..appended + 5_000).map(|n| keyed(n.to_string(), keys[n % keys.len()])).collect();
            bench.append(&some).await;
            appended += 5_000;
        }
        let mut lost = bench.store.begin().await.unwrap();
        drop(bench.store.append_many(&mut lost, &events(1_000_000, [10, 5_000, 20_000, 40_000][round])).await.unwrap());
        lost.rollback().await.unwrap();
        let again = keyed(format!("late-{}", round + 2), "late");
        drop(bench.store.append_many(&mut late, &[again]).await.unwrap());
    }
    let mut worker = bench.worker().await;
    let mut came: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut late = Some(late);
    while worker.came.len() < appended + 6 {
        let taken = worker.take(1_000).await;
        for one in &taken {
            came.entry(one.event.key.clone().unwrap()).or_default().push(one.event.id.clone());
        }
        worker.settle(&taken).await.unwrap();
        if worker.came.len() > appended / 2
            && let Some(late) = late.take()
        {
            late.commit().await.unwrap();
        }
    }
    assert_eq!(worker.twice(), 0);
    for (n, key) in keys.iter().enumerate() {
        let wanted: Vec<String> = (n..appended).step_by(keys.len()).map(|n| n.to_string()).collect();
        assert!(came[*key] == wanted, "{key} came out of order");
    }
    assert_eq!(came["late"], (0..6).map(|n| format!("late-{n}")).collect::<Vec<_>>());
    assert_eq!(bench.agrees().await, (appended + 6) as u64);
}
