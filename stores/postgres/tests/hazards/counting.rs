//! A relay counts by itself whether it has seen every event up to its positions.

use std::time::Duration;

use postroom_core::RouteHealth;

use crate::bench::{Bench, Worker, events, wait_for};

/// What the renewals of a relay say of its counts.
async fn differs(worker: &Worker) -> Option<String> {
    worker.source.renew(&RouteHealth::running()).await.unwrap().standing.differs
}

/// Segments of a second: lanes are counted every second.
async fn bench() -> Bench {
    Bench::with(|options| options.lanes(2).leaves(10).segment(Duration::from_secs(1))).await
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
            "insert into postroom.log (seg, lane, tx, seq, id, type, occurred_at, payload) \
             select seg, lane, tx, seq - 1000000, 'passed', type, occurred_at, payload from postroom.log order by seq desc limit 1",
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
            "insert into postroom.log (seg, lane, tx, seq, id, type, occurred_at, payload) \
             select seg, lane, tx, 15, 'passed', type, occurred_at, payload from postroom.log where seq = 21",
        )
        .await;
    wait_for("the difference", async || {
        worker.look(10).await.unwrap();
        differs(&worker).await.is_some()
    })
    .await;
}
