//! Stops, crashes, take-overs, pauses.

use std::time::Duration;

use postroom_admin::{Inspect as _, Operate as _};
use postroom_core::{Receipt, RouteState};

use crate::engine::order::actor;
use crate::engine::shop::Shop;

#[tokio::test(start_paused = true)]
async fn a_graceful_stop_waits_for_what_is_on_its_way_and_repeats_nothing() {
    let mut shop = Shop::open().await;
    shop.transport.hold_when(|a| a.event.id == "5");
    shop.fill(100, 100).await;
    let running = shop.start();
    shop.transport.stuck(1).await;
    shop.transport.delivered(99).await;
    let transport = shop.transport.clone();
    tokio::spawn(async move {
        tokio::time::sleep(Duration::from_secs(3)).await;
        transport.release(&Ok(Receipt::default()));
    });
    running.stop().await;
    assert!(shop.transport.is_closed());
    assert!(shop.store.relays().await.unwrap().is_empty(), "it has left");
    shop.transport.clear_rules();
    shop.drain().await;
    assert_eq!(shop.transport.delivered_ids().len(), 100);
}

#[tokio::test(start_paused = true)]
async fn a_stop_that_outlasts_its_grace_ends_and_the_rest_is_repeated() {
    let mut shop = Shop::open().await;
    shop.transport.hold_when(|_| true);
    shop.append("a", "k").await;
    let running = shop.start();
    shop.transport.stuck(1).await;
    let before = tokio::time::Instant::now();
    running.stop().await;
    assert!(before.elapsed() < Duration::from_secs(22), "{:?}", before.elapsed());
    shop.transport.clear_rules();
    shop.drain().await;
    assert_eq!(shop.transport.delivered_ids(), ["a"]);
}

#[tokio::test(start_paused = true)]
async fn a_crash_repeats_at_most_in_flight_max_and_loses_nothing() {
    let mut shop = Shop::open().await;
    shop.options.in_flight_max = 8;
    shop.fill(500, 20).await;
    for round in 1..=20 {
        let running = shop.start();
        shop.transport.delivered(round * 20).await;
        running.crash().await;
        tokio::time::sleep(shop.options.lease).await;
    }
    shop.drain().await;
    let ids = shop.transport.delivered_ids();
    let mut distinct = ids.clone();
    distinct.sort_unstable();
    distinct.dedup();
    assert_eq!(distinct.len(), 500);
    assert!(ids.len() - distinct.len() <= 20 * 8, "{} copies", ids.len() - distinct.len());
}

#[tokio::test(start_paused = true)]
async fn a_standby_takes_over_when_the_lease_is_over_and_not_before() {
    let shop = Shop::open().await;
    let first = shop.start();
    shop.append("a", "k").await;
    shop.transport.delivered(1).await;
    let second = shop.start();
    tokio::time::sleep(Duration::from_mins(1)).await;
    first.crash().await;
    let before = tokio::time::Instant::now();
    shop.fill(40, 40).await;
    shop.transport.delivered(41).await;
    assert!(before.elapsed() <= shop.options.lease + Duration::from_millis(100), "{:?}", before.elapsed());
    second.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_pause_stops_new_deliveries_and_resume_goes_on() {
    let shop = Shop::open().await;
    let running = shop.start();
    shop.append("a", "k").await;
    shop.transport.delivered(1).await;
    shop.store.pause("shop", &actor()).await.unwrap();
    shop.until(|r| r.status.state == RouteState::Paused).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    shop.append("b", "k").await;
    tokio::time::sleep(Duration::from_mins(1)).await;
    assert_eq!(shop.transport.delivered_ids(), ["a"]);
    shop.store.resume("shop", &actor()).await.unwrap();
    shop.transport.delivered(2).await;
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_drain_of_a_paused_route_ends_at_once() {
    let mut shop = Shop::open().await;
    shop.store.pause("shop", &actor()).await.unwrap();
    shop.append("a", "k").await;
    shop.drain().await;
    assert!(shop.transport.arrivals().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_drain_waits_for_what_another_relay_holds() {
    let mut shop = Shop::open().await;
    shop.transport.hold_when(|_| true);
    shop.append("a", "k").await;
    let running = shop.start();
    shop.transport.stuck(1).await;
    running.crash().await;
    shop.transport.clear_rules();
    shop.drain().await;
    assert_eq!(shop.transport.delivered_ids(), ["a"], "after the lease of the crashed one");
}
