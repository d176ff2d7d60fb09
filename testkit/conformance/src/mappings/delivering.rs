//! What is pending is handed out in order, once, and marked as the table's own dispatcher would.

use std::time::Duration;

use super::Sample;
use super::bench::{Bench, dead, delivered, ids, retry};

pub async fn rows_come_in_the_order_of_the_table_and_are_marked_as_it_spells_it(bench: &Bench) {
    bench.insert(3, None).await;
    let worker = bench.worker("a").await;
    let take = worker.take().await;
    assert_eq!((ids(&take.deliveries), take.ownership.lanes), (vec!["row-0", "row-1", "row-2"], 1));
    worker.settle(take.deliveries.iter().map(|delivery| (delivery, delivered()))).await;
    let expected = if bench.sample == Sample::Presence { "gone" } else { "done" };
    for id in ["row-0", "row-1", "row-2"] {
        assert_eq!(bench.seen(id).await, expected);
    }
    assert!(worker.take_all().await.is_empty());
    assert_eq!(bench.admin.routes().await.unwrap()[0].status.delivered, 3);
}

pub async fn an_event_has_what_its_row_says_and_nothing_of_its_state(bench: &Bench) {
    bench.insert(1, Some("k")).await;
    let take = bench.worker("a").await.take().await;
    let delivery = &take.deliveries[0];
    let payload: serde_json::Value = serde_json::from_slice(&delivery.event.payload).unwrap();
    assert_eq!(payload, serde_json::json!({"n": 0}));
    assert_eq!((delivery.event.event_type.as_str(), delivery.event.ordering_key()), ("order.placed", Some("k")));
    assert_eq!(delivery.event.occurred_at, "2026-01-02T03:00:00Z".parse().unwrap());
    assert_eq!((delivery.position, delivery.attempts, delivery.ordered), (None, 0, !bench.sample.is_shared()));
}

pub async fn what_is_in_hand_is_not_handed_out_again_and_what_comes_back_is(bench: &Bench) {
    bench.insert(2, None).await;
    let worker = bench.worker("a").await;
    let first = worker.take_all().await;
    assert_eq!(first.len(), 2);
    bench.insert_one(2, "late", None).await;
    assert_eq!(ids(&worker.take_all().await), ["late"]);
    worker.settle([(&first[0], postroom_core::Verdict::Returned)]).await;
    assert_eq!(ids(&worker.take_all().await), ["row-0"]);
}

pub async fn what_is_committed_late_is_found_wherever_it_stands(bench: &Bench) {
    for n in 10..20 {
        bench.insert_one(n, &format!("row-{n}"), None).await;
    }
    let worker = bench.worker("a").await;
    assert_eq!(worker.take().await.deliveries.len(), 10);
    bench.insert_one(3, "earlier", None).await;
    assert_eq!(ids(&worker.take_all().await), ["earlier"]);
}

pub async fn one_relay_owns_the_table_and_another_takes_over_when_it_leaves(bench: &Bench) {
    bench.insert(2, None).await;
    let (first, second) = (bench.worker("a").await, bench.worker("b").await);
    let taken = first.take().await.deliveries;
    let standby = second.take().await;
    assert_eq!((standby.deliveries.len(), standby.ownership.lanes), (0, 0));
    first.settle([(&taken[0], delivered())]).await;
    first.0.release().await.unwrap();
    let take = second.take().await;
    assert_eq!((ids(&take.deliveries), take.ownership.lanes), (vec!["row-1"], 1));
    assert_eq!(take.taken_over, 0, "it was given up");
    let ownership = first.settle([(&taken[1], dead(1))]).await;
    assert_eq!(ownership.lost.len(), 1, "the table is another's");
    assert_eq!(bench.seen("row-1").await, "pending", "a settle of an older owner changes nothing");
    second.settle([(&take.deliveries[0], retry(1, Duration::from_hours(1)))]).await;
    first.settle([(&taken[1], delivered())]).await;
    assert!(second.take_all().await.is_empty(), "nor what the new one has written beside the table");
    let timeline = bench.admin.event("row-1", false).await.unwrap().unwrap();
    assert_eq!(timeline.routes[0].attempts.len(), 1);
    assert_eq!(bench.admin.routes().await.unwrap()[0].status.delivered, 1);
}

pub async fn a_settle_repeated_changes_nothing(bench: &Bench) {
    bench.insert(1, None).await;
    let worker = bench.worker("a").await;
    let taken = worker.take().await.deliveries;
    worker.settle([(&taken[0], delivered())]).await;
    worker.settle([(&taken[0], dead(1))]).await;
    assert!(matches!(bench.seen("row-0").await.as_str(), "done" | "gone"));
    let status = &bench.admin.routes().await.unwrap()[0].status;
    assert_eq!((status.dead, status.delivered), (0, 1));
}

pub async fn a_heartbeat_does_not_lose_what_a_take_holds(bench: &Bench) {
    bench.insert(1, None).await;
    let worker = bench.worker("a").await;
    worker.renew().await;
    let taken = worker.take().await.deliveries;
    worker.renew().await;
    assert!(worker.take_all().await.is_empty());
    assert!(worker.settle([(&taken[0], delivered())]).await.lost.is_empty());
}

pub async fn what_somebody_else_did_to_a_row_in_flight_stays(bench: &Bench) {
    if bench.sample == Sample::Presence {
        return;
    }
    bench.insert(1, None).await;
    let (worker, other) = (bench.worker("a").await, bench.worker("a").await);
    let taken = worker.take().await.deliveries;
    // The table's old dispatcher, say: the same owner's name, so that the lease does not stand in its way.
    let again = other.take().await.deliveries;
    other.settle([(&again[0], delivered())]).await;
    worker.settle([(&taken[0], dead(1))]).await;
    assert_eq!(bench.seen("row-0").await, "done");
    let status = &bench.admin.routes().await.unwrap()[0].status;
    assert_eq!((status.dead, status.delivered), (0, 1), "nothing is told of what was not done");
}

pub async fn a_row_that_was_set_back_while_it_was_on_its_way_is_tried_anew(bench: &Bench) {
    if bench.sample.mapping().attempts.is_none() {
        return;
    }
    bench.insert(1, None).await;
    let (worker, other) = (bench.worker("a").await, bench.worker("a").await);
    let taken = worker.take().await.deliveries;
    // Somebody makes it pending with another count; by the same owner's name, as above.
    let again = other.take().await.deliveries;
    other.settle([(&again[0], retry(1, Duration::ZERO))]).await;
    worker.settle([(&taken[0], dead(9))]).await;
    assert_eq!(bench.seen("row-0").await, "pending");
    let anew = other.take_all().await;
    assert_eq!(anew[0].attempts, 1, "as they left it");
    other.settle([(&anew[0], delivered())]).await;
    assert_eq!(bench.seen("row-0").await, "done");
}
