//! Blocked keys, and what an operator can do about them.

use postroom_core::{DeliveryState, OnDead, RouteSpec, StoreErrorKind};

use super::bench::{SECOND, actor, event, events, names, route};
use super::{Bench, StoreHarness, Worker};

/// A key whose head is retrying, with `a-2` to `a-4` behind it.
async fn blocked<H: StoreHarness>(s: &Bench<H>) -> Worker {
    s.append(&events("a", 1..=1)).await;
    let worker = s.serve(&route()).await;
    worker.retry(&worker.take_one().await, 10 * SECOND).await;
    s.append(&events("a", 2..=4)).await;
    assert!(worker.take().await.is_empty());
    worker
}

pub async fn a_blocked_key_is_listed_with_its_head_and_its_reason<H: StoreHarness>(s: &Bench<H>) {
    let _worker = blocked(s).await;
    let keys = s.admin().blocked_keys(None, None, 10).await.unwrap();
    assert_eq!(keys.len(), 1);
    let key = &keys[0];
    assert_eq!((key.route.as_str(), key.key.as_str(), key.head_id.as_str()), ("all", "a", "a-1"));
    assert_eq!((key.head_state, key.attempts, key.waiting), (DeliveryState::Retrying, 1, 3));
    assert_eq!((key.code.as_deref(), key.error.as_deref()), (Some("test.transient"), Some("not now")));
    assert!(key.due_at.is_some());
    assert_eq!(s.detail("all").await.status.blocked_keys, 1);
    assert_eq!(s.admin().blocked_keys(Some("all"), None, 10).await.unwrap().len(), 1);
    assert!(s.admin().blocked_keys(Some("other"), None, 10).await.unwrap().is_empty());
}

pub async fn blocked_keys_come_page_by_page_and_each_once<H: StoreHarness>(s: &Bench<H>) {
    let heads = ["a", "b", "c"].map(|key| event(key, 1));
    s.append(&heads).await;
    let routes = ["all", "other"].map(|name| RouteSpec { name: name.to_owned(), ..route() });
    let mut workers = Vec::new();
    for route in &routes {
        let worker = s.serve(route).await;
        for head in worker.take().await {
            worker.retry(&head, 10 * SECOND).await;
        }
        workers.push(worker);
    }
    s.append(&["a", "b", "c"].map(|key| event(key, 2))).await;
    for worker in &workers {
        assert!(worker.take().await.is_empty());
    }
    let (mut after, mut seen) = (None, Vec::new());
    loop {
        let page = s.admin().blocked_keys(None, after.as_ref(), 1).await.unwrap();
        let Some(key) = page.first() else { break };
        seen.push(format!("{} {}", key.key, key.route));
        after = Some(key.cursor());
    }
    assert_eq!(seen, ["a all", "a other", "b all", "b other", "c all", "c other"]);
    for key in ["a", "b", "c"] {
        s.admin().unblock("other", key, &actor()).await.unwrap();
    }
    let all = s.admin().audit(None, 3).await.unwrap();
    assert_eq!(s.admin().audit(Some(all[0].number), 2).await.unwrap(), all[1..]);
    for worker in &workers {
        s.pass(10 * SECOND);
        worker.drain().await;
    }
}

pub async fn a_key_that_went_on_is_no_longer_listed<H: StoreHarness>(s: &Bench<H>) {
    let worker = blocked(s).await;
    s.pass(10 * SECOND);
    assert_eq!(worker.drain().await, names("a", 1..=4));
    assert!(s.admin().blocked_keys(None, None, 10).await.unwrap().is_empty());
    assert_eq!(s.detail("all").await.status.blocked_keys, 0);
}

pub async fn an_unblocked_key_goes_on_while_its_head_keeps_its_retries<H: StoreHarness>(s: &Bench<H>) {
    let worker = blocked(s).await;
    assert_eq!(s.admin().unblock("all", "a", &actor()).await.unwrap(), 3);
    s.append(&events("a", 5..=5)).await;
    assert_eq!(worker.drain().await, names("a", 2..=5));
    s.pass(10 * SECOND);
    let head = worker.take_one().await;
    assert_eq!((head.event.id.as_str(), head.attempts, head.ordered), ("a-1", 1, false));
    worker.retry(&head, SECOND).await;
    s.append(&events("a", 6..=6)).await;
    assert_eq!(worker.drain().await, ["a-6"], "it blocks nobody any more");
    s.pass(SECOND);
    assert_eq!(worker.drain().await, ["a-1"]);
    let actions = s.admin().audit(None, 1).await.unwrap();
    assert_eq!((actions[0].actor.as_str(), actions[0].reason.as_deref()), ("ada", Some("a test")));
}

pub async fn a_skipped_head_is_a_dead_letter_and_its_key_goes_on<H: StoreHarness>(s: &Bench<H>) {
    let worker = blocked(s).await;
    assert_eq!(s.admin().skip_head("all", "a", &actor()).await.unwrap(), "a-1");
    assert_eq!(worker.drain().await, names("a", 2..=4));
    s.pass(20 * SECOND);
    assert!(worker.take().await.is_empty(), "it does not come by itself");
    let dead = s.dead().await;
    assert_eq!((dead.len(), dead[0].id.as_str(), dead[0].state), (1, "a-1", DeliveryState::Dead));
}

pub async fn a_head_skipped_while_it_is_on_its_way_stays_skipped_or_is_delivered<H: StoreHarness>(s: &Bench<H>) {
    let worker = blocked(s).await;
    s.pass(10 * SECOND);
    let head = worker.take_one().await;
    s.admin().skip_head("all", "a", &actor()).await.unwrap();
    worker.retry(&head, SECOND).await;
    assert_eq!(worker.drain().await, names("a", 2..=4));
    s.pass(20 * SECOND);
    worker.renew().await;
    assert!(worker.take().await.is_empty(), "a failure does not bring it back");
    assert_eq!(s.timeline("a-1", "all").await.state, "dead");
}

pub async fn a_follower_that_has_not_failed_is_never_skipped<H: StoreHarness>(s: &Bench<H>) {
    let worker = blocked(s).await;
    s.pass(10 * SECOND);
    worker.deliver(&[worker.take_one().await]).await;
    // The operator still saw the head that failed.
    let error = s.admin().skip_head("all", "a", &actor()).await.unwrap_err();
    assert_eq!(error.kind, StoreErrorKind::NotFound);
    assert!(error.message.contains("a-2"), "{error}");
    assert_eq!(worker.drain().await, names("a", 2..=4));
    assert!(s.dead().await.is_empty());
}

pub async fn a_held_key_is_let_go_by_skipping_its_dead_head<H: StoreHarness>(s: &Bench<H>) {
    let worker = s.serve(&RouteSpec { on_dead: OnDead::Hold, ..route() }).await;
    s.append(&events("a", 1..=1)).await;
    worker.kill(&worker.take_one().await).await;
    s.append(&events("a", 2..=3)).await;
    assert!(worker.take().await.is_empty());
    assert_eq!(s.admin().blocked_keys(None, None, 10).await.unwrap()[0].head_state, DeliveryState::Dead);
    assert_eq!(s.admin().skip_head("all", "a", &actor()).await.unwrap(), "a-1");
    assert_eq!(worker.drain().await, names("a", 2..=3));
    assert_eq!(s.dead().await.len(), 1, "the dead letter stays for whoever wants it");
}

pub async fn a_key_that_is_not_blocked_cannot_be_let_go<H: StoreHarness>(s: &Bench<H>) {
    let _worker = blocked(s).await;
    for error in [
        s.admin().unblock("all", "other", &actor()).await.unwrap_err(),
        s.admin().skip_head("all", "other", &actor()).await.unwrap_err(),
    ] {
        assert_eq!(error.kind, StoreErrorKind::NotFound);
        assert!(error.message.contains("other"), "{error}");
    }
}
