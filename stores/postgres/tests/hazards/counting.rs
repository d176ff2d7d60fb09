//! A relay counts by itself whether it has seen every event up to its positions.

use std::collections::BTreeMap;
use std::time::Duration;

use postroom_admin::ManagedStore as _;
use postroom_core::{Event, Outbox as _, RouteHealth, RouteSpec, Store as _};

use crate::hazards::bench::{Bench, LEASE, Worker, events, relay, wait_for};
use crate::hazards::sweeps::retained;

/// What the renewals of a relay say of its counts.
async fn differs(worker: &Worker) -> Option<String> {
    worker.source.renew(&RouteHealth::running()).await.unwrap().ownership.differs
}

/// Segments of a second: lanes are counted every second.
async fn bench() -> Bench {
    Bench::with(|options| options.lanes(2).partitions(10).segment(Duration::from_secs(1))).await
}

#[tokio::test]
async fn an_event_that_was_passed_is_noticed_by_the_relay_that_passed_it() {
    let bench = bench().await;
    bench.append(&events(0, 100)).await;
    let mut worker = bench.worker().await;
    worker.until(100).await;
    // Counted once, and again over what the position has moved over since.
    for n in [100, 200] {
        assert_eq!(differs(&worker).await, None);
        bench.append(&events(n, 100)).await;
        worker.until(n + 100).await;
    }
    assert_eq!(differs(&worker).await, None);
    // A number below the position that no read will ever bring: what a skipped event looks like.
    bench
        .sql(
            "insert into postroom.log (partition, lane, tx, seq, id, type, occurred_at, payload) \
             select partition, lane, tx, seq - 1000000, 'passed', type, occurred_at, payload from postroom.log order by seq desc limit 1",
        )
        .await;
    // The relay has counted that far already; whoever takes the lanes next counts from the first row on.
    worker.source.release().await.unwrap();
    let mut next = bench.worker().await;
    next.look(100).await.unwrap();
    wait_for("the difference", async || {
        next.look(100).await.unwrap();
        differs(&next).await.is_some_and(|words| words.starts_with("counts_differ: lane "))
    })
    .await;
    bench.append(&events(300, 50)).await;
    next.until(50).await;
    bench.sql("delete from postroom.log where id = 'passed'").await;
    wait_for("agreement", async || {
        next.look(100).await.unwrap();
        differs(&next).await.is_none()
    })
    .await;
}

#[tokio::test]
async fn what_lay_before_a_new_route_on_a_long_log_is_counted_beside_its_work() {
    let bench = Bench::with(|options| options.lanes(4).partitions(10).segment(Duration::from_secs(1))).await;
    retained(&bench, 40_000).await;
    let source = bench.store.source(&relay(LEASE), &RouteSpec::new("mailer")).await.unwrap();
    let mut worker = Worker { source, came: BTreeMap::new() };
    // Nobody waits for a count of so many.
    let before = "select string_agg(distinct base::text, ',') from (select distinct on (lane) base from postroom.checkpoint \
                  order by lane, term desc, id desc) c";
    assert_eq!(bench.one(before).await, "-1");
    worker.look(10).await.unwrap();
    let mut came = 0;
    wait_for("the count of all lanes", async || {
        // A checkpoint of each lane, which takes over what was counted.
        bench.append(&events(came, 50)).await;
        came += 50;
        worker.until(came).await;
        assert_eq!(differs(&worker).await, None);
        bench.one(before).await == "10000"
    })
    .await;
    assert_eq!(bench.agrees().await, came as u64);
    // And then a loss shows.
    bench.sql("delete from postroom.log where id = 'old-7'").await;
    assert!(bench.store.admin().verify().await.unwrap().iter().any(|row| !row.differences.is_empty()));
}

#[tokio::test]
async fn an_event_in_a_gap_that_was_just_read_over_is_noticed_while_the_relay_goes_on() {
    let bench = bench().await;
    bench.append(&events(0, 10)).await;
    let mut worker = bench.worker().await;
    worker.until(10).await;
    wait_for("the first count", async || {
        worker.look(10).await.unwrap();
        differs(&worker).await.is_none()
    })
    .await;
    // Numbers that roll-backs left out.
    bench.sql("select nextval('postroom.log_seq') from generate_series(1, 10)").await;
    bench.append(&events(10, 10)).await;
    worker.until(20).await;
    bench
        .sql(
            "insert into postroom.log (partition, lane, tx, seq, id, type, occurred_at, payload) \
             select partition, lane, tx, 15, 'passed', type, occurred_at, payload from postroom.log where seq = 21",
        )
        .await;
    wait_for("the difference", async || {
        worker.look(10).await.unwrap();
        differs(&worker).await.is_some()
    })
    .await;
}

#[tokio::test]
async fn a_new_route_counts_on_from_where_another_stands() {
    let bench = Bench::with(|options| options.lanes(2)).await;
    let mut worker = bench.worker().await;
    // One commits late and one rolls back; between them the first route reads on, and more follows that it has not read.
    let [mut late, mut gone] = [bench.store.begin().await.unwrap(), bench.another().await.begin().await.unwrap()];
    for (tx, id) in [(&mut late, "late"), (&mut gone, "gone")] {
        for n in 0..5 {
            let event = Event::new("order.placed").id(format!("{id}-{n}")).key(format!("{id}-{n}"));
            drop(bench.store.append(tx, &event).await.unwrap());
        }
    }
    bench.append(&events(0, 20)).await;
    worker.until(20).await;
    late.commit().await.unwrap();
    gone.rollback().await.unwrap();
    bench.append(&events(20, 10)).await;
    let source = bench.store.source(&relay(LEASE), &RouteSpec::new("second")).await.unwrap();
    let base = bench.one("select sum(base) from postroom.checkpoint where route = 'second'").await;
    assert_eq!(base, "35", "what it found when it started");
    let mut second = Worker { source, came: BTreeMap::new() };
    second.look(500).await.unwrap();
    bench.append(&events(30, 10)).await;
    second.until(10).await;
    worker.until(45).await;
    bench.agrees().await;
}
