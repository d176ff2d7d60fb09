//! Dead letters and replays: looked at, sent again, given up for good.

use postroom_admin::view::ReplayKind::{Dead, Settled};
use postroom_admin::view::{DeliveryGroup, ReplayState};
use postroom_admin::{Selection, replay_at_once};
use postroom_core::{DeliveryState, Event, Pattern};

use super::bench::{SECOND, actor, delivered, event, events, ids, named, names, route, sorted};
use super::{Bench, StoreHarness, Worker};

fn only(ids: &[&str]) -> Selection {
    Selection { ids: ids.iter().map(|id| (*id).to_owned()).collect(), ..Selection::default() }
}

/// Three dead letters: a-1, b-1, c-1.
async fn three_dead<H: StoreHarness>(s: &Bench<H>) -> Worker {
    s.append(&[event("a", 1), event("b", 1).tenant("acme"), event("c", 1)]).await;
    let worker = s.serve(&route()).await;
    let taken = worker.take().await;
    worker.settle(&taken.iter().map(super::bench::dead).collect::<Vec<_>>()).await;
    worker
}

pub async fn a_dead_letter_is_shown_with_everything_known_of_it<H: StoreHarness>(s: &Bench<H>) {
    let _worker = three_dead(s).await;
    let rows = s.dead().await;
    assert_eq!(rows.iter().map(|row| row.id.as_str()).collect::<Vec<_>>(), ["a-1", "b-1", "c-1"], "oldest first");
    let row = &rows[1];
    assert_eq!((row.route.as_str(), row.key.as_deref(), row.tenant.as_deref()), ("all", Some("b"), Some("acme")));
    assert_eq!((row.state, row.attempts, row.due_at), (DeliveryState::Dead, 1, None));
    assert_eq!((row.code.as_deref(), row.error.as_deref()), (Some("test.permanent"), Some("never")));
    let page = s.admin().dead(&Selection::default(), rows[0].position, 1).await.unwrap();
    assert_eq!(page.iter().map(|row| row.id.as_str()).collect::<Vec<_>>(), ["b-1"]);
}

pub async fn dead_letters_are_found_by_what_they_are<H: StoreHarness>(s: &Bench<H>) {
    let _worker = three_dead(s).await;
    let count = async |which: Selection| s.admin().dead(&which, 0, 100).await.unwrap().len();
    let text = |value: &str| Some(value.to_owned());
    assert_eq!(count(only(&["a-1", "c-1"])).await, 2);
    assert_eq!(count(Selection { key: text("a"), ..Selection::default() }).await, 1);
    assert_eq!(count(Selection { tenant: text("acme"), ..Selection::default() }).await, 1);
    assert_eq!(count(Selection { code: text("test.permanent"), ..Selection::default() }).await, 3);
    assert_eq!(count(Selection { code: text("other"), ..Selection::default() }).await, 0);
    assert_eq!(count(Selection { route: text("all"), ..Selection::default() }).await, 3);
    assert_eq!(count(Selection { route: text("other"), ..Selection::default() }).await, 0);
    let types = Selection { event_type: Some(Pattern::parse("order.*").unwrap()), ..Selection::default() };
    assert_eq!(count(types).await, 3);
}

pub async fn dead_letters_of_one_cause_are_one_group<H: StoreHarness>(s: &Bench<H>) {
    let _worker = three_dead(s).await;
    s.pass(SECOND);
    let other = s.serve(&named("other")).await;
    s.append(&[event("a", 2), Event::new("order.paid").key("a").id("a-3")]).await;
    for taken in other.take().await {
        s.pass(SECOND);
        match taken.event.id.as_str() {
            "a-2" | "a-3" => other.kill(&taken).await,
            _ => other.deliver(&[taken]).await,
        };
    }
    let groups = s.admin().dead_groups(&Selection::default(), 10).await.unwrap();
    let seen: Vec<_> = groups.iter().map(|g| (g.route.as_str(), g.state, g.count)).collect();
    assert_eq!(seen, [("all", DeliveryState::Dead, 3), ("other", DeliveryState::Dead, 2)], "the largest first");
    let types = |group: &DeliveryGroup| group.types.iter().map(|(name, n)| format!("{name} {n}")).collect::<Vec<_>>();
    assert_eq!(types(&groups[0]), ["order.placed 3"]);
    assert_eq!(types(&groups[1]), ["order.paid 1", "order.placed 1"], "one cause, whatever the type");
    assert_eq!((groups[0].keys, groups[0].tenants.get("acme"), groups[0].tenants.len()), (3, Some(&1), 1));
    assert!(groups.iter().all(|group| group.code.as_deref() == Some("test.permanent")), "{groups:?}");
    assert_eq!((groups[1].sample.as_str(), groups[1].error.as_deref()), ("a-3", Some("never")), "the newest");
    assert!(groups[0].last_at < groups[1].first_at && groups[1].first_at < groups[1].last_at, "{groups:?}");
    let count = async |which: Selection, limit| s.admin().dead_groups(&which, limit).await.unwrap().len();
    assert_eq!(count(Selection::default(), 1).await, 1);
    assert_eq!(count(Selection { route: Some("other".to_owned()), ..Selection::default() }, 10).await, 1);
    assert_eq!(count(Selection { code: Some("none".to_owned()), ..Selection::default() }, 10).await, 0);
    assert_eq!(count(only(&["a-3"]), 10).await, 1);
}

pub async fn a_preview_counts_and_changes_nothing<H: StoreHarness>(s: &Bench<H>) {
    let worker = three_dead(s).await;
    let affected = s.preview(Dead, &Selection::default()).await;
    assert_eq!((affected.deliveries, affected.keys, affected.routes["all"]), (3, 3, 3));
    assert!(affected.oldest.is_some());
    assert_eq!(s.admin().discard_dead(&Selection::default(), true, &actor()).await.unwrap().deliveries, 3);
    assert_eq!(s.preview(Settled, &Selection::default()).await.deliveries, 0);
    assert_eq!(s.replay(Settled, &Selection::default()).await, 0);
    assert!(worker.take().await.is_empty());
    assert_eq!(s.dead().await.len(), 3);
    assert!(s.admin().audit(None, 10).await.unwrap().is_empty());
}

pub async fn a_replayed_dead_letter_starts_anew_and_blocks_nobody<H: StoreHarness>(s: &Bench<H>) {
    let worker = three_dead(s).await;
    assert_eq!(s.replay(Dead, &only(&["a-1"])).await, 1);
    assert_eq!(s.dead().await.len(), 2);
    let again = worker.take_one().await;
    assert_eq!((again.event.id.as_str(), again.attempts, again.ordered), ("a-1", 0, false));
    worker.retry(&again, 5 * SECOND).await;
    s.append(&events("a", 2..=2)).await;
    assert_eq!(worker.drain().await, ["a-2"]);
    s.pass(5 * SECOND);
    assert_eq!(worker.drain().await, ["a-1"]);
    let status = s.detail("all").await.status;
    assert_eq!((status.delivered, status.dead), (2, 2));
    let action = &s.admin().audit(None, 1).await.unwrap()[0];
    assert_eq!((action.action.as_str(), action.count), ("dead.replay", 1));
    assert!(action.subject.contains("a-1"), "{}", action.subject);
}

pub async fn a_replayed_dead_letter_can_die_again<H: StoreHarness>(s: &Bench<H>) {
    let worker = three_dead(s).await;
    for _ in 0..2 {
        s.replay(Dead, &only(&["b-1"])).await;
        worker.kill(&worker.take_one().await).await;
        assert_eq!(s.dead().await.len(), 3);
        s.agrees().await;
    }
    assert_eq!(s.timeline("b-1", "all").await.attempts.len(), 3);
}

pub async fn a_discarded_dead_letter_is_gone_and_counted<H: StoreHarness>(s: &Bench<H>) {
    let worker = three_dead(s).await;
    assert_eq!(s.admin().discard_dead(&only(&["a-1", "b-1"]), false, &actor()).await.unwrap().deliveries, 2);
    assert_eq!(s.dead().await.len(), 1);
    assert_eq!(s.timeline("a-1", "all").await.state, "discarded");
    assert!(worker.take().await.is_empty());
    let discarded: u64 = s.detail("all").await.lanes.iter().map(|lane| lane.counts.discarded).sum();
    assert_eq!(discarded, 2);
    assert_eq!(s.admin().discard_dead(&only(&["a-1"]), false, &actor()).await.unwrap().deliveries, 0);
}

pub async fn delivered_events_are_sent_again_with_the_same_ids<H: StoreHarness>(s: &Bench<H>) {
    s.append(&[event("a", 1), event("a", 2), event("b", 1)]).await;
    let (all, other) = (s.serve(&named("all")).await, s.serve(&named("other")).await);
    all.drain().await;
    other.drain().await;
    let key = Selection { key: Some("a".to_owned()), ..Selection::default() };
    let affected = s.preview(Settled, &key).await;
    assert_eq!((affected.deliveries, affected.keys), (4, 1));
    assert_eq!((affected.routes["all"], affected.routes["other"]), (2, 2));
    assert_eq!(s.replay(Settled, &key).await, 4);
    s.agrees().await;
    let again = all.take().await;
    assert_eq!(ids(&again), names("a", 1..=2));
    assert!(again.iter().all(|delivery| !delivery.ordered && delivery.attempts == 0));
    all.deliver(&again).await;
    assert_eq!(other.drain().await, names("a", 1..=2));
    let one = Selection { route: Some("other".to_owned()), ids: vec!["b-1".to_owned()], ..Selection::default() };
    assert_eq!(s.replay(Settled, &one).await, 1);
    assert!(all.take().await.is_empty());
    assert_eq!(other.drain().await, ["b-1"]);
    assert_eq!(s.detail("all").await.status.delivered, 5, "what was sent again was delivered again");
    s.agrees().await;
}

pub async fn a_failed_replay_blocks_nobody_and_can_die<H: StoreHarness>(s: &Bench<H>) {
    s.append(&events("a", 1..=1)).await;
    let worker = s.serve(&route()).await;
    worker.drain().await;
    s.replay(Settled, &Selection::default()).await;
    worker.retry(&worker.take_one().await, 5 * SECOND).await;
    s.append(&events("a", 2..=2)).await;
    assert_eq!(worker.drain().await, ["a-2"]);
    s.pass(5 * SECOND);
    worker.kill(&worker.take_one().await).await;
    s.agrees().await;
    assert_eq!(s.dead().await.len(), 1);
    s.admin().discard_dead(&Selection::default(), false, &actor()).await.unwrap();
    assert!(s.dead().await.is_empty());
}

pub async fn only_what_is_settled_is_sent_again<H: StoreHarness>(s: &Bench<H>) {
    s.append(&events("a", 1..=1)).await;
    let worker = s.serve(&route()).await;
    let taken = worker.take().await;
    s.append(&events("b", 1..=1)).await;
    let all = Selection::default();
    assert_eq!(s.replay(Settled, &all).await, 0, "one is on its way, one is not read yet");
    worker.deliver(&taken).await;
    assert_eq!(s.replay(Settled, &all).await, 1);
    assert_eq!(sorted(worker.drain().await), ["a-1", "b-1"]);
}

pub async fn a_replay_says_what_the_inbox_no_longer_remembers<H: StoreHarness>(s: &Bench<H>) {
    s.append(&events("a", 1..=2)).await;
    s.pass(100 * SECOND);
    s.append(&events("a", 3..=3)).await;
    let worker = s.serve(&route()).await;
    worker.drain().await;
    let affected = s.admin().preview_replay(Settled, &Selection::default(), Some(60 * SECOND)).await.unwrap();
    assert_eq!((affected.deliveries, affected.older_than_inbox), (3, 2));
}

pub async fn a_timeline_keeps_every_round_with_its_replay<H: StoreHarness>(s: &Bench<H>) {
    s.append(&[event("a", 1)]).await;
    let worker = s.serve(&route()).await;
    let first = worker.take_one().await;
    worker.deliver(&[first]).await;
    let mut replays = Vec::new();
    for _ in 0..2 {
        s.pass(SECOND);
        let row = replay_at_once(&*s.admin(), Settled, &only(&["a-1"]), &actor()).await.unwrap().unwrap();
        replays.push(row.id);
        let due = s.timeline("a-1", "all").await;
        assert_eq!((due.state, &due.replay), ("due", &replays.last().cloned()));
        s.pass(SECOND);
        let again = worker.take_one().await;
        worker.retry(&again, SECOND).await;
        s.pass(2 * SECOND);
        let again = worker.take_one().await;
        worker.deliver(&[again]).await;
    }
    let line = s.timeline("a-1", "all").await;
    assert_eq!((line.state, line.replay), ("delivered", None));
    let by: Vec<Option<&String>> = line.arrivals.iter().map(|one| one.replay.as_ref()).collect();
    assert_eq!(by, [None, Some(&replays[0]), Some(&replays[1])], "each delivery, in order, with its cause");
    assert!(line.arrivals.is_sorted_by_key(|one| one.at), "{:?}", line.arrivals);
    let tried: Vec<(u32, Option<&String>)> =
        line.attempts.iter().map(|one| (one.attempt, one.replay.as_ref())).collect();
    assert_eq!(tried, [(1, Some(&replays[0])), (1, Some(&replays[1]))]);
}

/// A dead letter that is replayed is a round of its own, and its discard says which.
pub async fn a_timeline_keeps_the_rounds_of_a_dead_letter<H: StoreHarness>(s: &Bench<H>) {
    let dead = three_dead(s).await;
    let row = replay_at_once(&*s.admin(), Dead, &only(&["b-1"]), &actor()).await.unwrap().unwrap();
    let again = dead.take_one().await;
    dead.kill(&again).await;
    s.admin().discard_dead(&only(&["b-1"]), false, &actor()).await.unwrap();
    let line = s.timeline("b-1", "all").await;
    assert_eq!(line.state, "discarded");
    let tried: Vec<Option<&String>> = line.attempts.iter().map(|one| one.replay.as_ref()).collect();
    assert_eq!(tried, [None, Some(&row.id)]);
    assert_eq!(
        line.arrivals.iter().map(|one| (one.discarded, one.replay.as_ref())).collect::<Vec<_>>(),
        [(true, Some(&row.id))]
    );
}

pub async fn a_replay_is_done_when_its_deliveries_are_settled<H: StoreHarness>(s: &Bench<H>) {
    let worker = three_dead(s).await;
    let row = replay_at_once(&*s.admin(), Dead, &Selection::default(), &actor()).await.unwrap().unwrap();
    let look = async || {
        let row = s.admin().replay(&row.id).await.unwrap().unwrap();
        (row.state, row.delivered.unwrap(), row.pending.unwrap(), row.dead.unwrap())
    };
    assert_eq!((row.state, row.done), (ReplayState::Delivering, 3));
    assert_eq!(look().await, (ReplayState::Delivering, 0, 3, 0));
    let taken = worker.take().await;
    worker.settle(&[delivered(&taken[0]), super::bench::dead(&taken[1])]).await;
    worker.retry(&taken[2], SECOND).await;
    assert_eq!(look().await, (ReplayState::Delivering, 1, 1, 1));
    let states = async |state| s.admin().replays(Some(state), 10).await.unwrap().len();
    assert_eq!((states(ReplayState::Delivering).await, states(ReplayState::Done).await), (1, 0));
    s.pass(2 * SECOND);
    worker.drain().await;
    assert_eq!(look().await, (ReplayState::Done, 2, 0, 1));
    assert_eq!((states(ReplayState::Delivering).await, states(ReplayState::Done).await), (0, 1));
}

pub async fn what_a_replay_delivered_counts_as_delivered<H: StoreHarness>(s: &Bench<H>) {
    s.append(&events("a", 1..=5)).await;
    let worker = s.serve(&route()).await;
    assert_eq!(worker.drain().await.len(), 5);
    assert_eq!(s.replay(Settled, &Selection::default()).await, 5);
    assert_eq!(worker.drain().await.len(), 5);
    let detail = s.detail("all").await;
    assert_eq!((detail.status.delivered, detail.lanes.iter().map(|lane| lane.counts.replayed).sum::<u64>()), (10, 5));
    s.agrees().await;
}
