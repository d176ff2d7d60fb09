//! A destination that is down, and an event that brings it down.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use postroom_admin::{Inspect as _, Operate, Selection};
use postroom_core::{BreakerCounts, Clock, Event, Failure, RouteState};
use postroom_testing::{Reply, TokioClock};

use crate::engine::shop::{Shop, retry_every};

#[tokio::test(start_paused = true)]
async fn an_outage_pauses_the_route_counts_no_attempt_and_kills_nothing() {
    let shop = Shop::open().await;
    shop.transport.go_down();
    shop.fill(500, 50).await;
    let running = shop.start();
    shop.until(|r| r.status.state == RouteState::BreakerOpen).await;
    assert_eq!(shop.status().await.status.message, "scripted.down: the destination is down");
    tokio::time::sleep(Duration::from_mins(30)).await;
    let probes = shop.transport.arrivals().len();
    assert!(probes < 500 + 250, "half an hour of probes, not of attempts: {probes}");
    let status = shop.status().await.status;
    assert_eq!((status.delivered, status.retrying, status.dead), (0, 0, 0));

    shop.transport.come_back();
    shop.transport.delivered(500).await;
    shop.until(|r| r.status.delivered == 500 && r.status.state == RouteState::Running).await;
    let status = shop.status().await.status;
    assert_eq!((status.message.as_str(), status.dead), ("", 0));
    assert!(shop.timeline("0").await.routes[0].attempts.is_empty(), "no attempt was counted");
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_outage_keeps_the_order_of_every_key() {
    let mut shop = Shop::open().await;
    shop.transport.rule(|a| {
        (a.event.id == "13" && a.attempt == 1)
            .then(|| Reply::Fail(Failure::unavailable("test.down", "down").retry_after(Duration::from_secs(3))))
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
async fn a_destination_that_answers_is_never_down_whatever_it_answers() {
    let mut shop = Shop::open().await;
    shop.retry.attempts = 2;
    shop.transport.fail_when(|_| true, Failure::transient("test.500", "internal error"));
    shop.fill(100, 100).await;
    let running = shop.start();
    let mut opened = false;
    shop.until(|r| {
        opened |= matches!(r.status.state, RouteState::BreakerOpen | RouteState::HalfOpen);
        r.status.dead == 100
    })
    .await;
    assert!(!opened);
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn where_a_route_counts_all_failures_ten_in_a_row_open_the_breaker_and_a_success_closes_it() {
    let mut shop = Shop::open().await;
    shop.breaker.counts = BreakerCounts::All;
    shop.retry = retry_every(Duration::from_secs(5), 1_000);
    let fixed = Arc::new(AtomicBool::new(false));
    let works = Arc::clone(&fixed);
    shop.transport.fail_when(move |_| !works.load(Ordering::SeqCst), Failure::transient("test.500", "internal error"));
    shop.options.in_flight_max = 4;
    shop.fill(9, 9).await;
    let running = shop.start();
    shop.until(|r| r.status.retrying == 9).await;
    assert_eq!(shop.status().await.status.state, RouteState::Running, "nine are not ten");
    shop.append("tenth", "tenth").await;
    shop.until(|r| r.status.state == RouteState::BreakerOpen).await;
    assert_eq!(shop.status().await.status.message, "test.500: internal error");
    let before = shop.transport.arrivals().len();
    tokio::time::sleep(Duration::from_mins(10)).await;
    let probes = shop.transport.arrivals().len() - before;
    // Each is tried when its delay is over, and ten in a row cost a pause: the pauses stay short, whoever else waits is asked.
    assert!((500..=1_200).contains(&probes), "ten events every five seconds, and pauses: {probes}");
    fixed.store(true, Ordering::SeqCst);
    shop.transport.delivered(10).await;
    shop.until(|r| r.status.state == RouteState::Running).await;
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn after_an_outage_several_events_of_different_keys_and_types_are_asked_with_at_once() {
    let shop = Shop::open().await;
    let kinds = ["a", "a", "a", "a", "a", "a", "b", "c"];
    let event = |(n, kind): (usize, &&str)| Event::new(*kind).id(n.to_string()).key(format!("k{n}"));
    Operate::append(&shop.store, &kinds.iter().enumerate().map(event).collect::<Vec<_>>()).await.unwrap();
    shop.transport.go_down();
    let running = shop.start();
    shop.transport.arrived(8).await;
    let mut rounds = Vec::new();
    for _ in 0..3 {
        let before = shop.transport.arrivals().len();
        shop.transport.arrived(before + 1).await;
        // All of a round come at the same instant; the next one is a cool-down away.
        tokio::time::sleep(Duration::from_millis(10)).await;
        rounds.push(shop.transport.arrivals().split_off(before));
    }
    let kinds_of = |n: usize| rounds[n].iter().map(|a| a.event.event_type.as_str()).collect::<HashSet<_>>();
    assert_eq!(rounds.iter().map(Vec::len).collect::<Vec<_>>(), [4, 4, 1]);
    assert_eq!(kinds_of(0).len(), 3, "of each type one");
    let keys: HashSet<_> = rounds[..2].iter().flatten().map(|a| a.event.key.clone()).collect();
    assert_eq!(keys.len(), 8, "each key once before one is asked with again");
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn one_event_that_is_never_answered_stops_nobody() {
    let mut shop = Shop::open().await;
    shop.retry.attempts = 2;
    let clock: Arc<dyn Clock> = Arc::new(TokioClock::new());
    shop.transport.rule(move |a| {
        let silence = Failure::unavailable("test.timeout", "no answer within 30 s");
        a.event.id.starts_with("hangs").then(|| Reply::FailSlow(Duration::from_secs(30), Arc::clone(&clock), silence))
    });
    let running = shop.start();
    let mut opened = false;
    for second in 0..300 {
        if second < 100 {
            shop.append(&format!("hangs-{second}"), &format!("h{second}")).await;
        }
        for n in 0..5 {
            shop.append(&format!("{second}-{n}"), &format!("{second}-{n}")).await;
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
        opened |= shop.status().await.status.state != RouteState::Running;
        let delivered = shop.transport.delivered_ids().len();
        assert!(delivered >= 5 * second, "{delivered} of {} after {second} s", 5 * second + 5);
    }
    assert!(!opened, "the destination answered others all the time");
    shop.until(|r| r.status.dead == 100).await;
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
    let early = Failure::not_yet("handler.missing", "no handler matches").retry_after(Duration::from_secs(30));
    let upgraded = Arc::new(AtomicBool::new(false));
    let knows = Arc::clone(&upgraded);
    shop.transport.fail_when(move |a| a.event.id.starts_with("new") && !knows.load(Ordering::SeqCst), early);
    for n in 0..100 {
        shop.append(&format!("new-{n}"), &format!("k-{n}")).await;
    }
    shop.fill(50, 10).await;
    let running = shop.start();
    shop.transport.delivered(50).await;
    // Sixty tries each, of which a failure would have two.
    tokio::time::sleep(Duration::from_mins(30)).await;
    let status = shop.status().await.status;
    assert_eq!((status.state, status.dead, status.retrying), (RouteState::Running, 0, 100), "{status:?}");
    let waiting = shop.timeline("new-7").await;
    assert_eq!(waiting.routes[0].attempts[0].code, "handler.missing");
    upgraded.store(true, Ordering::SeqCst);
    shop.transport.delivered(150).await;
    shop.until(|r| r.status.delivered == 150).await;
    running.stop().await;
}
