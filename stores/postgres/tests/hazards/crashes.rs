//! Servers that crash between one step and the next.

use std::time::Duration;

use postroom_core::Settlement;
use postroom_testbed::Cluster;

use crate::hazards::bench::{Bench, LEASE, Worker, dead, delivered, events, retry, rounds};

/// H-16, and H-28 as far as the database's side of a relay goes.
#[tokio::test]
async fn a_server_that_crashes_between_take_and_settle_loses_nothing() {
    let cluster = Cluster::start(&[("synchronous_commit", "on")]).await;
    let bench = Bench::at(cluster.url("postgres")).await;
    let mut worker = Worker::on(&bench.another().await, LEASE).await;
    let (crashes, mut in_hand, mut died) = (rounds(5, 60), 0, 0);
    for n in 0..crashes {
        bench.append(&events(30 * n, 30)).await;
        let taken = worker.take(20).await;
        let settlements: Vec<Settlement> = taken.iter().map(verdict).collect();
        if n % 3 == 0 {
            // Settled before the crash: these must not come again.
            worker.source.settle(&settlements).await.unwrap();
            died += taken.iter().filter(|one| is_bad(one)).count();
        } else {
            in_hand += taken.len();
        }
        if n % 4 == 3 {
            cluster.stop_fast().await;
        } else {
            cluster.kill_postmaster().await;
        }
        cluster.start_again().await;
        worker.settle_all(&settlements).await;
    }
    worker.until(30 * crashes).await;
    worker.drain().await;
    let retried = worker.came.keys().filter(|id| id.ends_with('5')).count();
    assert_eq!(worker.came.len(), 30 * crashes);
    assert!(worker.twice() <= in_hand + retried, "{} came twice, {in_hand} were in hand", worker.twice());
    let bench = Bench::at(cluster.url("postgres")).await;
    assert_eq!(bench.agrees().await, (30 * crashes - died) as u64);
    bench.no_doubles().await;
}

/// What was read ahead is the former server's.
#[tokio::test]
async fn a_server_that_was_restarted_costs_the_lanes_only_once() {
    let cluster = Cluster::start(&[]).await;
    let bench = Bench::at(cluster.url("postgres")).await;
    let mut worker = Worker::on(&bench.another().await, LEASE).await;
    bench.append(&events(0, 20_000)).await;
    while worker.came.len() < 5_000 {
        assert!(worker.look(500).await.unwrap().more, "and it is read ahead");
    }
    cluster.stop_fast().await;
    cluster.start_again().await;
    let mut lost = Vec::new();
    while worker.came.len() < 20_000 {
        if let Ok(take) = worker.look(500).await {
            lost.extend(take.ownership.lost);
        }
    }
    assert_eq!(lost.len(), 4, "each lane under one term: {lost:?}");
}

fn is_bad(delivery: &postroom_core::Delivery) -> bool {
    delivery.event.id.ends_with('3')
}

fn verdict(delivery: &postroom_core::Delivery) -> Settlement {
    match delivery.event.id.chars().last() {
        Some('3') => dead(delivery),
        Some('5') if delivery.attempts == 0 => retry(delivery, Duration::ZERO),
        _ => delivered(delivery),
    }
}
