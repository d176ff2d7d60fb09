//! A transport with a place for dead letters, and a receiver that is gone for good.

use std::time::Duration;

use postroom_admin::{Inspect as _, Operate as _, Selection};
use postroom_core::{Actor, Capabilities, Failure, RouteState};
use postroom_testing::{Reply, ScriptedTransport};

use crate::engine::shop::{Shop, retry_every};

async fn shop() -> Shop {
    let mut shop = Shop::open().await;
    shop.transport =
        ScriptedTransport::with(Capabilities { takes_dead_letters: true, ..Capabilities::plain("scripted") });
    shop
}

#[tokio::test(start_paused = true)]
async fn a_dead_letter_is_published_before_it_is_settled_and_its_key_goes_on() {
    let mut shop = shop().await;
    shop.retry = retry_every(Duration::from_secs(1), 2);
    let bad = |dead_letter: bool| {
        move |a: &postroom_testing::Arrival| a.event.id == "1" && a.dead_letter.is_some() == dead_letter
    };
    shop.transport.fail_when(bad(false), Failure::transient("test.bad", "no"));
    shop.transport.hold_when(bad(true));
    shop.fill(6, 2).await;
    let running = shop.start();
    shop.transport.stuck(1).await;
    shop.until(|r| r.status.delivered == 3).await;
    assert_eq!(shop.status().await.status.dead, 0, "dead before its dead letter was published");
    shop.transport.release(&Ok(postroom_core::Receipt::default()));
    shop.until(|r| r.status.dead == 1 && r.status.delivered == 5).await;
    running.stop().await;

    let dead_letters: Vec<_> = shop.transport.arrivals().into_iter().filter_map(|a| a.dead_letter).collect();
    assert_eq!(dead_letters.len(), 1);
    assert_eq!((dead_letters[0].attempts, &*dead_letters[0].failure.code), (2, "test.bad"));
    let dead = shop.store.dead(&Selection::default(), 0, 10).await.unwrap();
    assert_eq!((dead[0].id.as_str(), dead[0].attempts), ("1", 2));
    let ids = shop.transport.delivered_ids();
    let of_key: Vec<&String> = ids.iter().filter(|id| id.parse::<usize>().unwrap() % 2 == 1).collect();
    assert_eq!(of_key, ["1", "3", "5"], "its dead letter first, then those behind it");
}

#[tokio::test(start_paused = true)]
async fn a_dead_letter_that_cannot_be_published_now_is_published_later() {
    let mut shop = shop().await;
    shop.transport.rule(|a| match (&a.dead_letter, a.event.id.as_str()) {
        (None, "0") => Some(Reply::Fail(Failure::permanent("test.large", "too large"))),
        _ => None,
    });
    let refusals = std::sync::atomic::AtomicUsize::new(0);
    shop.transport.rule(move |a| {
        let again = a.dead_letter.is_some() && refusals.fetch_add(1, std::sync::atomic::Ordering::Relaxed) < 3;
        again.then(|| Reply::Fail(Failure::transient("test.full", "full")))
    });
    shop.fill(4, 4).await;
    shop.drain().await;
    let status = shop.status().await.status;
    assert_eq!((status.delivered, status.dead), (3, 1));
    assert_eq!(shop.transport.arrivals().iter().filter(|a| a.dead_letter.is_some()).count(), 4);
    assert_eq!(
        shop.store.dead(&Selection::default(), 0, 10).await.unwrap()[0].attempts,
        1,
        "dead_letters are no attempts"
    );
}

#[tokio::test(start_paused = true)]
async fn a_dead_letter_that_can_never_be_published_is_still_recorded() {
    let mut shop = shop().await;
    shop.transport.fail_when(|a| a.event.id == "0", Failure::permanent("test.large", "too large"));
    shop.fill(2, 2).await;
    shop.drain().await;
    let status = shop.status().await.status;
    assert_eq!((status.delivered, status.dead), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn an_outage_of_the_place_for_dead_letters_loses_nothing() {
    let mut shop = shop().await;
    shop.transport.fail_when(|a| a.event.id == "0" && a.dead_letter.is_none(), Failure::permanent("test.bad", "bad"));
    let outages = std::sync::atomic::AtomicUsize::new(0);
    shop.transport.rule(move |a| {
        let down = a.dead_letter.is_some() && outages.fetch_add(1, std::sync::atomic::Ordering::Relaxed) < 2;
        down.then(|| Reply::Fail(Failure::unavailable("test.down", "down")))
    });
    shop.fill(20, 5).await;
    shop.drain().await;
    let status = shop.status().await.status;
    assert_eq!((status.delivered, status.dead), (19, 1));
}

#[tokio::test(start_paused = true)]
async fn a_receiver_that_is_gone_disables_the_route_until_it_is_resumed() {
    let shop = Shop::open().await;
    shop.transport.fail_when(|_| true, Failure::gone("test.gone", "410 Gone"));
    shop.fill(50, 10).await;
    let running = shop.start();
    shop.until(|r| r.status.state == RouteState::Disabled).await;
    let status = shop.status().await.status;
    assert_eq!(status.message, "test.gone: 410 Gone; `route resume` tries again");
    tokio::time::sleep(Duration::from_mins(1)).await;
    let asked = shop.transport.arrivals().len();
    // Many times the longest pause of a breaker.
    tokio::time::sleep(Duration::from_mins(30)).await;
    assert_eq!(shop.transport.arrivals().len(), asked, "a receiver that is gone is left alone");
    let status = shop.status().await.status;
    assert_eq!((status.delivered, status.dead, status.retrying, status.due), (0, 0, 0, Some(50)), "events are held");

    shop.transport.clear_rules();
    let actor = Actor { name: "ops".to_owned(), reason: None };
    assert!(shop.store.resume("shop", &actor).await.unwrap());
    shop.until(|r| r.status.delivered == 50 && r.status.state == RouteState::Running).await;
    running.stop().await;
}
