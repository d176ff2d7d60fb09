//! Retention: only what everybody is done with goes, and the proof still holds.

use std::time::Duration;

use postroom_admin::view::ReplayKind;
use postroom_admin::{Page, ReplayOrder, Selection};
use postroom_core::{Inbox, Outbox, Retention};

use super::bench::{SECOND, event, events, named, names, received, route};
use super::{Bench, StoreHarness, Worker};

const DAY: Duration = Duration::from_hours(24);

async fn in_log<H: StoreHarness>(s: &Bench<H>) -> Vec<String> {
    let rows = s.admin().events(&Selection::default(), Page::Oldest { after: 0, limit: 10_000 }).await.unwrap();
    rows.into_iter().map(|row| row.id).collect()
}

pub async fn events_go_when_they_are_old_and_every_route_is_done<H: StoreHarness>(s: &Bench<H>) {
    let (one, two) = (s.serve(&named("one")).await, s.serve(&named("two")).await);
    s.append(&events("a", 1..=3)).await;
    one.drain().await;
    let slow = two.take().await;
    two.deliver(&slow[..2]).await;
    let prune = async |dry_run| s.admin().prune(&Retention::default(), dry_run).await.unwrap().events;
    assert_eq!(prune(false).await, 0, "too young");
    s.pass(8 * DAY);
    s.append(&events("a", 4..=4)).await;
    let (first, last) = if s.harness.prunes_by_segment() { (0, 3) } else { (2, 1) };
    assert_eq!(prune(true).await, first);
    assert_eq!(in_log(s).await.len(), 4, "a dry run removes nothing");
    assert_eq!(prune(false).await, first);
    let kept = if s.harness.prunes_by_segment() { 1..=4 } else { 3..=4 };
    assert_eq!(in_log(s).await, names("a", kept), "the unsettled one stays");
    s.agrees().await;
    for worker in [&one, &two] {
        worker.renew().await;
    }
    two.deliver(&slow[2..]).await;
    one.drain().await;
    two.drain().await;
    assert_eq!(prune(false).await, last);
    assert_eq!(in_log(s).await, ["a-4"]);
    s.agrees().await;
}

pub async fn what_a_route_has_not_read_yet_stays<H: StoreHarness>(s: &Bench<H>) {
    s.admin().register(&[route()]).await.unwrap();
    s.append(&events("a", 1..=3)).await;
    s.pass(30 * DAY);
    assert_eq!(s.admin().prune(&Retention::default(), false).await.unwrap().events, 0);
    assert_eq!(s.serve(&route()).await.drain().await, names("a", 1..=3));
}

pub async fn a_dead_letter_keeps_its_event<H: StoreHarness>(s: &Bench<H>) {
    s.append(&[event("a", 1).bytes("text/plain", "precious"), event("b", 1), event("c", 1)]).await;
    let worker = s.serve(&route()).await;
    let taken = worker.take().await;
    let of = |key: &str| taken.iter().find(|d| d.event.ordering_key() == Some(key)).unwrap();
    worker.kill(of("a")).await;
    worker.retry(of("b"), 20 * DAY).await;
    worker.deliver(std::slice::from_ref(of("c"))).await;
    s.pass(8 * DAY);
    let pruned = s.admin().prune(&Retention::default(), false).await.unwrap();
    assert_eq!((pruned.events, pruned.attempts), (1, 0), "their tries are kept as well");
    s.agrees().await;
    assert_eq!(in_log(s).await, ["a-1", "b-1"], "also where their segment is gone");
    let shown = s.admin().event("a-1", true).await.unwrap().expect("a dead letter's event can be read");
    assert_eq!(shown.payload, Some("precious".into()));
    s.replay(ReplayKind::Dead, &Selection::default()).await;
    worker.renew().await;
    let again = worker.take_one().await;
    assert_eq!(&again.event.payload[..], b"precious");
    worker.deliver(&[again]).await;
    let pruned = s.admin().prune(&Retention::default(), false).await.unwrap();
    assert_eq!((pruned.events, pruned.attempts), (1, 1));
    assert_eq!(in_log(s).await, ["b-1"]);
}

pub async fn numbers_never_start_again<H: StoreHarness>(s: &Bench<H>) {
    let worker = s.serve(&route()).await;
    s.append(&events("a", 1..=5)).await;
    let taken = worker.take().await;
    let last = taken.last().unwrap().position;
    worker.deliver(&taken).await;
    s.pass(8 * DAY);
    assert_eq!(s.admin().prune(&Retention::default(), false).await.unwrap().events, 5);
    assert!(in_log(s).await.is_empty());
    worker.source.release().await.unwrap();
    let reopened = s.harness.reopen().await;
    s.append(&events("a", 6..=6)).await;
    let worker = Worker::open(&reopened, &s.relay("other"), &route()).await.unwrap();
    let next = worker.take_one().await;
    assert!(next.position > last, "{:?} after {last:?}", next.position);
    worker.deliver(&[next]).await;
}

pub async fn a_route_registered_after_a_prune_counts_right<H: StoreHarness>(s: &Bench<H>) {
    let worker = s.serve(&route()).await;
    s.append(&events("a", 1..=5)).await;
    worker.drain().await;
    s.pass(8 * DAY);
    s.admin().prune(&Retention::default(), false).await.unwrap();
    s.append(&events("a", 6..=7)).await;
    let beginning = s.serve(&named("beginning")).await;
    let now = s.serve(&postroom_core::RouteSpec::new("now")).await;
    s.append(&events("a", 8..=8)).await;
    assert_eq!(beginning.drain().await, names("a", 6..=8));
    assert_eq!(now.drain().await, ["a-8"]);
    s.agrees().await;
    worker.renew().await;
    worker.drain().await;
    s.pass(8 * DAY);
    assert_eq!(s.admin().prune(&Retention::default(), false).await.unwrap().events, 3);
}

pub async fn acceptances_words_tries_and_receipts_go_in_their_own_time<H: StoreHarness>(s: &Bench<H>) {
    let mut tx = s.harness.begin().await;
    let _ = s.store().append_once(&mut tx, "request-7", &event("a", 1)).await.unwrap();
    assert!(s.store().accept(&mut tx, "billing", "e-1").await.unwrap().is_new());
    s.harness.commit(tx).await;
    let worker = s.serve(&route()).await;
    worker.retry(&worker.take_one().await, SECOND).await;
    s.pass(SECOND);
    worker.settle(&[received(&worker.take_one().await, "there@1")]).await;
    let retention = |days: u32| Retention { delivered: None, attempts: Some(2 * DAY), inbox: Some(days * DAY) };
    s.pass(DAY);
    let pruned = s.admin().prune(&retention(5), false).await.unwrap();
    assert_eq!((pruned.events, pruned.attempts, pruned.receipts, pruned.inbox, pruned.append_keys), (0, 0, 0, 0, 0));
    s.pass(2 * DAY);
    let pruned = s.admin().prune(&retention(5), false).await.unwrap();
    assert_eq!((pruned.events, pruned.attempts, pruned.receipts, pruned.inbox, pruned.append_keys), (0, 1, 1, 0, 0));
    s.pass(3 * DAY);
    let pruned = s.admin().prune(&retention(5), false).await.unwrap();
    assert_eq!((pruned.attempts, pruned.receipts, pruned.inbox, pruned.append_keys), (0, 0, 1, 1));
    assert!(s.admin().inbox(None, None, None, 10).await.unwrap().is_empty());
    assert_eq!(in_log(s).await, ["a-1"], "kept for ever where nothing is said");
}

pub async fn replays_that_have_ended_go_with_the_tries<H: StoreHarness>(s: &Bench<H>) {
    s.append(&events("a", 1..=2)).await;
    let worker = s.serve(&route()).await;
    worker.drain().await;
    s.replay(ReplayKind::Settled, &Selection::default()).await;
    let order = ReplayOrder {
        what: ReplayKind::Settled,
        which: Selection::default(),
        rate: None,
        allow_duplicates: false,
        total: 2,
    };
    let open = s.admin().start_replay(&order, &super::bench::actor()).await.unwrap().id;
    let kept = async || -> usize {
        s.admin().prune(&Retention::default(), false).await.unwrap();
        s.admin().replays(None, 10).await.unwrap().len()
    };
    s.pass(6 * DAY);
    assert_eq!(kept().await, 2);
    s.pass(2 * DAY);
    assert_eq!(kept().await, 1);
    assert!(s.admin().replay(&open).await.unwrap().is_some(), "one that may still go on stays");
    assert_eq!(s.admin().step_replay(&open, 10).await.unwrap().done, 0, "they are on their way already");
}
