//! Transactions that were open for long, and routes that start beside many of them: what they cost others when they end.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use postroom_core::{Event, Outbox as _, RouteSpec, Store as _};
use postroom_postgres::PostgresTx;

use crate::hazards::bench::{Bench, LEASE, Worker, append, events, relay, wait_for};

/// How long the first event may take on a machine that does other things meanwhile; on a quiet one it is a tenth of this.
const SOON: Duration = Duration::from_secs(4);

/// So many events of before, in all lanes.
pub(crate) async fn retained(bench: &Bench, count: usize) {
    bench
        .sql(&format!(
            "with s as materialized (select pg_current_xact_id()::text::int8 x) \
             insert into postroom.log (partition, lane, tx, seq, id, type, key, occurred_at, payload) \
             select i % 4, i % 4, s.x, nextval('postroom.log_seq'), 'old-' || i, 'order.placed', 'old-' || i, now(), '1' \
             from s, generate_series(1, {count}) i"
        ))
        .await;
    bench.sql("analyze postroom.log").await;
}

/// Transactions that have appended one event each and stay open.
async fn open(bench: &Bench, count: usize) -> Vec<PostgresTx> {
    let mut open = Vec::new();
    for n in 0..count {
        // Each over a store of its own: a pool has few connections.
        let mut tx = bench.another().await.begin().await.unwrap();
        let event = Event::new("order.placed").id(format!("open-{n}")).key(format!("open-{n}"));
        drop(bench.store.append(&mut tx, &event).await.unwrap());
        open.push(tx);
    }
    open
}

#[tokio::test]
async fn a_new_route_beside_many_open_transactions_delivers_at_once() {
    let bench = Bench::new().await;
    retained(&bench, 300_000).await;
    let open = open(&bench, 30).await;
    // `start = "now"`: every open transaction is pending from the first number on.
    let now = RouteSpec::new("mailer");
    let began = Instant::now();
    let source = bench.store.source(&relay(LEASE), &now).await.unwrap();
    let mut worker = Worker { source, came: BTreeMap::new() };
    worker.look(500).await.unwrap();
    bench.append(&events(0, 10)).await;
    worker.until(10).await;
    assert!(began.elapsed() < SOON, "with all of them open: {:?}", began.elapsed());
    for tx in open {
        tx.commit().await.unwrap();
    }
    bench.append(&events(10, 10)).await;
    let began = Instant::now();
    worker.until(50).await;
    assert!(began.elapsed() < SOON, "when all of them have ended: {:?}", began.elapsed());
    assert!((0..30).all(|n| worker.came.get(&format!("open-{n}")) == Some(&1)), "{:?}", worker.came);
    assert_eq!(bench.agrees().await, 50);
}

#[tokio::test]
async fn a_transaction_that_was_open_for_many_numbers_delays_others_little_when_it_ends() {
    let bench = Bench::new().await;
    let mut worker = bench.worker().await;
    let open = open(&bench, 1).await;
    bench.append(&events(0, 10)).await;
    worker.until(10).await;
    retained(&bench, 60_000).await;
    worker.until(60_010).await;
    for tx in open {
        tx.commit().await.unwrap();
    }
    bench.append(&events(10, 10)).await;
    let began = Instant::now();
    worker.until(60_021).await;
    assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
    assert_eq!(worker.came.get("open-0"), Some(&1));
    assert_eq!(bench.agrees().await, 60_021);
}

#[tokio::test]
async fn a_late_event_of_a_long_transaction_goes_before_those_that_followed_it() {
    let bench = Bench::with(|options| options.lanes(1)).await;
    let mut worker = bench.worker().await;
    let mut long = bench.store.begin().await.unwrap();
    drop(bench.store.append(&mut long, &Event::new("order.placed").id("first").key("k")).await.unwrap());
    bench.append(&events(0, 1)).await;
    worker.until(1).await;
    // Far above it, so that its event is looked for by transaction.
    bench.sql("select setval('postroom.log_seq', 2000000)").await;
    bench.append(&events(1, 1)).await;
    worker.until(2).await;
    // Close by, and of the same key: it must come between the two.
    let mut near = bench.another().await.begin().await.unwrap();
    long.commit().await.unwrap();
    drop(bench.store.append(&mut near, &Event::new("order.placed").id("second").key("k")).await.unwrap());
    near.commit().await.unwrap();
    append(&bench.store, &[Event::new("order.placed").id("third").key("k")]).await.unwrap();
    let mut order = Vec::new();
    wait_for("all three", async || {
        let take = worker.look(100).await.unwrap();
        order.extend(take.deliveries.iter().map(|one| one.event.id.clone()));
        worker.settle(&take.deliveries).await.unwrap();
        order.len() == 3
    })
    .await;
    assert_eq!(order, ["first", "second", "third"]);
    assert_eq!(bench.agrees().await, 5);
}

#[tokio::test]
async fn a_lane_with_few_events_does_not_walk_over_the_numbers_of_others() {
    let bench = Bench::new().await;
    let mut worker = bench.worker().await;
    bench.append(&events(0, 4)).await;
    worker.until(4).await;
    for gap in [1_000_000_000_i64, 10_000_000_000] {
        bench.sql(&format!("select setval('postroom.log_seq', {gap})")).await;
        let before = worker.came.len();
        let open = open(&bench, 5).await;
        bench.append(&events(before, 1)).await;
        worker.until(before + 1).await;
        for tx in open {
            tx.rollback().await.unwrap();
        }
        bench.append(&events(before + 1, 1)).await;
        let began = Instant::now();
        worker.until(before + 2).await;
        assert!(began.elapsed() < SOON, "over {gap} numbers: {:?}", began.elapsed());
    }
    assert_eq!(bench.agrees().await, 8);
}
