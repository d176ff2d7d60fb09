//! Erasing the payloads of a key.

use postroom_admin::view::ReplayKind;
use postroom_admin::{ERASED_HEADER, Selection};
use postroom_core::{Event, StoreErrorKind};

use super::bench::{SECOND, actor, event, route};
use super::{Bench, StoreHarness};

/// Events of a key, with something to erase.
fn events(key: &str, numbers: std::ops::RangeInclusive<u32>) -> Vec<Event> {
    numbers
        .map(|n| event(key, n).header("reply-to", "somebody's address").bytes("text/plain", "who lives where"))
        .collect()
}

fn of(key: &str) -> Selection {
    Selection { key: Some(key.to_owned()), ..Selection::default() }
}

pub async fn erased_payloads_are_gone_and_their_events_are_counted_as_before<H: StoreHarness>(s: &Bench<H>) {
    let worker = s.serve(&route()).await;
    s.append(&events("a", 1..=3)).await;
    assert_eq!(worker.drain().await.len(), 3);
    let before = s.detail("all").await;
    let preview = s.admin().erase_payloads("a", false, true, &actor()).await.unwrap();
    assert_eq!((preview.events, preview.dead_letters, preview.undelivered), (3, 0, 0));
    assert_eq!(preview.bytes, 3 * "who lives where".len() as u64);
    let untouched = s.admin().erase_payloads("a", false, true, &actor()).await.unwrap();
    assert_eq!(untouched, preview, "a dry run erases nothing");
    let erased = s.admin().erase_payloads("a", false, false, &actor()).await.unwrap();
    assert_eq!(erased, preview);
    let again = s.admin().erase_payloads("a", false, false, &actor()).await.unwrap();
    assert_eq!((again.events, again.bytes), (0, 0), "they are erased already");
    let actions = s.admin().audit(None, 10).await.unwrap();
    let actions: Vec<_> = actions.iter().map(|a| (a.action.as_str(), a.subject.as_str(), a.count)).collect();
    assert_eq!(actions, [("key.erase", "a", 3)], "once in the audit, and dry runs are not");
    assert_eq!(s.detail("all").await.status.delivered, before.status.delivered);
    assert_eq!(s.replay(ReplayKind::Settled, &of("a")).await, 3);
    for delivery in worker.take().await {
        assert_eq!(&delivery.event.payload[..], b"null", "of {}", delivery.event.id);
        assert_eq!(delivery.event.content_type, "application/json");
        let headers: Vec<&str> = delivery.event.headers.keys().map(String::as_str).collect();
        assert_eq!(headers, [ERASED_HEADER], "of {}", delivery.event.id);
        worker.deliver(&[delivery]).await;
    }
}

pub async fn payloads_of_undelivered_events_are_erased_only_if_told_so<H: StoreHarness>(s: &Bench<H>) {
    let worker = s.serve(&route()).await;
    s.append(&events("a", 1..=2)).await;
    let refused = s.admin().erase_payloads("a", false, false, &actor()).await.unwrap_err();
    assert_eq!(refused.kind, StoreErrorKind::Conflict, "not read by any relay: {refused}");
    let taken = worker.take().await;
    let refused = s.admin().erase_payloads("a", false, false, &actor()).await.unwrap_err();
    assert_eq!(refused.kind, StoreErrorKind::Conflict, "on their way: {refused}");
    worker.retry(&taken[0], 5 * SECOND).await;
    worker.give_back(&taken[1..]).await;
    let refused = s.admin().erase_payloads("a", false, false, &actor()).await.unwrap_err();
    assert_eq!(refused.kind, StoreErrorKind::Conflict, "waiting for its next attempt: {refused}");
    assert!(refused.to_string().contains("2 of 2 events"), "{refused}");
    let erased = s.admin().erase_payloads("a", true, false, &actor()).await.unwrap();
    assert_eq!((erased.events, erased.undelivered), (2, 2));
    s.pass(5 * SECOND);
    let head = worker.take_one().await;
    assert_eq!(&head.event.payload[..], b"null");
    worker.deliver(&[head]).await;
    assert_eq!(worker.drain().await, ["a-2"]);
}

pub async fn the_payload_of_a_dead_letter_is_erased_and_its_replay_says_so<H: StoreHarness>(s: &Bench<H>) {
    let worker = s.serve(&route()).await;
    s.append(&events("a", 1..=1)).await;
    worker.kill(&worker.take_one().await).await;
    let erased = s.admin().erase_payloads("a", false, false, &actor()).await.unwrap();
    assert_eq!((erased.events, erased.dead_letters, erased.undelivered), (1, 1, 0));
    assert_eq!(s.dead().await.len(), 1, "it is still a dead letter");
    assert_eq!(s.replay(ReplayKind::Dead, &of("a")).await, 1);
    let again = worker.take_one().await;
    assert_eq!((&again.event.payload[..], again.event.id.as_str()), (&b"null"[..], "a-1"));
    worker.deliver(&[again]).await;
}

pub async fn other_keys_keep_their_payloads<H: StoreHarness>(s: &Bench<H>) {
    let worker = s.serve(&route()).await;
    s.append(&events("a", 1..=1)).await;
    s.append(&events("b", 1..=1)).await;
    assert_eq!(worker.drain().await.len(), 2);
    s.admin().erase_payloads("a", false, false, &actor()).await.unwrap();
    let nobody = s.admin().erase_payloads("nobody", false, false, &actor()).await.unwrap();
    assert_eq!(nobody.events, 0);
    assert_eq!(s.replay(ReplayKind::Settled, &of("b")).await, 1);
    let kept = worker.take_one().await;
    assert_ne!(&kept.event.payload[..], b"null");
    assert!(!kept.event.headers.contains_key(ERASED_HEADER) && kept.event.headers.contains_key("reply-to"));
    worker.deliver(&[kept]).await;
}
