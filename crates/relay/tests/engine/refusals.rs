//! A destination that answers "no": to a cluster of events, and to everything.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use postroom_admin::Operate;
use postroom_core::{Capabilities, Clock, Event, Failure, RouteState};
use postroom_testing::{Reply, ScriptedTransport, TokioClock};
use tokio::time::Instant;

use crate::engine::shop::{Shop, retry_every};

/// Answers `bad…` with a refusal and `good…` with a yes, after these times; `wide` at once, as a webhook does.
fn receiver(wide: usize, no_after: Duration, yes_after: Duration) -> ScriptedTransport {
    let capabilities = Capabilities { in_flight_max: Some(wide), ..Capabilities::plain("scripted") };
    let transport = ScriptedTransport::with(capabilities);
    let clock: Arc<dyn Clock> = Arc::new(TokioClock::new());
    transport.rule(move |a| {
        let clock = Arc::clone(&clock);
        let refusal = Failure::transient("test.500", "internal error");
        let bad = a.event.id.starts_with("bad");
        Some(if bad { Reply::FailSlow(no_after, clock, refusal) } else { Reply::Slow(yes_after, clock) })
    });
    transport
}

async fn append(shop: &Shop, what: &str, count: usize) {
    let event = |n| Event::new("order.placed").id(format!("{what}-{n}")).key(format!("{what}-{n}"));
    Operate::append(&shop.store, &(0..count).map(event).collect::<Vec<_>>()).await.unwrap();
}

/// How long the relay takes for 500 good events behind so many bad ones.
async fn good_behind(bad: usize, wide: usize, no_after: Duration) -> Duration {
    let mut shop = Shop::open().await;
    shop.retry = retry_every(Duration::from_secs(1), 1_000_000);
    shop.transport = receiver(wide, no_after, Duration::from_millis(5));
    append(&shop, "bad", bad).await;
    append(&shop, "good", 500).await;
    let began = Instant::now();
    let running = shop.start();
    shop.transport.delivered(500).await;
    let took = began.elapsed();
    assert_eq!(shop.transport.delivered_ids().len(), 500);
    running.crash().await;
    took
}

#[tokio::test(start_paused = true)]
async fn events_behind_a_cluster_of_bad_ones_flow_at_half_their_rate_or_more() {
    for (bad, wide) in [(100, 8), (2000, 8), (2000, 512)] {
        let control = good_behind(0, wide, Duration::ZERO).await;
        let behind = good_behind(bad, wide, Duration::from_millis(5)).await;
        assert!(behind <= control * 2 + Duration::from_millis(500), "{behind:?} behind {bad}, {control:?} without");
    }
}

/// What fails slowly must not take the places of the others, neither the first time nor when it is tried again.
#[tokio::test(start_paused = true)]
async fn events_behind_a_cluster_that_fails_slowly_need_not_wait_for_it() {
    let control = good_behind(0, 8, Duration::ZERO).await;
    for slow in [1, 10] {
        let slow = Duration::from_secs(slow);
        let behind = good_behind(400, 8, slow).await;
        // Ten must have failed before there is anything to see.
        assert!(behind <= control * 2 + 3 * slow, "{behind:?} behind those of {slow:?}, {control:?} without");
    }
}

#[tokio::test(start_paused = true)]
async fn retries_that_fail_slowly_leave_places_to_fresh_events() {
    let mut shop = Shop::open().await;
    shop.retry = retry_every(Duration::from_secs(1), 1_000_000);
    shop.transport = receiver(8, Duration::from_secs(30), Duration::from_millis(5));
    append(&shop, "bad", 100).await;
    let running = shop.start();
    while !(0..100).all(|n| shop.transport.arrivals().iter().any(|a| a.event.id == format!("bad-{n}"))) {
        let before = shop.transport.arrivals().len();
        shop.transport.arrived(before + 1).await;
    }
    // The last first tries have come to their end.
    tokio::time::sleep(Duration::from_secs(31)).await;
    for round in 0..50 {
        let began = Instant::now();
        append(&shop, &format!("good-{round}"), 20).await;
        shop.transport.delivered(20 * (round + 1)).await;
        let took = began.elapsed();
        assert!(took < Duration::from_secs(1), "round {round}: {took:?}");
        tokio::time::sleep(Duration::from_secs(3)).await;
    }
    running.crash().await;
}

#[tokio::test(start_paused = true)]
async fn a_destination_that_refuses_everything_is_asked_slowly_and_is_at_full_speed_after_the_first_success() {
    let mut shop = Shop::open().await;
    shop.retry = retry_every(Duration::from_secs(1), 1_000_000);
    let fixed = Arc::new(AtomicBool::new(false));
    let works = Arc::clone(&fixed);
    shop.transport.fail_when(move |_| !works.load(Ordering::SeqCst), Failure::transient("test.500", "internal error"));
    let running = shop.start();
    // Half of them are retries by the time it slows down, the others were never tried.
    for n in 0..20 {
        append(&shop, &format!("batch-{n}"), 300).await;
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    shop.until(|r| r.status.state == RouteState::Slowed).await;
    assert_eq!(shop.status().await.status.message, "test.500: internal error");
    tokio::time::sleep(Duration::from_secs(5)).await;
    let before = shop.transport.arrivals().len();
    tokio::time::sleep(Duration::from_mins(1)).await;
    let round = shop.transport.arrivals().split_off(before);
    assert!((60..=60 * 17).contains(&round.len()), "{} tries in a minute", round.len());
    assert!(round.iter().any(|a| a.attempt == 1) && round.iter().any(|a| a.attempt > 1), "fresh ones and others");

    fixed.store(true, Ordering::SeqCst);
    shop.transport.delivered(1).await;
    let first = Instant::now();
    shop.transport.delivered(6000).await;
    assert!(first.elapsed() < Duration::from_secs(2), "{:?}", first.elapsed());
    shop.until(|r| r.status.state == RouteState::Running && r.status.dead == 0).await;
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn one_type_that_fails_slows_nothing_down_while_another_succeeds() {
    let mut shop = Shop::open().await;
    shop.retry = retry_every(Duration::from_secs(1), 1_000_000);
    shop.transport.fail_when(|a| a.event.event_type == "new.type", Failure::transient("test.500", "no such type"));
    let running = shop.start();
    for round in 0..30 {
        let event = |n| Event::new("new.type").id(format!("{round}-{n}")).key(format!("{round}-{n}"));
        Operate::append(&shop.store, &(0..50).map(event).collect::<Vec<_>>()).await.unwrap();
        append(&shop, &format!("good-{round}"), 1).await;
        tokio::time::sleep(Duration::from_secs(10)).await;
        assert_eq!(shop.status().await.status.state, RouteState::Running, "round {round}");
    }
    assert_eq!(shop.transport.delivered_ids().len(), 30);
    running.crash().await;
}
