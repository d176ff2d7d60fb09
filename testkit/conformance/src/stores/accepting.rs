//! What an inbox promises: once per consumer and event, together with the effect.

use futures_util::poll;
use postroom_core::{Acceptance, CONSUMER_BYTES_MAX, Inbox, Outbox, StoreErrorKind};

use super::bench::{actor, event, route};
use super::{Bench, StoreHarness};

async fn accept<H: StoreHarness>(s: &Bench<H>, consumer: &str, id: &str) -> Acceptance {
    let mut tx = s.harness.begin().await;
    let acceptance = s.store().accept(&mut tx, consumer, id).await.unwrap();
    s.harness.commit(tx).await;
    acceptance
}

pub async fn an_event_is_new_once_and_then_a_duplicate<H: StoreHarness>(s: &Bench<H>) {
    assert_eq!(accept(s, "billing", "e-1").await, Acceptance::New);
    assert_eq!(accept(s, "billing", "e-1").await, Acceptance::Duplicate);
    assert_eq!(accept(s, "billing", "e-2").await, Acceptance::New);
    let rows = s.admin().inbox(Some("billing"), Some("e-1"), None, 10).await.unwrap();
    assert_eq!(rows.len(), 1);
}

pub async fn acceptances_come_page_by_page_and_each_once<H: StoreHarness>(s: &Bench<H>) {
    for id in ["e-1", "e-3", "e-2"] {
        for consumer in ["shipping", "billing"] {
            assert_eq!(accept(s, consumer, id).await, Acceptance::New);
        }
    }
    for limit in [1, 2, 5] {
        let (mut after, mut seen) = (None, Vec::new());
        loop {
            let page = s.admin().inbox(None, None, after.as_ref(), limit).await.unwrap();
            let Some(last) = page.last() else { break };
            after = Some(last.cursor());
            seen.extend(page.iter().map(|row| format!("{} {}", row.id, row.consumer)));
        }
        let all = ["e-3 billing", "e-3 shipping", "e-2 billing", "e-2 shipping", "e-1 billing", "e-1 shipping"];
        assert_eq!(seen, all, "{limit} at a time");
    }
}

pub async fn an_acceptance_survives_a_reopening<H: StoreHarness>(s: &Bench<H>) {
    assert_eq!(accept(s, "billing", "e-1").await, Acceptance::New);
    let other = s.harness.reopen().await;
    let mut tx = s.harness.begin().await;
    assert_eq!(other.accept(&mut tx, "billing", "e-1").await.unwrap(), Acceptance::Duplicate);
    s.harness.rollback(tx).await;
}

pub async fn a_rolled_back_acceptance_never_was<H: StoreHarness>(s: &Bench<H>) {
    let mut tx = s.harness.begin().await;
    assert_eq!(s.store().accept(&mut tx, "billing", "e-1").await.unwrap(), Acceptance::New);
    s.harness.rollback(tx).await;
    let mut tx = s.harness.begin().await;
    assert_eq!(s.store().accept(&mut tx, "billing", "e-1").await.unwrap(), Acceptance::New);
    drop(tx);
    assert_eq!(accept(s, "billing", "e-1").await, Acceptance::New);
}

pub async fn two_consumers_accept_the_same_event_each_for_itself<H: StoreHarness>(s: &Bench<H>) {
    assert_eq!(accept(s, "billing", "e-1").await, Acceptance::New);
    assert_eq!(accept(s, "shipping", "e-1").await, Acceptance::New);
    let rows = s.admin().inbox(None, Some("e-1"), None, 10).await.unwrap();
    let mut consumers: Vec<&str> = rows.iter().map(|row| row.consumer.as_str()).collect();
    consumers.sort_unstable();
    assert_eq!(consumers, ["billing", "shipping"]);
}

pub async fn an_event_accepted_twice_in_one_transaction_is_a_duplicate<H: StoreHarness>(s: &Bench<H>) {
    let mut tx = s.harness.begin().await;
    assert_eq!(s.store().accept(&mut tx, "billing", "e-1").await.unwrap(), Acceptance::New);
    assert_eq!(s.store().accept(&mut tx, "billing", "e-1").await.unwrap(), Acceptance::Duplicate);
    s.harness.commit(tx).await;
}

pub async fn the_second_of_two_at_once_waits_and_finds_a_duplicate<H: StoreHarness>(s: &Bench<H>) {
    let mut first = s.harness.begin().await;
    assert_eq!(s.store().accept(&mut first, "billing", "e-1").await.unwrap(), Acceptance::New);
    let mut second = Box::pin(accept(s, "billing", "e-1"));
    assert!(poll!(&mut second).is_pending(), "it must wait for the first to end");
    s.harness.commit(first).await;
    assert_eq!(second.await, Acceptance::Duplicate);
}

pub async fn the_second_of_two_at_once_is_new_when_the_first_rolls_back<H: StoreHarness>(s: &Bench<H>) {
    let mut first = s.harness.begin().await;
    assert_eq!(s.store().accept(&mut first, "billing", "e-1").await.unwrap(), Acceptance::New);
    let mut second = Box::pin(accept(s, "billing", "e-1"));
    assert!(poll!(&mut second).is_pending(), "it must wait for the first to end");
    s.harness.rollback(first).await;
    assert_eq!(second.await, Acceptance::New);
}

pub async fn of_many_at_once_exactly_one_is_new<H: StoreHarness>(s: &Bench<H>) {
    for round in 0..20 {
        let id = format!("e-{round}");
        let all = futures_util::future::join_all((0..8).map(|_| accept(s, "billing", &id))).await;
        assert_eq!(all.iter().filter(|acceptance| acceptance.is_new()).count(), 1, "{all:?}");
    }
}

pub async fn a_duplicate_does_not_spoil_a_wider_transaction<H: StoreHarness>(s: &Bench<H>) {
    assert_eq!(accept(s, "billing", "e-1").await, Acceptance::New);
    let mut tx = s.harness.begin().await;
    let _ = s.store().append(&mut tx, &event("a", 1)).await.unwrap();
    assert_eq!(s.store().accept(&mut tx, "billing", "e-1").await.unwrap(), Acceptance::Duplicate);
    assert_eq!(s.store().accept(&mut tx, "billing", "e-2").await.unwrap(), Acceptance::New);
    let _ = s.store().append(&mut tx, &event("a", 2)).await.unwrap();
    s.harness.commit(tx).await;
    assert_eq!(s.serve(&route()).await.drain().await, ["a-1", "a-2"]);
    assert_eq!(accept(s, "billing", "e-2").await, Acceptance::Duplicate);
}

pub async fn an_acceptance_and_its_effect_roll_back_together<H: StoreHarness>(s: &Bench<H>) {
    let mut tx = s.harness.begin().await;
    assert_eq!(s.store().accept(&mut tx, "billing", "e-1").await.unwrap(), Acceptance::New);
    let _ = s.store().append(&mut tx, &event("a", 1)).await.unwrap();
    s.harness.rollback(tx).await;
    assert!(s.serve(&route()).await.drain().await.is_empty());
    assert!(s.admin().inbox(None, None, None, 10).await.unwrap().is_empty());
}

pub async fn a_consumer_without_a_name_or_with_too_long_a_one_is_refused<H: StoreHarness>(s: &Bench<H>) {
    let mut tx = s.harness.begin().await;
    for bad in [String::new(), "x".repeat(CONSUMER_BYTES_MAX + 1)] {
        let error = s.store().accept(&mut tx, &bad, "e-1").await.unwrap_err();
        assert_eq!(error.kind, StoreErrorKind::Invalid);
    }
    assert_eq!(s.store().accept(&mut tx, "billing", "e-1").await.unwrap(), Acceptance::New);
    s.harness.commit(tx).await;
}

pub async fn what_is_forgotten_is_accepted_once_more<H: StoreHarness>(s: &Bench<H>) {
    for consumer in ["billing", "shipping"] {
        assert_eq!(accept(s, consumer, "e-1").await, Acceptance::New);
    }
    assert!(s.admin().forget_inbox("billing", "e-1", &actor()).await.unwrap());
    assert!(!s.admin().forget_inbox("billing", "e-1", &actor()).await.unwrap(), "it is forgotten already");
    assert!(!s.admin().forget_inbox("nobody", "e-1", &actor()).await.unwrap());
    let actions = s.admin().audit(None, 10).await.unwrap();
    assert_eq!(actions.len(), 1, "what changed nothing is not in the audit");
    let action = &actions[0];
    assert_eq!((action.action.as_str(), action.subject.as_str(), action.count), ("inbox.forget", "billing e-1", 1));
    assert_eq!(accept(s, "billing", "e-1").await, Acceptance::New);
    assert_eq!(accept(s, "billing", "e-1").await, Acceptance::Duplicate);
    assert_eq!(accept(s, "shipping", "e-1").await, Acceptance::Duplicate);
}
