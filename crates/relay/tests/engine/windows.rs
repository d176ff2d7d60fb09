//! Limits: slots, windows, rate, bytes; and that one slow thing does not hold back another.

use std::sync::Arc;
use std::time::Duration;

use postroom_admin::Operate;
use postroom_core::{Budget, Capabilities, Event, Receipt};
use postroom_relay::Route;
use postroom_testing::{Reply, ScriptedTransport, TokioClock};

use crate::engine::shop::Shop;

#[tokio::test(start_paused = true)]
async fn never_more_than_in_flight_max_are_on_their_way() {
    let mut shop = Shop::open().await;
    shop.options.in_flight_max = 16;
    shop.transport.hold_when(|_| true);
    shop.fill(100, 100).await;
    let running = shop.start();
    shop.transport.stuck(16).await;
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(shop.transport.arrivals().len(), 16);
    running.crash().await;
}

#[tokio::test(start_paused = true)]
async fn a_transports_own_window_is_respected() {
    let mut shop = Shop::open().await;
    shop.transport = ScriptedTransport::with(Capabilities { in_flight_max: Some(3), ..Capabilities::plain("narrow") });
    shop.transport.hold_when(|_| true);
    shop.fill(100, 100).await;
    let running = shop.start();
    shop.transport.stuck(3).await;
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(shop.transport.arrivals().len(), 3);
    running.crash().await;
}

#[tokio::test(start_paused = true)]
async fn one_stuck_delivery_does_not_hold_back_the_others() {
    let shop = Shop::open().await;
    shop.transport.hold_when(|a| a.event.id == "0");
    shop.fill(5000, 100).await;
    let running = shop.start();
    shop.transport.delivered(4950).await;
    assert_eq!(shop.status().await.status.dead, 0);
    shop.transport.clear_rules();
    shop.transport.release(&Ok(Receipt::default()));
    shop.transport.delivered(5000).await;
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_route_whose_destination_hangs_does_not_starve_another() {
    let shop = Shop::open().await;
    let hanging = ScriptedTransport::new();
    hanging.hold_when(|_| true);
    shop.fill(3000, 3000).await;
    let relay = shop.relay().route(Route::named("hanging").from_beginning().to(hanging.clone()));
    let task = tokio::spawn(relay.run(std::future::pending()));
    hanging.stuck(300).await;
    shop.transport.delivered(3000).await;
    assert!(hanging.arrivals().len() <= 384, "{}", hanging.arrivals().len());
    task.abort();
}

#[tokio::test(start_paused = true)]
async fn a_rate_is_kept() {
    let mut shop = Shop::open().await;
    shop.rate = Some(100.0);
    shop.fill(1000, 1000).await;
    let start = tokio::time::Instant::now();
    shop.drain().await;
    let took = start.elapsed().as_secs_f64();
    assert!((9.5..11.0).contains(&took), "1000 at 100/s took {took} s");
}

#[tokio::test(start_paused = true)]
async fn large_payloads_are_held_by_bytes_not_by_number() {
    let mut shop = Shop::open().await;
    shop.options.take = Budget { rows: 500, bytes: 64 * 1024 };
    shop.transport.hold_when(|_| true);
    let large = |n: usize| Event::new("t").key(n.to_string()).bytes("text/plain", vec![b'x'; 32 * 1024]);
    Operate::append(&shop.store, &(0..200).map(large).collect::<Vec<_>>()).await.unwrap();
    let running = shop.start();
    shop.transport.stuck(10).await;
    tokio::time::sleep(Duration::from_secs(10)).await;
    let held = shop.transport.arrivals().len();
    assert!(held <= 18, "{held} × 32 KiB are held although eight takes of 64 KiB are the limit");
    running.crash().await;
}

#[tokio::test(start_paused = true)]
async fn an_event_appended_while_the_relay_sleeps_is_delivered_at_once() {
    let shop = Shop::open().await;
    let running = shop.start();
    tokio::time::sleep(Duration::from_mins(1)).await;
    let before = tokio::time::Instant::now();
    shop.append("a", "k").await;
    shop.transport.delivered(1).await;
    assert!(before.elapsed() <= Duration::from_millis(50), "{:?}", before.elapsed());
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_delayed_event_waits_for_its_time_and_blocks_nobody() {
    let mut shop = Shop::open().await;
    let clock = TokioClock::new();
    let at = postroom_core::Clock::now(&clock).checked_add(Duration::from_secs(30)).unwrap();
    Operate::append(&shop.store, &[Event::new("t").id("later").key("k").available_at(at)]).await.unwrap();
    shop.append("now", "k").await;
    let running = shop.start();
    shop.transport.delivered(2).await;
    assert_eq!(shop.transport.delivered_ids(), ["now", "later"]);
    running.stop().await;
    shop.drain().await;
}

#[tokio::test(start_paused = true)]
async fn a_slow_destination_is_used_to_its_full_width() {
    let mut shop = Shop::open().await;
    shop.options.in_flight_max = 64;
    let clock: Arc<dyn postroom_core::Clock> = Arc::new(TokioClock::new());
    shop.transport.rule(move |_| Some(Reply::Slow(Duration::from_millis(100), clock.clone())));
    shop.fill(6400, 6400).await;
    let start = tokio::time::Instant::now();
    shop.drain().await;
    let ideal = 10.0;
    let took = start.elapsed().as_secs_f64();
    assert!(took < ideal * 1.1, "{took} s, the ideal is {ideal} s");
}
