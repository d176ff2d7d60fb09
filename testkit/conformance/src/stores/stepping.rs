//! Replays as they go: step by step, at their rate, paused and cancelled at any moment, by one or by several.

use std::cell::Cell;
use std::collections::BTreeSet;

use postroom_admin::view::ReplayKind::{Dead, Settled};
use postroom_admin::view::{ReplayKind, ReplayRow, ReplayState};
use postroom_admin::{Admin, ManagedStore as _, REPLAY_STEP, ReplayChange, ReplayOrder, Selection};
use postroom_core::StoreErrorKind;

use super::bench::{SECOND, actor, event, events, named, names, route, sorted};
use super::{Bench, StoreHarness, Worker};

/// Everything of a kind, at a rate.
fn order(what: ReplayKind, rate: Option<f64>, total: u64) -> ReplayOrder {
    ReplayOrder { what, which: Selection::default(), rate, allow_duplicates: false, total }
}

/// So many events of one key that were delivered.
async fn delivered<H: StoreHarness>(s: &Bench<H>, many: u32) -> Worker {
    s.append(&events("a", 1..=many)).await;
    let worker = s.serve(&route()).await;
    worker.drain().await;
    worker
}

async fn start<H: StoreHarness>(s: &Bench<H>, order: &ReplayOrder) -> String {
    s.admin().start_replay(order, &actor()).await.unwrap().id
}

async fn step<H: StoreHarness>(s: &Bench<H>, id: &str, at_most: u64) -> ReplayRow {
    s.admin().step_replay(id, at_most).await.unwrap()
}

async fn change<H: StoreHarness>(s: &Bench<H>, id: &str, change: ReplayChange) -> bool {
    s.admin().change_replay(id, change, &actor()).await.unwrap()
}

pub async fn a_replay_goes_step_by_step<H: StoreHarness>(s: &Bench<H>) {
    let worker = delivered(s, 5).await;
    let id = start(s, &order(Settled, None, 5)).await;
    assert!(worker.take().await.is_empty(), "nothing is due before the first step");
    let row = step(s, &id, 2).await;
    assert_eq!((row.done, row.total, row.state, row.ended_at), (2, 5, ReplayState::Running, None));
    assert_eq!(worker.drain().await, names("a", 1..=2));
    assert_eq!(step(s, &id, 2).await.done, 4);
    assert_eq!(worker.drain().await, names("a", 3..=4));
    let row = step(s, &id, 2).await;
    assert_eq!((row.done, row.state), (5, ReplayState::Delivering));
    assert!(row.ended_at.is_some());
    assert_eq!(worker.drain().await, names("a", 5..=5));
    let after = step(s, &id, 2).await;
    assert_eq!((after.done, after.cursor, after.ended_at), (row.done, row.cursor, row.ended_at), "it stays as it is");
    assert_eq!(after.state, ReplayState::Done);
    assert!(worker.take().await.is_empty());
}

pub async fn dead_letters_are_replayed_step_by_step<H: StoreHarness>(s: &Bench<H>) {
    s.append(&[event("a", 1), event("b", 1), event("c", 1)]).await;
    let worker = s.serve(&route()).await;
    let kill = async || {
        let taken = worker.take().await;
        worker.settle(&taken.iter().map(super::bench::dead).collect::<Vec<_>>()).await;
        taken.len()
    };
    kill().await;
    s.pass(SECOND);
    let id = start(s, &order(Dead, None, 3)).await;
    s.pass(SECOND);
    assert_eq!(step(s, &id, 2).await.done, 2);
    assert_eq!(kill().await, 2, "they die again");
    let row = step(s, &id, 2).await;
    assert_eq!((row.done, row.state), (3, ReplayState::Delivering), "each is made due once");
    assert_eq!(kill().await, 1);
    assert_eq!(s.dead().await.len(), 3);
}

pub async fn a_step_may_end_between_two_routes_of_an_event<H: StoreHarness>(s: &Bench<H>) {
    s.append(&events("a", 1..=2)).await;
    let (all, other) = (s.serve(&named("all")).await, s.serve(&named("other")).await);
    all.drain().await;
    other.drain().await;
    let id = start(s, &order(Settled, None, 4)).await;
    for done in 1..=4 {
        assert_eq!(step(s, &id, 1).await.done, done);
    }
    assert_eq!(step(s, &id, 1).await.state, ReplayState::Delivering);
    assert_eq!((all.drain().await, other.drain().await), (names("a", 1..=2), names("a", 1..=2)));
}

pub async fn a_replay_keeps_its_rate<H: StoreHarness>(s: &Bench<H>) {
    let worker = delivered(s, 10).await;
    let id = start(s, &order(Settled, Some(2.0), 10)).await;
    let mut came = Vec::new();
    for second in 0..5 {
        // However often somebody steps.
        for _ in 0..3 {
            step(s, &id, REPLAY_STEP).await;
            came.extend(worker.drain().await);
            assert_eq!(came.len(), 2 * second + 1, "after {second} seconds");
        }
        s.pass(SECOND);
    }
    step(s, &id, REPLAY_STEP).await;
    s.pass(SECOND);
    assert_eq!(step(s, &id, REPLAY_STEP).await.state, ReplayState::Delivering);
    came.extend(worker.drain().await);
    assert_eq!(came, names("a", 1..=10));
}

pub async fn a_replay_that_nobody_stepped_for_long_keeps_its_rate<H: StoreHarness>(s: &Bench<H>) {
    delivered(s, 100).await;
    let id = start(s, &order(Settled, Some(5.0), 100)).await;
    assert_eq!(step(s, &id, REPLAY_STEP).await.done, 1);
    s.pass(3600 * SECOND);
    assert_eq!(step(s, &id, REPLAY_STEP).await.done, 6, "a second of it, no flood");
    assert!(change(s, &id, ReplayChange::Pause).await);
    s.pass(3600 * SECOND);
    assert!(change(s, &id, ReplayChange::Resume).await);
    assert_eq!(step(s, &id, REPLAY_STEP).await.done, 7);
}

pub async fn a_paused_replay_waits_and_a_resumed_one_goes_on_where_it_was<H: StoreHarness>(s: &Bench<H>) {
    let worker = delivered(s, 5).await;
    let id = start(s, &order(Settled, None, 5)).await;
    step(s, &id, 2).await;
    assert!(change(s, &id, ReplayChange::Pause).await);
    assert!(!change(s, &id, ReplayChange::Pause).await, "it is paused already");
    let row = step(s, &id, 2).await;
    assert_eq!((row.done, row.state), (2, ReplayState::Paused));
    assert_eq!(worker.drain().await, names("a", 1..=2), "what was due stays due");
    assert!(change(s, &id, ReplayChange::Resume).await);
    assert!(!change(s, &id, ReplayChange::Resume).await);
    assert_eq!(step(s, &id, 100).await.done, 5);
    assert_eq!(worker.drain().await, names("a", 3..=5));
}

pub async fn a_cancelled_replay_has_ended<H: StoreHarness>(s: &Bench<H>) {
    let worker = delivered(s, 5).await;
    let id = start(s, &order(Settled, None, 5)).await;
    step(s, &id, 2).await;
    change(s, &id, ReplayChange::Pause).await;
    assert!(change(s, &id, ReplayChange::Cancel).await);
    assert!(!change(s, &id, ReplayChange::Cancel).await);
    let row = step(s, &id, 100).await;
    assert_eq!((row.done, row.state), (2, ReplayState::Cancelled));
    assert!(row.ended_at.is_some());
    let resumed = s.admin().change_replay(&id, ReplayChange::Resume, &actor()).await.unwrap_err();
    assert_eq!(resumed.kind, StoreErrorKind::Conflict);
    assert_eq!(worker.drain().await, names("a", 1..=2), "what was due stays due");
    let done = start(s, &order(Settled, None, 5)).await;
    assert_eq!(step(s, &done, 100).await.state, ReplayState::Delivering);
    let cancelled = s.admin().change_replay(&done, ReplayChange::Cancel, &actor()).await.unwrap_err();
    assert_eq!(cancelled.kind, StoreErrorKind::Conflict);
}

pub async fn nothing_is_made_due_after_a_pause_has_returned<H: StoreHarness>(s: &Bench<H>) {
    let worker = delivered(s, 50).await;
    let id = start(s, &order(Settled, None, 50)).await;
    let other = s.harness.reopen().await.admin();
    let stepping = async {
        while other.step_replay(&id, 1).await.unwrap().state == ReplayState::Running {
            tokio::task::yield_now().await;
        }
    };
    let pausing = async {
        while s.admin().replay(&id).await.unwrap().unwrap().done == 0 {
            tokio::task::yield_now().await;
        }
        change(s, &id, ReplayChange::Pause).await;
        s.admin().replay(&id).await.unwrap().unwrap().done
    };
    let ((), done) = tokio::join!(stepping, pausing);
    worker.renew().await;
    let came = worker.drain().await;
    assert_eq!(came.len() as u64, done);
    assert!((1..50).contains(&done), "{done}");
}

pub async fn several_work_on_one_replay_and_nothing_is_made_due_twice<H: StoreHarness>(s: &Bench<H>) {
    let worker = delivered(s, 60).await;
    let id = start(s, &order(Settled, None, 60)).await;
    let (one, two, three) = (s.admin(), s.harness.reopen().await.admin(), s.harness.reopen().await.admin());
    let work = async |admin: &dyn Admin| {
        let mut row = admin.step_replay(&id, 7).await.unwrap();
        while row.state == ReplayState::Running {
            tokio::task::yield_now().await;
            row = admin.step_replay(&id, 7).await.unwrap();
        }
        row.done
    };
    // What is delivered meanwhile could be made due once more.
    let (mut came, ended) = (Vec::new(), Cell::new(false));
    let deliver = async {
        while !ended.get() {
            worker.renew().await;
            came.extend(worker.drain().await);
            tokio::task::yield_now().await;
        }
        came.extend(worker.drain().await);
    };
    let work = async {
        let done = tokio::join!(work(&*one), work(&*two), work(&*three));
        ended.set(true);
        done
    };
    let (done, ()) = tokio::join!(work, deliver);
    assert_eq!(done, (60, 60, 60));
    worker.renew().await;
    came.extend(worker.drain().await);
    assert_eq!((came.len(), came.into_iter().collect::<BTreeSet<_>>().len()), (60, 60));
}

pub async fn what_comes_after_a_replay_was_asked_for_is_not_sent_again<H: StoreHarness>(s: &Bench<H>) {
    let worker = delivered(s, 2).await;
    let late = s.serve(&named("late")).await;
    let id = start(s, &order(Settled, None, 2)).await;
    let dead = start(s, &order(Dead, None, 0)).await;
    s.pass(SECOND);
    s.append(&[event("a", 3), event("b", 1)]).await;
    for taken in worker.take().await {
        if taken.event.id == "b-1" {
            worker.kill(&taken).await
        } else {
            worker.deliver(&[taken]).await
        };
    }
    assert_eq!(sorted(late.drain().await), ["a-1", "a-2", "a-3", "b-1"]);
    let row = step(s, &id, 100).await;
    assert_eq!((row.done, row.state), (2, ReplayState::Delivering));
    assert_eq!(worker.drain().await, names("a", 1..=2));
    assert!(late.take().await.is_empty(), "it had read nothing by then");
    let row = step(s, &dead, 100).await;
    assert_eq!((row.done, row.state), (0, ReplayState::Done));
    assert_eq!(s.dead().await.len(), 1);
}

pub async fn a_replay_to_a_route_that_is_forgotten_ends<H: StoreHarness>(s: &Bench<H>) {
    let worker = delivered(s, 2).await;
    let which = Selection { route: Some("all".to_owned()), ..Selection::default() };
    let id = start(s, &ReplayOrder { which: which.clone(), ..order(Settled, None, 2) }).await;
    worker.source.release().await.unwrap();
    s.pass(60 * SECOND);
    s.admin().forget("all", &actor()).await.unwrap();
    let row = step(s, &id, 100).await;
    assert_eq!((row.done, row.state), (0, ReplayState::Done));
    let unknown = s.admin().preview_replay(Settled, &which, None).await.unwrap_err();
    assert_eq!(unknown.kind, StoreErrorKind::NotFound);
}

pub async fn replays_are_listed_and_everything_done_to_them_is_in_the_audit<H: StoreHarness>(s: &Bench<H>) {
    delivered(s, 3).await;
    let which = Selection { key: Some("a".to_owned()), ..Selection::default() };
    let asked = ReplayOrder { which, allow_duplicates: true, ..order(Settled, Some(0.5), 3) };
    let first = s.admin().start_replay(&asked, &actor()).await.unwrap();
    assert_eq!((first.what, first.rate, first.allow_duplicates), (Settled, Some(0.5), true));
    assert_eq!((first.selection.clone(), first.actor.as_str()), (asked.which, "ada"));
    let second = start(s, &order(Settled, None, 3)).await;
    step(s, &second, 2).await;
    for done in [ReplayChange::Pause, ReplayChange::Resume, ReplayChange::Cancel] {
        change(s, &second, done).await;
    }
    let listed = async |state| -> Vec<String> {
        s.admin().replays(state, 10).await.unwrap().into_iter().map(|row| row.id).collect()
    };
    assert_eq!(listed(None).await, [second.clone(), first.id.clone()], "newest first");
    assert_eq!(listed(Some(ReplayState::Running)).await, [first.id.as_str()]);
    assert_eq!(s.admin().replays(None, 1).await.unwrap().len(), 1);
    assert_eq!(s.admin().replay(&first.id).await.unwrap(), Some(first.clone()));
    assert_eq!(s.admin().replay("none").await.unwrap(), None);
    for missing in [
        s.admin().step_replay("none", 1).await.map(drop).unwrap_err(),
        s.admin().change_replay("none", ReplayChange::Pause, &actor()).await.map(drop).unwrap_err(),
    ] {
        assert_eq!(missing.kind, StoreErrorKind::NotFound);
    }
    let actions = s.admin().audit(None, 5).await.unwrap();
    let said: Vec<(&str, u64)> = actions.iter().map(|row| (row.action.as_str(), row.count)).collect();
    assert_eq!(said, [("replay.cancel", 2), ("replay.resume", 2), ("replay.pause", 2), ("replay", 3), ("replay", 3)]);
    assert_eq!(actions[0].subject, second);
    assert!(actions[4].subject.contains(&first.id) && actions[4].subject.contains(r#""key":"a""#));
}

pub async fn what_no_replay_can_be_is_refused<H: StoreHarness>(s: &Bench<H>) {
    let code = Selection { code: Some("test.permanent".to_owned()), ..Selection::default() };
    for wrong in [
        ReplayOrder { which: code, ..order(Settled, None, 1) },
        order(Settled, Some(0.0), 1),
        order(Dead, Some(f64::NAN), 1),
    ] {
        let refused = s.admin().start_replay(&wrong, &actor()).await.unwrap_err();
        assert_eq!(refused.kind, StoreErrorKind::Invalid, "{wrong:?}");
    }
    assert!(s.admin().replays(None, 10).await.unwrap().is_empty());
}

pub async fn ten_thousand_are_replayed_in_bounded_steps<H: StoreHarness>(s: &Bench<H>) {
    for from in (1..=10_000).step_by(1_000) {
        s.append(&(from..from + 1_000).map(|n| event(&format!("k{}", n % 50), n)).collect::<Vec<_>>()).await;
    }
    let worker = s.serve(&route()).await;
    assert_eq!(worker.drain().await.len(), 10_000);
    let id = start(s, &order(Settled, None, 10_000)).await;
    let (mut row, mut steps) = (step(s, &id, REPLAY_STEP).await, 1);
    while row.state == ReplayState::Running {
        let before = row.done;
        row = step(s, &id, REPLAY_STEP).await;
        assert!(row.done - before <= REPLAY_STEP);
        steps += 1;
    }
    assert!((10..30).contains(&steps), "{steps}");
    assert_eq!(row.done, 10_000);
    let came: BTreeSet<String> = worker.drain().await.into_iter().collect();
    assert_eq!(came.len(), 10_000);
}
