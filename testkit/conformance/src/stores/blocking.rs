//! Order per key when something fails: the bad stay alone, and nobody overtakes.

use std::time::Duration;

use postroom_admin::Selection;
use postroom_core::{Clock, Event, OnDead, OnFailure, RouteSpec};

use super::bench::{
    LEASE, SECOND, actor, delivered, event, events, ids, names, of_key, retry, returned, route, sorted,
};
use super::{Bench, StoreHarness, Worker};

/// Takes everything, fails the first of key `a`, delivers the other keys, gives the rest of `a` back.
async fn fail_head<H: StoreHarness>(s: &Bench<H>, worker: &Worker) {
    let taken = worker.take().await;
    let (head, rest) = split(&taken);
    worker.retry(&head, 5 * SECOND).await;
    worker.give_back(&rest).await;
    s.agrees().await;
}

/// The first delivery of key `a`, and the later ones.
fn split(taken: &[postroom_core::Delivery]) -> (postroom_core::Delivery, Vec<postroom_core::Delivery>) {
    let mut of_a: Vec<_> = taken.iter().filter(|d| d.event.ordering_key() == Some("a")).cloned().collect();
    let head = of_a.remove(0);
    (head, of_a)
}

pub async fn a_failed_event_comes_again_when_it_is_due_and_not_before<H: StoreHarness>(s: &Bench<H>) {
    s.append(&events("a", 1..=1)).await;
    let worker = s.serve(&route()).await;
    worker.retry(&worker.take_one().await, 5 * SECOND).await;
    assert!(worker.take().await.is_empty());
    s.pass(Duration::from_millis(4999));
    assert!(worker.take().await.is_empty());
    s.pass(Duration::from_millis(1));
    let again = worker.take_one().await;
    assert_eq!((again.attempts, again.ordered), (1, true));
    worker.deliver(&[again]).await;
    assert!(worker.take().await.is_empty());
}

pub async fn a_failed_event_blocks_its_key_and_no_other<H: StoreHarness>(s: &Bench<H>) {
    s.append(&[event("a", 1), event("b", 1), event("c", 1)]).await;
    let worker = s.serve(&route()).await;
    let taken = worker.take().await;
    let (head, _) = split(&taken);
    worker.retry(&head, 5 * SECOND).await;
    s.append(&[event("a", 2), event("b", 2), event("c", 2), Event::new("t").id("none-1")]).await;
    let came = ids(&worker.take().await);
    assert_eq!(sorted(came), ["b-2", "c-2", "none-1"]);
    assert_eq!(s.timeline("a-2", "all").await.state, "blocked");
}

pub async fn followers_come_in_order_after_their_head<H: StoreHarness>(s: &Bench<H>) {
    s.append(&events("a", 1..=3)).await;
    let worker = s.serve(&route()).await;
    fail_head(s, &worker).await;
    s.append(&events("a", 4..=6)).await;
    assert!(worker.take().await.is_empty(), "everything of the key waits");
    s.pass(5 * SECOND);
    let head = worker.take_one().await;
    assert_eq!(head.event.id, "a-1");
    s.append(&events("a", 7..=7)).await;
    assert!(worker.take().await.is_empty(), "also while the head is on its way");
    worker.deliver(&[head]).await;
    assert_eq!(worker.drain().await, names("a", 2..=7));
    s.append(&events("a", 8..=8)).await;
    assert_eq!(worker.drain().await, ["a-8"]);
}

pub async fn hundreds_of_followers_come_in_order<H: StoreHarness>(s: &Bench<H>) {
    s.append(&events("a", 1..=1)).await;
    let worker = s.serve(&route()).await;
    fail_head(s, &worker).await;
    s.append(&events("a", 2..=350)).await;
    assert!(worker.take().await.is_empty());
    s.pass(5 * SECOND);
    let mut came = Vec::new();
    loop {
        let taken = worker.take().await;
        if taken.is_empty() {
            break;
        }
        came.extend(ids(&taken));
        // One by one and not all at once, as an engine settles them.
        for one in &taken {
            worker.deliver(std::slice::from_ref(one)).await;
        }
        if came.len() == 101 {
            s.append(&events("a", 351..=355)).await;
        }
    }
    assert_eq!(came, names("a", 1..=355));
}

pub async fn a_blocker_settled_while_a_take_runs_lets_nobody_overtake<H: StoreHarness>(s: &Bench<H>) {
    let worker = s.serve(&route()).await;
    for round in 0..20 {
        let key = format!("k{round}");
        s.append(&events(&key, 1..=1)).await;
        worker.retry(&worker.take_one().await, Duration::ZERO).await;
        let head = worker.take_one().await;
        s.append(&events(&key, 2..=6)).await;
        let (taken, _) = futures_util::future::join(worker.take(), worker.deliver(std::slice::from_ref(&head))).await;
        let mut came = ids(&taken);
        worker.deliver(&taken).await;
        came.extend(worker.drain().await);
        assert_eq!(came, names(&key, 2..=6));
    }
    s.agrees().await;
}

pub async fn a_follower_that_fails_blocks_the_rest_again<H: StoreHarness>(s: &Bench<H>) {
    s.append(&events("a", 1..=1)).await;
    let worker = s.serve(&route()).await;
    fail_head(s, &worker).await;
    s.append(&events("a", 2..=6)).await;
    worker.take().await;
    s.pass(5 * SECOND);
    worker.deliver(&[worker.take_one().await]).await;
    let followers = worker.take().await;
    assert_eq!(ids(&followers), names("a", 2..=6));
    worker.deliver(&followers[..1]).await;
    worker.retry(&followers[1], 5 * SECOND).await;
    worker.give_back(&followers[2..]).await;
    assert!(worker.take().await.is_empty(), "those behind the failed one wait again");
    assert_eq!(s.timeline("a-4", "all").await.blocked_by.as_deref(), Some("a-3"));
    s.pass(5 * SECOND);
    assert_eq!(worker.drain().await, names("a", 3..=6));
}

pub async fn a_follower_given_back_before_its_head_failed_waits_all_the_same<H: StoreHarness>(s: &Bench<H>) {
    s.append(&events("a", 1..=3)).await;
    let worker = s.serve(&route()).await;
    let taken = worker.take().await;
    worker.settle(&[returned(&taken[2]), returned(&taken[1]), retry(&taken[0], 5 * SECOND)]).await;
    assert!(worker.take().await.is_empty());
    s.pass(5 * SECOND);
    assert_eq!(worker.drain().await, names("a", 1..=3));
}

pub async fn a_follower_given_back_when_its_key_goes_on_is_not_overtaken<H: StoreHarness>(s: &Bench<H>) {
    let worker = s.serve(&route()).await;
    for (key, together) in [("a", true), ("b", false)] {
        s.append(&events(key, 1..=3)).await;
        let taken = worker.take().await;
        worker.settle(&[retry(&taken[0], 5 * SECOND), returned(&taken[1])]).await;
        // The fourth waits behind the first, the third is still in our hands.
        s.append(&events(key, 4..=4)).await;
        assert!(worker.take().await.is_empty());
        s.pass(5 * SECOND);
        let head = worker.take_one().await;
        if together {
            worker.settle(&[delivered(&head), returned(&taken[2])]).await;
        } else {
            worker.deliver(&[head]).await;
            worker.give_back(&taken[2..]).await;
        }
        assert_eq!(worker.drain().await, names(key, 2..=4));
    }
    s.agrees().await;
}

pub async fn a_follower_given_back_is_seen_to_wait_at_once<H: StoreHarness>(s: &Bench<H>) {
    s.append(&events("a", 1..=2)).await;
    let worker = s.serve(&route()).await;
    fail_head(s, &worker).await;
    let timeline = s.timeline("a-2", "all").await;
    assert_eq!((timeline.state, timeline.blocked_by.as_deref()), ("blocked", Some("a-1")));
    assert_eq!(s.detail("all").await.status.blocked_keys, 1);
}

pub async fn a_new_owner_keeps_the_order_behind_a_failed_event<H: StoreHarness>(s: &Bench<H>) {
    s.append(&events("a", 1..=3)).await;
    let old = s.serve(&route()).await;
    let taken = old.take().await;
    old.retry(&taken[0], 2 * LEASE).await;
    // It dies with two in its hands.
    s.pass(LEASE + SECOND);
    let new = s.serve_as("new", &route()).await.unwrap();
    assert!(new.take().await.is_empty(), "they wait for the failed one");
    s.pass(LEASE);
    new.renew().await;
    assert_eq!(new.drain().await, names("a", 1..=3));
}

pub async fn events_without_a_key_never_wait_for_each_other<H: StoreHarness>(s: &Bench<H>) {
    s.append(&[Event::new("t").id("n-1")]).await;
    let worker = s.serve(&route()).await;
    worker.retry(&worker.take_one().await, 5 * SECOND).await;
    s.append(&[Event::new("t").id("n-2")]).await;
    assert_eq!(worker.drain().await, ["n-2"]);
    s.pass(5 * SECOND);
    assert_eq!(worker.drain().await, ["n-1"]);
}

pub async fn with_skip_later_events_pass_a_failed_one<H: StoreHarness>(s: &Bench<H>) {
    let definition = RouteSpec { on_failure: OnFailure::Skip, ..route() };
    s.append(&events("a", 1..=2)).await;
    let worker = s.serve(&definition).await;
    fail_head(s, &worker).await;
    s.append(&events("a", 3..=3)).await;
    assert_eq!(worker.drain().await, names("a", 2..=3));
    s.pass(5 * SECOND);
    assert_eq!(worker.drain().await, ["a-1"]);
}

pub async fn after_a_death_the_key_goes_on<H: StoreHarness>(s: &Bench<H>) {
    s.append(&events("a", 1..=3)).await;
    let worker = s.serve(&route()).await;
    let taken = worker.take().await;
    worker.kill(&taken[0]).await;
    worker.give_back(&taken[1..]).await;
    assert_eq!(worker.drain().await, names("a", 2..=3));
    assert_eq!(s.timeline("a-1", "all").await.state, "dead");
}

pub async fn after_a_death_in_a_retry_the_followers_go_on<H: StoreHarness>(s: &Bench<H>) {
    s.append(&events("a", 1..=3)).await;
    let worker = s.serve(&route()).await;
    fail_head(s, &worker).await;
    s.pass(5 * SECOND);
    worker.kill(&worker.take_one().await).await;
    assert_eq!(worker.drain().await, names("a", 2..=3));
    let status = s.detail("all").await.status;
    assert_eq!((status.dead, status.retrying, status.blocked_keys), (1, 0, 0));
}

pub async fn with_hold_a_death_holds_the_key_until_an_operator_decides<H: StoreHarness>(s: &Bench<H>) {
    let definition = RouteSpec { on_dead: OnDead::Hold, ..route() };
    s.append(&events("a", 1..=3)).await;
    let worker = s.serve(&definition).await;
    let taken = worker.take().await;
    worker.kill(&taken[0]).await;
    worker.give_back(&taken[1..]).await;
    s.append(&[event("a", 4), event("b", 1)]).await;
    assert_eq!(worker.drain().await, ["b-1"]);
    s.pass(10 * SECOND);
    let take = worker.look().await;
    assert!(take.deliveries.is_empty() && !take.retrying, "nothing here comes by itself");
    assert_eq!(s.admin().discard_dead(&Selection::default(), false, &actor()).await.unwrap().deliveries, 1);
    assert_eq!(worker.drain().await, names("a", 2..=4));
}

pub async fn with_hold_a_replayed_head_goes_before_its_followers<H: StoreHarness>(s: &Bench<H>) {
    let definition = RouteSpec { on_dead: OnDead::Hold, ..route() };
    s.append(&events("a", 1..=3)).await;
    let worker = s.serve(&definition).await;
    let taken = worker.take().await;
    worker.kill(&taken[0]).await;
    worker.give_back(&taken[1..]).await;
    worker.take().await;
    s.replay(postroom_admin::view::ReplayKind::Dead, &Selection::default()).await;
    assert_eq!(worker.drain().await, names("a", 1..=3));
}

pub async fn a_failed_event_and_its_followers_survive_a_reopening<H: StoreHarness>(s: &Bench<H>) {
    s.append(&events("a", 1..=3)).await;
    let worker = s.serve(&route()).await;
    fail_head(s, &worker).await;
    worker.take().await;
    worker.source.release().await.unwrap();
    let reopened = s.harness.reopen().await;
    let worker = Worker::open(&reopened, &s.relay("other"), &route()).await.unwrap();
    assert!(worker.take().await.is_empty());
    s.pass(5 * SECOND);
    let head = worker.take_one().await;
    assert_eq!((head.event.id.as_str(), head.attempts), ("a-1", 1));
    worker.deliver(&[head]).await;
    assert_eq!(worker.drain().await, names("a", 2..=3));
}

pub async fn many_failing_keys_do_not_hold_back_the_others<H: StoreHarness>(s: &Bench<H>) {
    let bad: Vec<Event> = (1..=200).map(|n| event(&format!("bad{n}"), 1)).collect();
    s.append(&bad).await;
    let worker = s.serve(&route()).await;
    let taken = worker.take().await;
    assert_eq!(taken.len(), 200);
    worker.settle(&taken.iter().map(|d| retry(d, 60 * SECOND)).collect::<Vec<_>>()).await;
    for n in 2..=3 {
        let more: Vec<Event> = (1..=200).map(|k| event(&format!("bad{k}"), n)).collect();
        s.append(&more).await;
    }
    s.append(&events("good", 1..=20)).await;
    assert_eq!(worker.drain().await, names("good", 1..=20));
    s.pass(60 * SECOND);
    worker.renew().await;
    let came = worker.drain().await;
    assert_eq!(came.len(), 600);
    for n in 1..=200 {
        let key = format!("bad{n}");
        assert_eq!(of_key(&came, &key), names(&key, 1..=3));
    }
}

pub async fn a_key_with_very_many_followers_stops_that_key_only<H: StoreHarness>(s: &Bench<H>) {
    const FOLLOWERS: u32 = 12_000;
    s.append(&events("a", 1..=1)).await;
    let worker = s.serve(&route()).await;
    fail_head(s, &worker).await;
    for first in (2..=FOLLOWERS).step_by(500) {
        s.append(&events("a", first..=(first + 499).min(FOLLOWERS))).await;
        if first % 4_000 == 2 {
            s.append(&events(&format!("b{first}"), 1..=1)).await;
        }
    }
    s.append(&events("c", 1..=2)).await;
    let others: Vec<String> = (2..=FOLLOWERS).step_by(4_000).map(|first| format!("b{first}-1")).collect();
    let came = worker.drain().await;
    assert!(others.iter().all(|id| came.contains(id)) && came.len() == others.len() + 2, "{came:?}");
    assert_eq!(of_key(&came, "c"), names("c", 1..=2));
    assert_eq!(worker.look().await.ownership.halted, None);
    s.agrees().await;
    s.pass(5 * SECOND);
    worker.renew().await;
    assert_eq!(worker.drain().await, names("a", 1..=FOLLOWERS), "all of them, in their order");
    s.agrees().await;
}

pub async fn a_jump_of_wall_time_loses_no_retry<H: StoreHarness>(s: &Bench<H>) {
    s.append(&events("a", 1..=2)).await;
    let worker = s.serve(&route()).await;
    fail_head(s, &worker).await;
    let before = s.harness.clock().now();
    s.harness.clock().jump_wall(jiff::SignedDuration::from_secs(3600));
    assert!(s.harness.clock().now() > before);
    worker.renew().await;
    assert_eq!(worker.drain().await, names("a", 1..=2));
}
