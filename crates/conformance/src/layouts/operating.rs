//! Operators use the same commands as on the native log.

use postroom_core::{Actor, Page, ReplayOptions, Retention, Selection, StoreErrorKind};

use super::Sample;
use super::bench::{Bench, ROUTE, dead, delivered, ids};

fn operator() -> Actor {
    Actor { name: "op".to_owned(), reason: Some("because".to_owned()) }
}

pub async fn a_paused_route_hands_out_nothing_until_it_is_resumed(bench: &Bench) {
    bench.insert(1, None).await;
    let worker = bench.worker("a").await;
    assert!(bench.desk.pause(ROUTE, &operator()).await.unwrap());
    let take = worker.take().await;
    assert!(take.standing.paused && take.deliveries.is_empty());
    assert!(bench.desk.resume(ROUTE, &operator()).await.unwrap());
    assert_eq!(worker.take().await.deliveries.len(), 1);
    let missing = bench.desk.pause("nobody", &operator()).await.unwrap_err();
    assert_eq!(missing.kind, StoreErrorKind::NotFound);
}

pub async fn dead_letters_are_replayed_with_their_attempts_at_nought(bench: &Bench) {
    bench.insert(2, None).await;
    let worker = bench.worker("a").await;
    let taken = worker.take().await.deliveries;
    worker.settle([(&taken[0], dead(3)), (&taken[1], delivered())]).await;
    let dry = ReplayOptions { dry_run: true, ..ReplayOptions::default() };
    let all = Selection::default();
    assert_eq!(bench.desk.replay_dead(&all, dry, &operator()).await.unwrap().deliveries, 1);
    assert!(worker.take_all().await.is_empty(), "a dry run changes nothing");
    let done = bench.desk.replay_dead(&all, ReplayOptions::default(), &operator()).await.unwrap();
    assert_eq!(done.deliveries, 1);
    let again = worker.take_all().await;
    assert_eq!((ids(&again), again[0].attempts), (vec!["row-0"], 0));
    let actions = bench.desk.actions(10).await.unwrap();
    assert_eq!((actions[0].action.as_str(), actions[0].count), ("dead.replay", 1));
}

pub async fn what_was_delivered_is_replayed_by_what_it_is(bench: &Bench) {
    if bench.sample == Sample::Presence {
        return;
    }
    bench.insert(3, Some("k")).await;
    let worker = bench.worker("a").await;
    let taken = worker.take().await.deliveries;
    worker.settle(taken.iter().map(|delivery| (delivery, delivered()))).await;
    let which = Selection { from: Some("2026-01-02T03:00:01Z".parse().unwrap()), ..Selection::default() };
    let done = bench.desk.replay(&which, ReplayOptions::default(), &operator()).await.unwrap();
    assert_eq!((done.deliveries, done.keys), (2, 1));
    assert_eq!(ids(&worker.take_all().await), ["k-1", "k-2"]);
}

pub async fn a_discarded_dead_letter_is_gone_for_good(bench: &Bench) {
    bench.insert(1, None).await;
    let worker = bench.worker("a").await;
    let taken = worker.take().await.deliveries;
    worker.settle([(&taken[0], dead(1))]).await;
    let all = Selection::default();
    assert_eq!(bench.desk.discard_dead(&all, false, &operator()).await.unwrap().deliveries, 1);
    assert!(bench.desk.dead(&all, 0, 10).await.unwrap().is_empty() && worker.take_all().await.is_empty());
}

pub async fn rows_are_listed_and_audited(bench: &Bench) {
    bench.insert(3, None).await;
    let worker = bench.worker("a").await;
    let listed = bench.desk.events(&Selection::default(), Page::Newest { before: None, limit: 2 }).await.unwrap();
    let found: Vec<&str> = listed.iter().map(|row| row.id.as_str()).collect();
    assert_eq!(found, ["row-2", "row-1"]);
    let older = Page::Newest { before: Some(listed[1].position), limit: 2 };
    assert_eq!(bench.desk.events(&Selection::default(), older).await.unwrap()[0].id, "row-0");
    let taken = worker.take().await.deliveries;
    worker.settle([(&taken[0], dead(1))]).await;
    let audit = bench.desk.audit().await.unwrap();
    assert_eq!((audit[0].open, audit[0].unsettled, audit[0].differences.len()), (1, 2, 0));
}

pub async fn retention_removes_what_is_done_and_nothing_else(bench: &Bench) {
    if bench.sample == Sample::Presence {
        return;
    }
    bench.insert(3, None).await;
    let worker = bench.worker("a").await;
    let taken = worker.take().await.deliveries;
    worker.settle([(&taken[0], delivered()), (&taken[1], dead(1))]).await;
    let retention = Retention { delivered: Some(std::time::Duration::from_secs(1)), ..Retention::default() };
    assert_eq!(bench.desk.prune(&retention, true).await.unwrap().events, 1);
    assert_eq!(bench.desk.prune(&retention, false).await.unwrap().events, 1);
    assert_eq!(bench.seen("row-0").await, "gone");
    assert_eq!(
        (bench.seen("row-1").await.as_str(), bench.seen("row-2").await.as_str()),
        (bench.sample.dead_seen(), "pending")
    );
}
