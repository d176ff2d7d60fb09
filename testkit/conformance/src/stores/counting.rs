//! What an admin says: status, timelines, and the verification that proves nothing was lost.

use std::time::Duration;

use postroom_admin::view::ThroughputRow;
use postroom_admin::{Page, Selection};
use postroom_core::{Clock, DeliveryState, Event, Filter, OnDead, Retention, RouteSpec};

use super::bench::{SECOND, actor, dead, delivered, event, events, named, received, retry, route};
use super::{Bench, StoreHarness};

pub async fn status_counts_what_should_have_been_tried<H: StoreHarness>(s: &Bench<H>) {
    let definition = RouteSpec { filter: Filter::types(["order.*"]).unwrap(), ..route() };
    let worker = s.serve(&definition).await;
    let status = async || s.detail("all").await.status;
    assert_eq!((status().await.due, status().await.delivered), (Some(0), 0));
    assert!(status().await.oldest_due_seconds == Some(0.0));
    let later = s.harness.clock().now() + 3600 * SECOND;
    s.append(&events("a", 1..=3)).await;
    s.append(&[event("b", 1).available_at(later), Event::new("invoice.sent").key("a")]).await;
    s.pass(5 * SECOND);
    s.append(&events("c", 1..=1)).await;
    let now = status().await;
    assert_eq!((now.due, now.due_estimated), (Some(4), false), "the unwanted and the delayed are not due");
    assert!((now.oldest_due_seconds.unwrap() - 5.0).abs() < 0.001, "{:?}", now.oldest_due_seconds);
    let taken = worker.take().await;
    assert_eq!(status().await.due, Some(4), "on its way is not done");
    worker.deliver(&taken).await;
    let now = status().await;
    assert_eq!((now.due, now.delivered), (Some(0), 4));
    assert!(now.oldest_due_seconds == Some(0.0));
}

pub async fn status_tells_retrying_blocked_and_dead_apart<H: StoreHarness>(s: &Bench<H>) {
    s.append(&[event("a", 1), event("b", 1), event("c", 1)]).await;
    let worker = s.serve(&route()).await;
    let taken = worker.take().await;
    let of = |key: &str| taken.iter().find(|d| d.event.ordering_key() == Some(key)).unwrap();
    worker.retry(of("a"), 10 * SECOND).await;
    worker.kill(of("b")).await;
    worker.deliver(std::slice::from_ref(of("c"))).await;
    s.append(&events("a", 2..=4)).await;
    worker.take().await;
    let now = s.detail("all").await.status;
    assert_eq!((now.due, now.retrying, now.blocked_keys, now.dead, now.delivered), (Some(0), 1, 1, 1, 1));
    s.pass(13 * SECOND);
    let now = s.detail("all").await.status;
    assert_eq!(now.due, Some(1), "its time has come");
    assert!((now.oldest_due_seconds.unwrap() - 3.0).abs() < 0.001, "{:?}", now.oldest_due_seconds);
    worker.drain().await;
    let now = s.detail("all").await.status;
    assert_eq!((now.due, now.retrying, now.blocked_keys, now.delivered), (Some(0), 0, 0, 5));
}

pub async fn status_counts_a_backlog_without_a_relay<H: StoreHarness>(s: &Bench<H>) {
    s.admin().register(&[route()]).await.unwrap();
    s.append(&events("a", 1..=250)).await;
    assert_eq!(s.detail("all").await.status.due, Some(250));
}

pub async fn status_finds_an_event_behind_more_events_of_others_than_it_counts<H: StoreHarness>(s: &Bench<H>) {
    let definition = RouteSpec { filter: Filter::types(["rare.*"]).unwrap(), ..route() };
    s.admin().register(&[definition]).await.unwrap();
    for from in [1, 6_001] {
        s.append(&events("a", from..=from + 5_999)).await;
    }
    let nothing = s.detail("all").await.status;
    assert_eq!((nothing.due, nothing.oldest_due_seconds), (Some(0), Some(0.0)), "all of them were searched");
    s.append(&[Event::new("rare.x").key("r")]).await;
    s.pass(5 * SECOND);
    let now = s.detail("all").await.status;
    assert_eq!((now.due, now.due_estimated), (Some(1), false));
    assert!((now.oldest_due_seconds.unwrap() - 5.0).abs() < 0.001, "{:?}", now.oldest_due_seconds);
    let which = Selection { route: Some("all".to_owned()), ..Selection::default() };
    let listed = s.admin().deliveries(&[DeliveryState::Due], &which, 0, 20).await.unwrap();
    assert_eq!(listed.iter().map(|row| row.event_type.as_str()).collect::<Vec<_>>(), ["rare.x"]);
}

pub async fn a_timeline_says_where_an_event_is_in_every_state<H: StoreHarness>(s: &Bench<H>) {
    let hold = RouteSpec { on_dead: OnDead::Hold, filter: Filter::types(["order.*"]).unwrap(), ..route() };
    s.append(&[event("old", 1)]).await;
    let worker = s.serve(&RouteSpec { start: postroom_core::StartFrom::Now, ..hold }).await;
    let state = async |id: &str| s.timeline(id, "all").await.state;
    assert_eq!(state("old-1").await, "before_start");
    let later = s.harness.clock().now() + 3600 * SECOND;
    s.append(&[event("a", 1), event("b", 1), event("c", 1).available_at(later), event("d", 1)]).await;
    s.append(&[Event::new("invoice.sent").key("x").id("x-1"), event("e", 1)]).await;
    for (id, expected) in [("a-1", "due"), ("c-1", "delayed"), ("x-1", "filtered")] {
        assert_eq!(state(id).await, expected, "{id} before it is read");
    }
    let taken = worker.take().await;
    let of = |key: &str| taken.iter().find(|d| d.event.ordering_key() == Some(key)).unwrap();
    assert_eq!(state("a-1").await, "due", "on its way");
    worker.retry(of("a"), 10 * SECOND).await;
    worker.kill(of("b")).await;
    worker.settle(&[received(of("d"), "orders.v1[3]@88214")]).await;
    s.append(&[event("a", 2), event("b", 2)]).await;
    worker.take().await;
    for (id, expected) in [
        ("a-1", "retrying"),
        ("a-2", "blocked"),
        ("b-1", "dead"),
        ("b-2", "blocked"),
        ("c-1", "delayed"),
        ("d-1", "delivered"),
        ("e-1", "due"),
        ("x-1", "filtered"),
    ] {
        assert_eq!(state(id).await, expected, "{id}");
    }
    let retrying = s.timeline("a-1", "all").await;
    assert_eq!(retrying.due_at, Some(s.harness.clock().now() + 10 * SECOND));
    assert_eq!(retrying.attempts.len(), 1);
    assert_eq!(s.timeline("a-2", "all").await.blocked_by.as_deref(), Some("a-1"));
    assert_eq!(s.timeline("c-1", "all").await.due_at, Some(later));
    let delivered = s.timeline("d-1", "all").await;
    assert_eq!(delivered.receipt.as_deref(), Some("orders.v1[3]@88214"));
    assert_eq!(delivered.delivered_at, Some(s.harness.clock().now()));
    s.admin().discard_dead(&Selection::default(), false, &actor()).await.unwrap();
    assert_eq!(state("b-1").await, "discarded");
    assert_eq!(state("b-2").await, "due");
}

pub async fn a_timeline_shows_the_payload_only_when_asked_for<H: StoreHarness>(s: &Bench<H>) {
    s.append(&[event("a", 1).aggregate("order", "7").json(&serde_json::json!({"n": 1})).unwrap()]).await;
    let without = s.admin().event("a-1", false).await.unwrap().unwrap();
    assert_eq!((without.payload, without.event.payload_bytes), (None, 7));
    assert_eq!((without.event.key.as_deref(), without.event.aggregate_id.as_deref()), (Some("a"), Some("7")));
    let with = s.admin().event("a-1", true).await.unwrap().unwrap();
    assert!(with.payload.is_some());
    assert!(s.admin().event("nope", true).await.unwrap().is_none());
}

pub async fn the_contents_of_listed_events_are_read_together<H: StoreHarness>(s: &Bench<H>) {
    let new = |n: u32| {
        let key = if n.is_multiple_of(2) { "a" } else { "b" };
        event(key, n).header("n", n.to_string()).json(&serde_json::json!({ "n": n })).unwrap()
    };
    s.append(&(1..=20).map(new).collect::<Vec<_>>()).await;
    let which = Selection { key: Some("a".to_owned()), ..Selection::default() };
    let rows = s.admin().events(&which, Page::Oldest { after: 0, limit: 7 }).await.unwrap();
    let contents = s.admin().contents(&rows, true).await.unwrap();
    assert_eq!(contents.keys().copied().collect::<Vec<_>>(), rows.iter().map(|row| row.position).collect::<Vec<_>>());
    for row in &rows {
        let alone = s.admin().event(&row.id, true).await.unwrap().unwrap();
        assert_eq!(contents[&row.position], alone.into());
    }
    let without = s.admin().contents(&rows[..1], false).await.unwrap();
    assert_eq!((without.len(), &without[&rows[0].position].payload), (1, &None));
    assert!(s.admin().contents(&[], true).await.unwrap().is_empty());
}

pub async fn a_timeline_shows_who_accepted_the_event<H: StoreHarness>(s: &Bench<H>) {
    use postroom_core::Inbox;
    s.append(&events("a", 1..=1)).await;
    let mut tx = s.harness.begin().await;
    assert!(s.store().accept(&mut tx, "billing", "a-1").await.unwrap().is_new());
    s.harness.commit(tx).await;
    let timeline = s.admin().event("a-1", false).await.unwrap().unwrap();
    assert_eq!(timeline.inbox.len(), 1);
    assert_eq!(timeline.inbox[0].consumer, "billing");
}

pub async fn the_store_says_what_is_in_it<H: StoreHarness>(s: &Bench<H>) {
    let orders = RouteSpec { filter: Filter::types(["order.*"]).unwrap(), ..named("orders") };
    s.admin().register(&[orders]).await.unwrap();
    s.append(&[event("a", 1), event("a", 2), Event::new("invoice.sent")]).await;
    let row = s.admin().store().await.unwrap();
    assert!(row.reachable);
    assert_eq!((row.events, row.events_estimated, row.unmatched), (Some(3), false, Some(1)));
}

pub async fn the_audit_agrees_in_the_middle_of_everything<H: StoreHarness>(s: &Bench<H>) {
    let definition = RouteSpec { filter: Filter::types(["order.*"]).unwrap(), ..route() };
    let worker = s.serve(&definition).await;
    let later = s.harness.clock().now() + 100 * SECOND;
    for round in 1..=5 {
        let keys: Vec<Event> = (0..20).map(|k| event(&format!("k{k}"), round)).collect();
        s.append(&keys).await;
        s.append(&[event("late", round).available_at(later), Event::new("invoice.sent")]).await;
        let taken = worker.take().await;
        s.agrees().await;
        for (n, delivery) in taken.iter().enumerate() {
            match n % 5 {
                0 => worker.retry(delivery, SECOND).await,
                1 => worker.kill(delivery).await,
                2 => worker.give_back(std::slice::from_ref(delivery)).await,
                _ => worker.deliver(std::slice::from_ref(delivery)).await,
            };
        }
        s.agrees().await;
        s.pass(SECOND);
        worker.renew().await;
    }
    let rows = s.admin().verify().await.unwrap();
    assert_eq!(rows.len(), s.harness.lanes());
    assert_eq!(rows.iter().map(|row| row.counts.seen).sum::<u64>(), 5 * 22);
    s.pass(100 * SECOND);
    worker.renew().await;
    worker.drain().await;
    let status = s.detail("all").await.status;
    assert_eq!((status.due, status.retrying), (Some(0), 0));
    assert_eq!(status.delivered + status.dead, 5 * 21, "every one of them is delivered or a visible dead letter");
}

pub async fn the_audit_finds_an_event_that_was_lost<H: StoreHarness>(_: &Bench<H>) {
    let s = Bench::<H>::open().await;
    let worker = s.serve(&route()).await;
    s.append(&events("a", 1..=3)).await;
    worker.drain().await;
    s.agrees().await;
    if s.harness.lose("a-2").await {
        let rows = s.admin().verify().await.unwrap();
        assert!(rows.iter().any(|row| !row.differences.is_empty()), "{rows:?}");
    }
}

pub async fn what_a_route_did_is_told_at_once_and_kept_when_its_relay_leaves<H: StoreHarness>(s: &Bench<H>) {
    let from = s.harness.clock().now();
    s.append(&[event("a", 1), event("b", 1), event("c", 1)]).await;
    let worker = s.serve(&route()).await;
    let taken = worker.take().await;
    let of = |key: &str| taken.iter().find(|d| d.event.ordering_key() == Some(key)).unwrap();
    worker.settle(&[delivered(of("a")), delivered(of("b")), dead(of("c"))]).await;
    let counted = async || {
        let rows = s.admin().throughput(None, from).await.unwrap();
        rows.iter().fold((0, 0), |(delivered, dead), row| (delivered + row.delivered, dead + row.dead))
    };
    assert_eq!(counted().await, (2, 1), "before the minute ends, and before anybody prunes");
    worker.source.release().await.unwrap();
    s.pass(Duration::from_mins(10));
    assert_eq!(counted().await, (2, 1), "long after the relay left");
}

pub async fn what_a_route_did_is_kept_when_its_relay_is_killed<H: StoreHarness>(s: &Bench<H>) {
    const MINUTE: Duration = Duration::from_mins(1);
    let from = s.harness.clock().now();
    let worker = s.serve(&route()).await;
    s.append(&[event("a", 1), event("b", 1)]).await;
    let taken = worker.take().await;
    let of = |key: &str| taken.iter().find(|d| d.event.ordering_key() == Some(key)).unwrap();
    worker.settle(&[delivered(of("a"))]).await;
    s.pass(MINUTE);
    worker.settle(&[delivered(of("b"))]).await;
    // The relay does nothing more: it neither leaves nor prunes.
    let counted = async || s.admin().throughput(None, from).await.unwrap().iter().map(|row| row.delivered).sum::<u64>();
    s.pass(60 * MINUTE);
    assert_eq!(counted().await, 2, "an hour later, with no relay");
    s.admin().prune(&Retention::default(), false).await.unwrap();
    assert_eq!(counted().await, 2, "once the next relay has pruned");
    s.pass(10 * MINUTE);
    s.admin().prune(&Retention::default(), false).await.unwrap();
    assert_eq!(counted().await, 2, "and it stays");
}

pub async fn what_a_route_did_is_counted_per_minute_for_a_day<H: StoreHarness>(s: &Bench<H>) {
    const MINUTE: Duration = Duration::from_mins(1);
    let from = s.harness.clock().now();
    s.append(&[event("a", 1), event("b", 1), event("c", 1), event("d", 1)]).await;
    let worker = s.serve(&route()).await;
    let taken = worker.take().await;
    let of = |key: &str| taken.iter().find(|d| d.event.ordering_key() == Some(key)).unwrap();
    worker.settle(&[delivered(of("a")), delivered(of("b")), retry(of("c"), SECOND), dead(of("d"))]).await;
    // A keeper looks every minute; some stores count then.
    let minutes = async |from| {
        s.admin().prune(&Retention::default(), false).await.unwrap();
        s.admin().throughput(None, from).await.unwrap()
    };
    s.pass(MINUTE);
    let rows = minutes(from).await;
    let sum = |count: fn(&ThroughputRow) -> u64| rows.iter().map(count).sum::<u64>();
    assert_eq!((sum(|row| row.delivered), sum(|row| row.retried), sum(|row| row.dead)), (2, 1, 1), "{rows:?}");
    assert!(rows.iter().all(|row| row.route == "all" && row.minute.as_second() % 60 == 0), "{rows:?}");
    worker.renew().await;
    assert_eq!(worker.drain().await, ["c-1"]);
    s.pass(MINUTE);
    let later = minutes(s.harness.clock().now().checked_sub(MINUTE).unwrap()).await;
    assert_eq!(later.iter().map(|row| row.delivered).sum::<u64>(), 1, "{later:?}");
    assert!(s.admin().throughput(Some("other"), from).await.unwrap().is_empty());
    assert_eq!(s.admin().throughput(Some("all"), from).await.unwrap(), minutes(from).await);
    s.pass(24 * 60 * MINUTE);
    s.pass(2 * MINUTE);
    let left = minutes(from).await;
    assert!(left.iter().all(|row| row.delivered + row.retried + row.dead == 0), "{left:?}");
    assert!(left.len() <= 2, "{left:?}");
}
