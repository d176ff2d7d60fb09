//! What a take promises: in order per key, within its budget, nothing twice, nothing before its time.

use std::time::Duration;

use futures_util::FutureExt;
use postroom_core::{Budget, Clock, Event, Filter, Outbox, RouteSpec};

use super::bench::{SECOND, event, events, ids, named, names, of_key, route, sorted};
use super::{Bench, StoreHarness, Worker};

pub async fn deliveries_of_one_key_come_in_append_order<H: StoreHarness>(s: &Bench<H>) {
    for n in 1..=40 {
        s.append(&[event("a", n), event("b", n), event(&format!("other{n}"), 1)]).await;
    }
    let worker = s.serve(&route()).await;
    let mut came = Vec::new();
    loop {
        let taken = worker.source.take(Budget { rows: 7, bytes: 1 << 20 }).await.unwrap().deliveries;
        if taken.is_empty() {
            break;
        }
        came.extend(ids(&taken));
        worker.deliver(&taken).await;
    }
    assert_eq!(came.len(), 120);
    assert_eq!(of_key(&came, "a"), names("a", 1..=40));
    assert_eq!(of_key(&came, "b"), names("b", 1..=40));
}

pub async fn a_delivery_says_where_it_comes_from<H: StoreHarness>(s: &Bench<H>) {
    let now = s.harness.clock().now();
    s.append(&[event("a", 1)]).await;
    s.pass(SECOND);
    let delivery = s.serve(&route()).await.take_one().await;
    assert_eq!((delivery.attempts, delivery.ordered, delivery.appended_at), (0, true, now));
    let listed = s.admin().event("a-1", false).await.unwrap().unwrap();
    assert_eq!(delivery.position, Some(listed.event.position));
    assert_eq!(delivery.lane.lane, listed.lane);
}

pub async fn a_take_brings_no_more_rows_than_its_budget<H: StoreHarness>(s: &Bench<H>) {
    s.append(&events("a", 1..=10)).await;
    let worker = s.serve(&route()).await;
    let take = worker.source.take(Budget { rows: 4, bytes: 1 << 20 }).await.unwrap();
    assert_eq!(ids(&take.deliveries), names("a", 1..=4));
    assert!(take.more, "there is more, and the take says so");
    let rest = worker.look().await;
    assert_eq!(ids(&rest.deliveries), names("a", 5..=10));
    assert!(!rest.more);
}

pub async fn a_take_brings_no_more_bytes_than_its_budget<H: StoreHarness>(s: &Bench<H>) {
    let large: Vec<Event> = (1..=10).map(|n| event("a", n).bytes("text/plain", vec![b'x'; 1000])).collect();
    s.append(&large).await;
    let worker = s.serve(&route()).await;
    let mut came = Vec::new();
    while came.len() < 10 {
        let taken = worker.source.take(Budget { rows: 100, bytes: 4000 }).await.unwrap().deliveries;
        assert!(!taken.is_empty() && taken.iter().map(|d| d.event.size()).sum::<usize>() <= 4000);
        assert!(taken.len() < 10);
        came.extend(ids(&taken));
        worker.deliver(&taken).await;
    }
    assert_eq!(came, names("a", 1..=10));
}

pub async fn one_that_is_larger_than_the_budget_comes_alone<H: StoreHarness>(s: &Bench<H>) {
    s.append(&[event("a", 1).bytes("text/plain", vec![b'x'; 10_000]), event("a", 2), event("a", 3)]).await;
    let worker = s.serve(&route()).await;
    let budget = Budget { rows: 100, bytes: 2000 };
    assert_eq!(ids(&worker.source.take(budget).await.unwrap().deliveries), ["a-1"]);
    assert_eq!(ids(&worker.source.take(budget).await.unwrap().deliveries), ["a-2", "a-3"]);
}

pub async fn a_small_event_does_not_overtake_a_large_one_of_its_key<H: StoreHarness>(s: &Bench<H>) {
    s.append(&[event("a", 1), event("a", 2).bytes("text/plain", vec![b'x'; 10_000]), event("a", 3)]).await;
    let worker = s.serve(&route()).await;
    let tight = async || worker.source.take(Budget { rows: 100, bytes: 2000 }).await.unwrap().deliveries;
    let first = tight().await;
    assert_eq!(ids(&first), ["a-1"]);
    let second = tight().await;
    assert_eq!(ids(&second), ["a-2"]);
    worker.give_back(&[first, second].concat()).await;
    for expected in names("a", 1..=3) {
        let taken = tight().await;
        assert_eq!(ids(&taken), [expected], "given back or not");
        worker.deliver(&taken).await;
    }
}

pub async fn what_is_in_hand_is_not_handed_out_again<H: StoreHarness>(s: &Bench<H>) {
    s.append(&events("a", 1..=3)).await;
    let worker = s.serve(&route()).await;
    let taken = worker.take().await;
    assert_eq!(ids(&taken), names("a", 1..=3));
    assert!(worker.take().await.is_empty());
    s.append(&events("a", 4..=4)).await;
    assert_eq!(ids(&worker.take().await), ["a-4"]);
}

pub async fn a_delivered_event_is_never_handed_out_again<H: StoreHarness>(s: &Bench<H>) {
    s.append(&events("a", 1..=20)).await;
    let first = s.serve(&route()).await;
    assert_eq!(first.drain().await.len(), 20);
    assert!(first.take().await.is_empty(), "same relay");
    first.source.release().await.unwrap();
    let second = s.serve(&route()).await;
    assert!(second.take().await.is_empty(), "another relay");
    second.source.release().await.unwrap();
    let reopened = s.harness.reopen().await;
    let third = Worker::open(&reopened, &s.relay("third"), &route()).await.unwrap();
    assert!(third.take().await.is_empty(), "after reopening");
    s.append(&events("a", 21..=21)).await;
    assert_eq!(third.drain().await, ["a-21"], "and it goes on behind them");
}

pub async fn every_route_gets_every_event_it_wants<H: StoreHarness>(s: &Bench<H>) {
    let orders = RouteSpec { filter: Filter::types(["order.*"]).unwrap(), ..named("orders") };
    let (all, orders) = (s.serve(&named("all")).await, s.serve(&orders).await);
    s.append(&[event("a", 1), Event::new("invoice.sent").key("a").id("a-2"), event("a", 3)]).await;
    assert_eq!(all.drain().await, names("a", 1..=3));
    assert_eq!(orders.drain().await, names("a", [1, 3]));
}

pub async fn events_a_route_does_not_want_are_counted_as_filtered<H: StoreHarness>(s: &Bench<H>) {
    let definition = RouteSpec { filter: Filter::types(["invoice.*"]).unwrap(), ..route() };
    let worker = s.serve(&definition).await;
    s.append(&events("a", 1..=30)).await;
    s.append(&[Event::new("invoice.sent").key("a").id("a-31")]).await;
    let mut came = Vec::new();
    // A take may end before it has looked at everything; it says so.
    loop {
        let take = worker.look().await;
        came.extend(ids(&take.deliveries));
        worker.deliver(&take.deliveries).await;
        if !take.more && take.deliveries.is_empty() {
            break;
        }
    }
    assert_eq!(came, ["a-31"]);
    let lanes = s.detail("all").await.lanes;
    assert_eq!(lanes.iter().map(|lane| lane.counts.filtered).sum::<u64>(), 30);
    assert_eq!(lanes.iter().map(|lane| lane.counts.delivered).sum::<u64>(), 1);
}

pub async fn a_delayed_event_comes_at_its_time_and_blocks_nobody<H: StoreHarness>(s: &Bench<H>) {
    let at = s.harness.clock().now() + Duration::from_secs(10);
    s.append(&[event("a", 1).available_at(at), event("a", 2)]).await;
    let worker = s.serve(&route()).await;
    assert_eq!(worker.drain().await, ["a-2"], "later events of its key pass it");
    let take = worker.look().await;
    assert_eq!(take.next_due, Some(Duration::from_secs(10)));
    assert!(!take.retrying, "a drain does not wait for it");
    s.pass(Duration::from_secs(9));
    s.append(&[event("a", 3)]).await;
    assert_eq!(worker.drain().await, ["a-3"]);
    s.pass(SECOND);
    let delivery = worker.take_one().await;
    assert_eq!((delivery.event.id.as_str(), delivery.ordered), ("a-1", false));
    // Not even a failed one blocks.
    worker.retry(&delivery, Duration::from_secs(5)).await;
    s.append(&[event("a", 4)]).await;
    assert_eq!(worker.drain().await, ["a-4"]);
    s.pass(Duration::from_secs(5));
    assert_eq!(worker.drain().await, ["a-1"]);
}

pub async fn an_event_whose_time_has_come_before_it_is_read_is_an_ordinary_one<H: StoreHarness>(s: &Bench<H>) {
    let at = s.harness.clock().now() + SECOND;
    s.append(&[event("a", 1).available_at(at), event("a", 2)]).await;
    s.pass(2 * SECOND);
    assert_eq!(s.serve(&route()).await.drain().await, names("a", 1..=2));
}

/// Forty keys whose first events have failed and are due again, and after them forty other keys.
async fn due_and_fresh<H: StoreHarness>(s: &Bench<H>) -> Worker {
    s.append(&(1..=40).map(|n| event(&format!("due{n}"), 1)).collect::<Vec<_>>()).await;
    let worker = s.serve(&route()).await;
    for delivery in worker.take().await {
        worker.retry(&delivery, SECOND).await;
    }
    s.pass(SECOND);
    s.append(&(1..=40).map(|n| event(&format!("fresh{n}"), 1)).collect::<Vec<_>>()).await;
    worker
}

pub async fn due_retries_and_fresh_events_share_a_take<H: StoreHarness>(s: &Bench<H>) {
    let worker = due_and_fresh(s).await;
    let mut came = Vec::new();
    for _ in 0..4 {
        let taken = worker.source.take(Budget { rows: 10, bytes: 1 << 20 }).await.unwrap().deliveries;
        let due = ids(&taken).iter().filter(|id| id.starts_with("due")).count();
        assert_eq!((due, taken.len()), (5, 10), "{:?}", ids(&taken));
        came.extend(ids(&taken));
        worker.deliver(&taken).await;
    }
    // Later events of the keys that have failed, which must not pass them.
    s.append(&(1..=40).map(|n| event(&format!("due{n}"), 2)).collect::<Vec<_>>()).await;
    loop {
        let taken = worker.source.take(Budget { rows: 10, bytes: 1 << 20 }).await.unwrap().deliveries;
        if taken.is_empty() {
            break;
        }
        came.extend(ids(&taken));
        worker.deliver(&taken).await;
    }
    assert_eq!(came.len(), 120);
    for n in 1..=40 {
        let key = format!("due{n}");
        assert_eq!(of_key(&came, &key), names(&key, 1..=2));
    }
    s.agrees().await;
}

pub async fn with_room_for_one_due_and_fresh_events_take_turns<H: StoreHarness>(s: &Bench<H>) {
    let worker = due_and_fresh(s).await;
    let mut due = 0;
    for _ in 0..10 {
        let taken = worker.source.take(Budget { rows: 1, bytes: 1 << 20 }).await.unwrap().deliveries;
        assert_eq!(taken.len(), 1);
        due += usize::from(taken[0].event.id.starts_with("due"));
        worker.deliver(&taken).await;
    }
    assert_eq!(due, 5);
}

pub async fn the_next_due_time_is_said<H: StoreHarness>(s: &Bench<H>) {
    s.append(&[event("a", 1), event("b", 1)]).await;
    let worker = s.serve(&route()).await;
    let taken = worker.take().await;
    for (delivery, seconds) in taken.iter().zip([20, 8]) {
        worker.retry(delivery, Duration::from_secs(seconds)).await;
    }
    let take = worker.look().await;
    assert_eq!((take.next_due, take.retrying), (Some(Duration::from_secs(8)), true));
    s.pass(Duration::from_secs(20));
    let came = worker.drain().await;
    assert_eq!(sorted(came), ["a-1", "b-1"]);
    let take = worker.look().await;
    assert_eq!((take.next_due, take.retrying), (None, false));
}

pub async fn a_hint_after_the_commit_is_heard<H: StoreHarness>(s: &Bench<H>) {
    let worker = s.serve(&route()).await;
    let mut notified = worker.source.notified();
    let mut tx = s.harness.begin().await;
    let appended = s.store().append(&mut tx, &event("a", 1)).await.unwrap();
    s.harness.commit(tx).await;
    // Whatever was said before does not count.
    while notified.changed().now_or_never().is_some() {}
    appended.wake();
    notified.changed().await;
    assert_eq!(worker.drain().await, ["a-1"]);
}
