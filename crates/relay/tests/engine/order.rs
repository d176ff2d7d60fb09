//! Order per key, and that the bad stay alone.

use std::time::Duration;

use postroom_admin::{Inspect as _, Operate as _, Selection};
use postroom_core::{Failure, OnDead, OnFailure};

use crate::engine::shop::{Shop, retry_every};

#[tokio::test(start_paused = true)]
async fn events_of_a_key_arrive_in_append_order() {
    let mut shop = Shop::open().await;
    shop.fill(2000, 7).await;
    shop.drain().await;
    let ids: Vec<usize> = shop.transport.delivered_ids().iter().map(|id| id.parse().unwrap()).collect();
    assert_eq!(ids.len(), 2000);
    for key in 0..7 {
        let of_key: Vec<_> = ids.iter().filter(|n| *n % 7 == key).collect();
        assert!(of_key.is_sorted(), "key {key}");
    }
}

#[tokio::test(start_paused = true)]
async fn one_event_per_key_is_on_its_way_at_a_time() {
    let shop = Shop::open().await;
    shop.transport.hold_when(|_| true);
    shop.fill(30, 3).await;
    let running = shop.start();
    shop.transport.stuck(3).await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(shop.transport.arrivals().len(), 3, "one of each key, however long it takes");
    shop.transport.clear_rules();
    shop.transport.release(&Ok(postroom_core::Receipt::default()));
    shop.transport.delivered(30).await;
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_failing_event_holds_its_key_and_nobody_else() {
    let mut shop = Shop::open().await;
    shop.retry = retry_every(Duration::from_mins(1), 3);
    shop.transport.fail_when(|a| a.event.id == "0" && a.attempt < 3, Failure::transient("test", "not yet"));
    shop.fill(20, 2).await;
    let running = shop.start();
    shop.transport.delivered(10).await;
    shop.until(|r| r.status.retrying == 1 && r.status.blocked_keys == 1).await;
    assert_eq!(shop.timeline("2").await.routes[0].blocked_by.as_deref(), Some("0"));
    shop.transport.delivered(20).await;
    running.stop().await;
    let of_key: Vec<usize> =
        shop.transport.delivered_ids().iter().map(|id| id.parse().unwrap()).filter(|n| n % 2 == 0).collect();
    assert_eq!(of_key, [0, 2, 4, 6, 8, 10, 12, 14, 16, 18]);
    assert_eq!(shop.timeline("0").await.routes[0].attempts.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_dead_letter_lets_its_key_go_on_unless_the_route_holds() {
    for (on_dead, delivered) in [(OnDead::Continue, 9), (OnDead::Hold, 0)] {
        let mut shop = Shop::open().await;
        shop.route.on_dead = on_dead;
        shop.store.forget("shop", &actor()).await.unwrap();
        shop.transport.fail_when(|a| a.event.id == "0", Failure::permanent("test", "never"));
        shop.fill(10, 1).await;
        shop.drain().await;
        assert_eq!(shop.transport.delivered_ids().len(), delivered, "{on_dead:?}");
        let dead = shop.store.dead(&Selection::default(), 0, 10).await.unwrap();
        assert_eq!((dead.len(), dead[0].attempts, dead[0].code.as_deref()), (1, 1, Some("test")));
    }
}

#[tokio::test(start_paused = true)]
async fn with_skip_later_events_pass_a_failing_one() {
    let mut shop = Shop::open().await;
    shop.route.on_failure = OnFailure::Skip;
    shop.store.forget("shop", &actor()).await.unwrap();
    shop.retry = retry_every(Duration::from_mins(1), 3);
    shop.transport.fail_when(|a| a.event.id == "0" && a.attempt == 1, Failure::transient("test", "not yet"));
    shop.fill(5, 1).await;
    shop.drain().await;
    assert_eq!(shop.transport.delivered_ids(), ["1", "2", "3", "4", "0"]);
}

#[tokio::test(start_paused = true)]
async fn attempts_end_in_a_dead_letter_with_every_try_on_record() {
    let mut shop = Shop::open().await;
    shop.retry.attempts = 4;
    shop.transport.fail_when(|_| true, Failure::transient("test.busy", "busy"));
    shop.append("a", "k").await;
    shop.drain().await;
    let timeline = shop.timeline("a").await;
    assert_eq!(timeline.routes[0].state, "dead");
    assert_eq!(timeline.routes[0].attempts.iter().map(|a| a.attempt).collect::<Vec<_>>(), [1, 2, 3, 4]);
    let seconds: Vec<i64> =
        timeline.routes[0].attempts.windows(2).map(|w| w[1].at.duration_since(w[0].at).as_secs()).collect();
    assert_eq!(seconds, [1, 2, 4], "base, then doubled");
}

#[tokio::test(start_paused = true)]
async fn a_transport_that_drops_a_delivery_has_failed_it() {
    let mut shop = Shop::open().await;
    shop.transport.rule(|a| (a.attempt == 1).then_some(postroom_testing::Reply::Drop));
    shop.append("a", "k").await;
    shop.drain().await;
    assert_eq!(shop.transport.delivered_ids(), ["a"]);
    assert_eq!(shop.timeline("a").await.routes[0].attempts[0].code, "transport.dropped");
}

pub(crate) fn actor() -> postroom_core::Actor {
    postroom_core::Actor { name: "test".to_owned(), reason: None }
}
