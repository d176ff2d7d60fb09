//! What a settle promises: durable, fenced, and harmless when repeated.

use std::time::Duration;

use postroom_core::{Failure, HandlerError, RouteHealth, RouteState, Settlement, Verdict};

use super::bench::{
    LEASE, SECOND, dead, delivered, event, events, ids, is_lost, names, received, retry, returned, route, sorted,
};
use super::{Bench, StoreHarness};

pub async fn a_returned_delivery_comes_again_as_if_it_had_never_been_out<H: StoreHarness>(s: &Bench<H>) {
    s.append(&events("a", 1..=3)).await;
    let worker = s.serve(&route()).await;
    let taken = worker.take().await;
    worker.deliver(&taken[..1]).await;
    worker.give_back(&taken[1..]).await;
    let again = worker.take().await;
    assert_eq!(ids(&again), names("a", 2..=3));
    assert!(again.iter().all(|delivery| delivery.attempts == 0));
    worker.deliver(&again).await;
    assert!(s.timeline("a-2", "all").await.attempts.is_empty());
}

pub async fn a_returned_retry_keeps_its_attempts_and_comes_at_once<H: StoreHarness>(s: &Bench<H>) {
    s.append(&events("a", 1..=1)).await;
    let worker = s.serve(&route()).await;
    worker.retry(&worker.take_one().await, SECOND).await;
    s.pass(SECOND);
    let second = worker.take_one().await;
    worker.give_back(std::slice::from_ref(&second)).await;
    let third = worker.take_one().await;
    assert_eq!(third.attempts, 1);
    worker.deliver(&[third]).await;
}

pub async fn what_is_too_early_comes_again_with_the_attempts_it_had<H: StoreHarness>(s: &Bench<H>) {
    s.append(&events("a", 1..=1)).await;
    let worker = s.serve(&route()).await;
    for attempts in [0, 0, 1, 1] {
        let head = worker.take_one().await;
        let failure = Failure::not_yet("test.early", "nobody knows it yet");
        let verdict = Verdict::Retry { attempts, after: SECOND, failure };
        worker.settle(&[Settlement { verdict, ..retry(&head, SECOND) }]).await;
        s.pass(SECOND);
    }
    let again = worker.take_one().await;
    assert_eq!((again.event.id.as_str(), again.attempts), ("a-1", 1));
    let tried = s.timeline("a-1", "all").await.attempts;
    assert_eq!(tried.len(), 2, "what is offered again and again fills no table: {tried:?}");
    worker.deliver(&[again]).await;
}

pub async fn returned_deliveries_come_before_what_was_appended_since<H: StoreHarness>(s: &Bench<H>) {
    s.append(&events("a", 1..=3)).await;
    let worker = s.serve(&route()).await;
    let taken = worker.take().await;
    s.append(&events("a", 4..=5)).await;
    worker.give_back(&taken).await;
    assert_eq!(worker.drain().await, names("a", 1..=5));
}

pub async fn a_settle_repeated_changes_nothing<H: StoreHarness>(s: &Bench<H>) {
    let keys = ["a", "b", "c", "d"];
    s.append(&keys.map(|key| event(key, 1))).await;
    let worker = s.serve(&route()).await;
    let taken = worker.take().await;
    let of = |key: &str| taken.iter().find(|d| d.event.ordering_key() == Some(key)).unwrap();
    let settlements = [received(of("a"), "there@1"), retry(of("b"), 10 * SECOND), dead(of("c")), returned(of("d"))];
    worker.settle(&settlements).await;
    let (before, verified) = (s.detail("all").await, s.admin().verify().await.unwrap());
    worker.settle(&settlements).await;
    s.append(&events("e", 1..=1)).await;
    let other = worker.take().await;
    assert_eq!(sorted(ids(&other)), ["d-1", "e-1"]);
    worker.deliver(&other).await;
    worker.settle(&settlements[..3]).await;
    s.agrees().await;
    let after = s.detail("all").await;
    assert_eq!(after.status.delivered, before.status.delivered + 2);
    assert_eq!((after.status.retrying, after.status.dead), (1, 1));
    let parked = |rows: &[postroom_admin::view::VerifyRow]| rows.iter().map(|row| row.counts.parked).sum::<u64>();
    assert_eq!(parked(&s.admin().verify().await.unwrap()), parked(&verified));
    s.pass(10 * SECOND);
    assert_eq!(worker.drain().await, ["b-1"]);
    worker.settle(&settlements[..3]).await;
    assert!(worker.take().await.is_empty(), "a late repetition brings nothing back");
}

pub async fn a_settle_repeated_after_another_take_loses_nothing<H: StoreHarness>(s: &Bench<H>) {
    s.append(&[event("a", 1), event("b", 1)]).await;
    let worker = s.serve(&route()).await;
    let taken = worker.take().await;
    let of = |key: &str| taken.iter().find(|d| d.event.ordering_key() == Some(key)).unwrap();
    let settlements = [returned(of("a")), retry(of("b"), SECOND)];
    worker.settle(&settlements).await;
    s.pass(SECOND);
    let again = worker.take().await;
    assert_eq!(sorted(ids(&again)), ["a-1", "b-1"]);
    worker.settle(&settlements).await;
    worker.deliver(&again).await;
    s.agrees().await;
    s.pass(SECOND);
    worker.drain().await;
    let status = s.detail("all").await.status;
    assert_eq!((status.delivered, status.due, status.retrying), (2, Some(0), 0));
}

pub async fn a_settle_of_nothing_says_how_things_stand<H: StoreHarness>(s: &Bench<H>) {
    let worker = s.serve(&route()).await;
    worker.take().await;
    let ownership = worker.settle(&[]).await;
    assert_eq!((ownership.lanes, ownership.paused), (s.harness.lanes(), false));
    assert!(ownership.lost.is_empty() && ownership.recalled.is_empty());
}

pub async fn a_settle_of_a_lost_lane_changes_nothing_and_says_so<H: StoreHarness>(s: &Bench<H>) {
    s.append(&events("a", 1..=2)).await;
    let old = s.serve_as("old", &route()).await.unwrap();
    let before = old.take().await;
    assert_eq!(ids(&before), names("a", 1..=2));
    let new = s.serve_as("new", &route()).await.unwrap();
    s.pass(LEASE + SECOND);
    new.renew().await;
    let taken = new.take().await;
    assert_eq!(ids(&taken), names("a", 1..=2), "what was not settled is the next owner's");
    assert!(taken[0].lane.term > before[0].lane.term);
    let ownership = old.settle(&[delivered(&before[0]), dead(&before[1])]).await;
    assert!(is_lost(&ownership, &before), "{ownership:?}");
    assert!(s.dead().await.is_empty());
    assert_eq!(s.detail("all").await.status.delivered, 0);
    new.give_back(&taken).await;
    assert_eq!(new.drain().await, names("a", 1..=2));
    assert!(is_lost(&old.settle(&[delivered(&before[0])]).await, &before), "and it says so every time");
}

pub async fn a_mixed_settle_writes_what_is_ours_and_reports_what_is_not<H: StoreHarness>(s: &Bench<H>) {
    s.append(&events("a", 1..=2)).await;
    let old = s.serve_as("old", &route()).await.unwrap();
    let before = old.take().await;
    old.source.release().await.unwrap();
    let new = s.serve_as("new", &route()).await.unwrap();
    let taken = new.take().await;
    let mut stale = delivered(&taken[1]);
    stale.lane = before[1].lane;
    let ownership = new.settle(&[delivered(&taken[0]), stale]).await;
    assert!(is_lost(&ownership, &before), "{ownership:?}");
    assert_eq!(s.timeline("a-1", "all").await.state, "delivered");
    assert_eq!(s.timeline("a-2", "all").await.state, "due");
    new.deliver(&taken[1..]).await;
}

pub async fn a_settle_after_the_lease_ran_out_counts_while_nobody_took_over<H: StoreHarness>(s: &Bench<H>) {
    s.append(&events("a", 1..=2)).await;
    let worker = s.serve(&route()).await;
    let taken = worker.take().await;
    s.pass(2 * LEASE);
    assert!(worker.deliver(&taken).await.lost.is_empty());
    assert_eq!(s.detail("all").await.status.delivered, 2);
}

pub async fn attempts_and_their_reasons_are_kept<H: StoreHarness>(s: &Bench<H>) {
    s.append(&events("a", 1..=1)).await;
    let worker = s.serve(&route()).await;
    for n in 0..2 {
        let delivery = worker.take_one().await;
        assert_eq!(delivery.attempts, n);
        worker.retry(&delivery, SECOND).await;
        s.pass(SECOND);
    }
    worker.kill(&worker.take_one().await).await;
    let timeline = s.timeline("a-1", "all").await;
    let tries: Vec<(u32, &str, &str)> =
        timeline.attempts.iter().map(|t| (t.attempt, t.outcome.as_str(), t.code.as_str())).collect();
    assert_eq!(
        tries,
        [(1, "transient", "test.transient"), (2, "transient", "test.transient"), (3, "permanent", "test.permanent")]
    );
    assert!(timeline.attempts.iter().all(|t| t.took_ms == 5));
    assert_eq!(timeline.attempts[2].at.duration_since(timeline.attempts[0].at).unsigned_abs(), Duration::from_secs(2));
}

pub async fn whatever_a_destination_says_can_be_kept<H: StoreHarness>(s: &Bench<H>) {
    let said = "zero \0, written \\u0000, a \"quote\", a \\ and 🦀";
    s.append(&[event("a", 1), event("b", 1)]).await;
    let worker = s.serve(&route()).await;
    let taken = worker.take().await;
    let of = |key: &str| taken.iter().find(|d| d.event.ordering_key() == Some(key)).unwrap();
    let handlers = vec![HandlerError { handler: said.to_owned(), error: said.to_owned() }];
    let failure = Failure { error: said.to_owned(), handlers, ..Failure::permanent(said, "") };
    let died = Settlement { verdict: Verdict::Dead { attempts: 1, failure, published: false }, ..dead(of("a")) };
    worker.settle(&[died, received(of("b"), said)]).await;
    worker.source.renew(&RouteHealth::new(RouteState::BreakerOpen, said)).await.unwrap();
    let attempt = &s.timeline("a-1", "all").await.attempts[0];
    let receipt = s.timeline("b-1", "all").await.receipt.unwrap();
    let note = s.detail("all").await.status.message;
    for kept in
        [&attempt.code, &attempt.error, &attempt.handlers[0].handler, &attempt.handlers[0].error, &receipt, &note]
    {
        // A store may not know the zero byte.
        assert_eq!(kept.replace('\u{fffd}', "\0"), said);
    }
}
