//! A destination that is down, and an event that brings it down.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use postroom_core::{Desk, Failure, RouteState, Selection};

use crate::shop::Shop;

#[tokio::test(start_paused = true)]
async fn an_outage_pauses_the_route_counts_no_attempt_and_kills_nothing() {
    let shop = Shop::open().await;
    shop.transport.go_down();
    shop.fill(500, 50).await;
    let running = shop.start();
    shop.until(|r| r.status.state == RouteState::BreakerOpen).await;
    assert_eq!(shop.status().await.status.note, "scripted.down: the destination is down");
    tokio::time::sleep(Duration::from_mins(30)).await;
    let probes = shop.transport.arrivals().len();
    assert!(probes < 500 + 90, "half an hour of probes, not of attempts: {probes}");
    let status = shop.status().await.status;
    assert_eq!((status.delivered, status.retrying, status.dead), (0, 0, 0));

    shop.transport.come_back();
    shop.transport.delivered(500).await;
    shop.until(|r| r.status.delivered == 500 && r.status.state == RouteState::Running).await;
    let status = shop.status().await.status;
    assert_eq!((status.note.as_str(), status.dead), ("", 0));
    assert!(shop.timeline("0").await.routes[0].attempts.is_empty(), "no attempt was counted");
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_outage_keeps_the_order_of_every_key() {
    let mut shop = Shop::open().await;
    shop.transport.rule(|a| {
        (a.event.id == "13" && a.attempt == 1).then(|| {
            postroom_testing::Reply::Fail(Failure::unavailable("test.down", "down").retry_after(Duration::from_secs(3)))
        })
    });
    // The first try of 13 is always an outage; from the third on it is the event's own failure, then it goes through.
    shop.fill(100, 5).await;
    shop.drain().await;
    let ids: Vec<usize> = shop.transport.delivered_ids().iter().map(|id| id.parse().unwrap()).collect();
    assert_eq!(ids.len(), 100);
    for key in 0..5 {
        assert!(ids.iter().filter(|n| *n % 5 == key).is_sorted(), "key {key}: {ids:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_event_that_brings_its_destination_down_cannot_pause_the_route_for_ever() {
    let mut shop = Shop::open().await;
    shop.retry.attempts = 2;
    shop.transport.fail_when(|a| a.event.id == "killer", Failure::unavailable("test.died", "it died of this"));
    shop.append("killer", "bad").await;
    shop.fill(200, 20).await;
    shop.drain().await;
    assert_eq!(shop.transport.delivered_ids().len(), 200);
    let dead = shop.store.dead(&Selection::default(), 0, 10).await.unwrap();
    assert_eq!(dead.iter().map(|row| row.id.as_str()).collect::<Vec<_>>(), ["killer"]);
}

#[tokio::test(start_paused = true)]
async fn failures_of_many_keys_in_a_row_open_the_breaker() {
    let shop = Shop::open().await;
    shop.transport.fail_when(|_| true, Failure::transient("test.500", "internal error"));
    shop.fill(1000, 1000).await;
    let running = shop.start();
    shop.until(|r| r.status.state == RouteState::BreakerOpen).await;
    assert!(shop.transport.arrivals().len() <= 512, "{}", shop.transport.arrivals().len());
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn one_bad_key_does_not_open_the_breaker() {
    let mut shop = Shop::open().await;
    shop.retry.attempts = 12;
    shop.transport.fail_when(|a| a.event.id == "0", Failure::transient("test", "bad"));
    shop.fill(10, 10).await;
    shop.drain().await;
    let status = shop.status().await.status;
    assert_eq!((status.delivered, status.dead), (9, 1));
}

/// H-88: a program that is not upgraded yet meets events of types that it does not know.
#[tokio::test(start_paused = true)]
async fn what_is_too_early_waits_with_the_reason_while_the_rest_goes_on() {
    let mut shop = Shop::open().await;
    shop.retry.attempts = 2;
    let early =
        Failure::transient("handler.missing", "no handler matches").retry_after(Duration::from_secs(30)).waits();
    let upgraded = Arc::new(AtomicBool::new(false));
    let knows = Arc::clone(&upgraded);
    shop.transport.fail_when(move |a| a.event.id.starts_with("new") && !knows.load(Ordering::SeqCst), early);
    for n in 0..100 {
        shop.append(&format!("new-{n}"), &format!("k-{n}")).await;
    }
    shop.fill(50, 10).await;
    let running = shop.start();
    shop.transport.delivered(50).await;
    tokio::time::sleep(Duration::from_hours(6)).await;
    let status = shop.status().await.status;
    assert_eq!((status.state, status.dead, status.retrying), (RouteState::Running, 0, 100), "{status:?}");
    let waiting = shop.timeline("new-7").await;
    assert_eq!(waiting.routes[0].attempts[0].code, "handler.missing");
    upgraded.store(true, Ordering::SeqCst);
    shop.transport.delivered(150).await;
    shop.until(|r| r.status.delivered == 150).await;
    running.stop().await;
}
