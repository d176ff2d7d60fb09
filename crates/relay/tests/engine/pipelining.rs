//! A transport that keeps a key's order itself is given several of a key at once, and the order still holds.

use postroom_admin::Operate as _;
use postroom_core::{Capabilities, Failure, OnDead, RouteState};
use postroom_testing::ScriptedTransport;

use crate::engine::shop::Shop;

async fn pipelining() -> Shop {
    let mut shop = Shop::open().await;
    shop.transport = ScriptedTransport::with(Capabilities { pipelines_key: true, ..Capabilities::plain("pipelining") });
    shop
}

#[tokio::test(start_paused = true)]
async fn a_key_is_pipelined() {
    let shop = pipelining().await;
    shop.transport.hold_when(|_| true);
    shop.fill(5, 1).await;
    let running = shop.start();
    shop.transport.stuck(5).await;
    shop.transport.release(&Ok(postroom_core::Receipt::default()));
    shop.until(|r| r.status.delivered == 5).await;
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn the_probe_of_a_pipelined_key_is_its_first_event() {
    let mut shop = pipelining().await;
    // Those behind were never on the wire, which makes them the better probes but for the order.
    shop.options.in_flight_max = 2;
    shop.transport.go_down();
    shop.fill(20, 1).await;
    let running = shop.start();
    shop.until(|r| r.status.state == RouteState::BreakerOpen).await;
    shop.transport.come_back();
    shop.until(|r| r.status.delivered == 20).await;
    let ids: Vec<usize> = shop.transport.delivered_ids().iter().map(|id| id.parse().unwrap()).collect();
    assert_eq!(ids, (0..20).collect::<Vec<_>>());
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_new_round_begins_when_all_that_was_on_the_wire_is_back() {
    let mut shop = pipelining().await;
    shop.options.in_flight_max = 4;
    shop.transport.hold_when(|a| matches!(&*a.event.id, "1" | "2") && a.attempt == 1 && a.round == 0);
    shop.transport.fail_when(|a| a.round == 0, Failure::unavailable("test.down", "down"));
    shop.fill(20, 1).await;
    let running = shop.start();
    shop.transport.arrived(4).await;
    shop.until(|r| r.status.state == RouteState::BreakerOpen).await;
    assert_eq!(shop.transport.arrivals().len(), 4, "two are on the wire");
    shop.transport.release(&Err(Failure::unavailable("test.down", "down")));
    shop.until(|r| r.status.delivered == 20).await;
    let rounds: Vec<u64> = shop.transport.arrivals().iter().map(|a| a.round).collect();
    assert_eq!(rounds[..4], [0; 4]);
    assert!(rounds[4..].iter().all(|round| *round == 1), "{rounds:?}");
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_route_that_holds_a_key_at_a_death_does_not_pipeline() {
    let mut shop = pipelining().await;
    shop.route.on_dead = OnDead::Hold;
    shop.store.register(std::slice::from_ref(&shop.route)).await.unwrap();
    shop.transport.fail_when(|a| a.event.id == "0", Failure::permanent("test.no", "no"));
    shop.fill(5, 1).await;
    let running = shop.start();
    shop.until(|r| r.status.dead == 1).await;
    shop.append("other", "free").await;
    shop.until(|r| r.status.delivered == 1).await;
    assert_eq!(shop.transport.delivered_ids(), ["other"], "an event passed a dead one that holds its key");
    running.stop().await;
}
