//! Operators use the same commands as on the native log.

use std::time::Duration;

use postroom_core::view::ReplayKind::{Dead, Settled};
use postroom_core::view::{MinuteRow, ReplayState};
use postroom_core::{
    Actor, Page, ReplayChange, ReplayOrder, Retention, Selection, Store as _, StoreErrorKind, Verdict,
};

use super::Sample;
use super::bench::{Bench, ROUTE, dead, delivered, ids, retry};

/// Longer than any test.
const LONG: Duration = Duration::from_hours(1);

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
    let done: Vec<String> =
        bench.desk.actions(None, 10).await.unwrap().into_iter().map(|action| action.action).collect();
    assert!(!bench.desk.resume(ROUTE, &operator()).await.unwrap(), "it is running already");
    assert_eq!(done, ["route.resume", "route.pause"]);
    let missing = bench.desk.pause("nobody", &operator()).await.unwrap_err();
    assert_eq!(missing.kind, StoreErrorKind::NotFound);
}

pub async fn dead_letters_are_replayed_with_their_attempts_at_nought(bench: &Bench) {
    bench.insert(2, None).await;
    let worker = bench.worker("a").await;
    let taken = worker.take().await.deliveries;
    worker.settle([(&taken[0], dead(3)), (&taken[1], delivered())]).await;
    let all = Selection::default();
    assert_eq!(bench.desk.preview_replay(Dead, &all, None).await.unwrap().deliveries, 1);
    assert!(worker.take_all().await.is_empty(), "a preview changes nothing");
    assert_eq!(bench.replay(Dead, &all).await, 1);
    let again = worker.take_all().await;
    assert_eq!((ids(&again), again[0].attempts), (vec!["row-0"], 0));
    let actions = bench.desk.actions(None, 10).await.unwrap();
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
    let preview = bench.desk.preview_replay(Settled, &which, None).await.unwrap();
    assert_eq!((preview.deliveries, preview.keys), (2, 1));
    assert_eq!(bench.replay(Settled, &which).await, 2);
    assert_eq!(ids(&worker.take_all().await), ["k-1", "k-2"]);
}

pub async fn a_replay_ends_though_a_relay_delivers_beside_it(bench: &Bench) {
    if bench.sample == Sample::Presence {
        return;
    }
    bench.insert(5, None).await;
    let worker = bench.worker("a").await;
    let first = worker.take_all().await;
    worker.settle(first.iter().map(|delivery| (delivery, delivered()))).await;
    let all = Selection::default();
    let replay = bench.replay(Settled, &all);
    let relay = async {
        loop {
            let again = worker.take_all().await;
            worker.settle(again.iter().map(|delivery| (delivery, delivered()))).await;
            tokio::task::yield_now().await;
        }
    };
    let replayed = tokio::select! {
        replayed = replay => replayed,
        () = relay => unreachable!("it never ends"),
    };
    assert_eq!(replayed, 5);
}

pub async fn a_replay_goes_step_by_step_and_stops_when_it_is_told_to(bench: &Bench) {
    if bench.sample == Sample::Presence {
        return;
    }
    bench.insert(6, None).await;
    let worker = bench.worker("a").await;
    let first = worker.take_all().await;
    worker.settle(first.iter().map(|delivery| (delivery, delivered()))).await;
    let order =
        ReplayOrder { what: Settled, which: Selection::default(), rate: None, allow_duplicates: true, total: 6 };
    let desk = &bench.desk;
    let begun = desk.start_replay(&order, &operator()).await.unwrap();
    assert_eq!((begun.state, begun.done, &begun.selection), (ReplayState::Running, 0, &order.which));
    assert_eq!((begun.rate, begun.allow_duplicates, begun.reason.as_deref()), (None, true, Some("because")));
    assert!(worker.take_all().await.is_empty(), "nothing is pending before the first step");
    assert_eq!(desk.step_replay(&begun.id, 2).await.unwrap().done, 2);
    let again = worker.take_all().await;
    assert_eq!(ids(&again), ["row-0", "row-1"]);
    worker.settle(again.iter().map(|delivery| (delivery, delivered()))).await;
    assert!(desk.change_replay(&begun.id, ReplayChange::Pause, &operator()).await.unwrap());
    assert_eq!(desk.step_replay(&begun.id, 2).await.unwrap().done, 2);
    assert!(desk.change_replay(&begun.id, ReplayChange::Resume, &operator()).await.unwrap());
    assert_eq!(desk.step_replay(&begun.id, 2).await.unwrap().done, 4);
    assert_eq!(ids(&worker.take_all().await), ["row-2", "row-3"]);
    assert!(desk.change_replay(&begun.id, ReplayChange::Cancel, &operator()).await.unwrap());
    let ended = desk.step_replay(&begun.id, 2).await.unwrap();
    assert_eq!((ended.done, ended.state, ended.ended_at.is_some()), (4, ReplayState::Cancelled, true));
    let resumed = desk.change_replay(&begun.id, ReplayChange::Resume, &operator()).await.unwrap_err();
    assert_eq!(resumed.kind, StoreErrorKind::Conflict);
    assert!(desk.replays(Some(ReplayState::Running), 10).await.unwrap().is_empty());
    assert_eq!(desk.replays(None, 10).await.unwrap(), [ended]);
    let actions = desk.actions(None, 10).await.unwrap();
    let said: Vec<(&str, u64)> = actions.iter().map(|row| (row.action.as_str(), row.count)).collect();
    assert_eq!(said, [("replay.cancel", 4), ("replay.resume", 2), ("replay.pause", 2), ("replay", 6)]);
    assert_eq!(desk.step_replay("none", 1).await.unwrap_err().kind, StoreErrorKind::NotFound);
}

pub async fn several_work_on_one_replay_and_no_row_is_pending_twice(bench: &Bench) {
    if bench.sample == Sample::Presence {
        return;
    }
    bench.insert(12, None).await;
    let worker = bench.worker("a").await;
    let first = worker.take_all().await;
    worker.settle(first.iter().map(|delivery| (delivery, delivered()))).await;
    let order =
        ReplayOrder { what: Settled, which: Selection::default(), rate: None, allow_duplicates: false, total: 12 };
    let id = bench.desk.start_replay(&order, &operator()).await.unwrap().id;
    let work = async || loop {
        let row = bench.desk.step_replay(&id, 2).await.unwrap();
        if row.state != ReplayState::Running {
            return row.done;
        }
    };
    assert_eq!(tokio::join!(work(), work(), work()), (12, 12, 12));
    let mut again = worker.take_all().await;
    assert_eq!(again.len(), 12);
    again.sort_by(|a, b| a.event.id.cmp(&b.event.id));
    again.dedup_by(|a, b| a.event.id == b.event.id);
    assert_eq!(again.len(), 12);
}

pub async fn tables_of_an_older_build_are_brought_up_to_date(bench: &Bench) {
    bench.insert(1, None).await;
    let worker = bench.worker("a").await;
    let taken = worker.take_all().await;
    worker.settle([(&taken[0], dead(1))]).await;
    worker.0.release().await.unwrap();
    let schema = bench.store.schema().unwrap();
    for version in [3, 2] {
        assert_eq!(schema.down().await.unwrap()[0].version, version);
    }
    assert_eq!(schema.status().await.unwrap().version, 1);
    let bench = bench.reopened(bench.sample.layout()).await;
    assert_eq!(schema.status().await.unwrap().version, 3);
    assert_eq!(bench.replay(Dead, &Selection::default()).await, 1, "what was there is still there");
    for version in [3, 2, 1] {
        assert_eq!(schema.down().await.unwrap()[0].version, version);
    }
    assert!(schema.down().await.unwrap().is_empty());
    assert_eq!(schema.up().await.unwrap().len(), 3);
}

pub async fn words_of_others_are_counted_and_those_nobody_declared_are_a_difference(bench: &Bench) {
    if bench.sample != Sample::Words {
        return;
    }
    bench.insert(3, None).await;
    bench.worker("a").await;
    let table = if bench.ground.dialect() == postroom_adopted::Dialect::Postgres { "public.outbox" } else { "outbox" };
    bench.execute(&format!("update {table} set status = 'failed' where id = 'row-0'")).await;
    let note = bench.desk.routes().await.unwrap()[0].status.note.clone();
    assert!(note.contains("1 rows are failed") && !note.contains("declare"), "{note}");
    assert!(bench.desk.audit().await.unwrap()[0].differences.is_empty());
    bench.execute(&format!("update {table} set status = 'odd' where id = 'row-1'")).await;
    let audit = bench.desk.audit().await.unwrap();
    assert_eq!(audit[0].differences, ["1 rows are odd, which the layout does not declare"]);
}

pub async fn what_consumers_accepted_is_shown(bench: &Bench) {
    if bench.sample != Sample::Words {
        return;
    }
    let table = if bench.ground.dialect() == postroom_adopted::Dialect::Postgres { "public." } else { "" };
    bench
        .execute(&format!("insert into {table}processed_events (event_id, consumer_name) values ('row-0', 'mailer')"))
        .await;
    let accepted = bench.desk.inbox(None, Some("row-0"), None, 10).await.unwrap();
    assert_eq!((accepted.len(), accepted[0].consumer.as_str()), (1, "mailer"));
    assert!(bench.desk.inbox(Some("other"), None, None, 10).await.unwrap().is_empty());
    let more = "('row-0', 'billing'), ('row-1', 'mailer')";
    bench.execute(&format!("insert into {table}processed_events (event_id, consumer_name) values {more}")).await;
    let (mut after, mut seen) = (None, Vec::new());
    while let Some(row) = bench.desk.inbox(None, None, after.as_ref(), 1).await.unwrap().pop() {
        seen.push(format!("{} {}", row.id, row.consumer));
        after = Some(row.place());
    }
    assert_eq!(seen, ["row-1 mailer", "row-0 billing", "row-0 mailer"]);
}

pub async fn an_acceptance_that_is_forgotten_is_gone(bench: &Bench) {
    if bench.sample != Sample::Words {
        let refused = bench.desk.forget_inbox("mailer", "row-0", &operator()).await.unwrap_err();
        assert_eq!(refused.kind, StoreErrorKind::Invalid);
        return;
    }
    let table = if bench.ground.dialect() == postroom_adopted::Dialect::Postgres { "public." } else { "" };
    let rows = "('row-0', 'mailer'), ('row-0', 'billing')";
    bench.execute(&format!("insert into {table}processed_events (event_id, consumer_name) values {rows}")).await;
    assert!(bench.desk.forget_inbox("mailer", "row-0", &operator()).await.unwrap());
    assert!(!bench.desk.forget_inbox("mailer", "row-0", &operator()).await.unwrap());
    let left = bench.desk.inbox(None, Some("row-0"), None, 10).await.unwrap();
    assert_eq!((left.len(), left[0].consumer.as_str()), (1, "billing"));
    let actions = bench.desk.actions(None, 10).await.unwrap();
    assert_eq!((actions.len(), actions[0].action.as_str(), actions[0].count), (1, "inbox.forget", 1));
}

pub async fn what_the_route_did_is_counted_per_minute_and_dead_letters_by_cause(bench: &Bench) {
    bench.insert(4, None).await;
    let worker = bench.worker("a").await;
    let from = postroom_core::Timestamp::now();
    let taken = worker.take_all().await;
    worker.settle([(&taken[0], delivered()), (&taken[1], retry(1, LONG))]).await;
    worker.settle([(&taken[2], dead(1)), (&taken[3], dead(1))]).await;
    // A minute may begin in between.
    let rows = bench.desk.minutes(Some(ROUTE), from).await.unwrap();
    let sum = |count: fn(&MinuteRow) -> u64| rows.iter().map(count).sum::<u64>();
    assert_eq!((sum(|row| row.delivered), sum(|row| row.retried), sum(|row| row.dead)), (1, 1, 2), "{rows:?}");
    assert!(rows.iter().all(|row| row.minute.as_second() % 60 == 0 && row.minute <= from + LONG), "{rows:?}");
    assert!(bench.desk.minutes(Some("other"), from).await.unwrap().is_empty());
    assert!(bench.desk.minutes(None, from + 2 * LONG).await.unwrap().is_empty());
    let table = if bench.ground.dialect() == postroom_adopted::Dialect::Postgres {
        "postroom.adopted_stat set minute = minute - interval '25 hours'"
    } else {
        "postroom_adopted_stat set minute = minute - 90000000000"
    };
    bench.execute(&format!("update {table}")).await;
    bench.desk.prune(&Retention::default(), false).await.unwrap();
    assert!(bench.desk.minutes(None, postroom_core::Timestamp::UNIX_EPOCH).await.unwrap().is_empty());

    let groups = bench.desk.dead_groups(&Selection::default(), 10).await.unwrap();
    assert_eq!(groups.len(), 1, "{groups:?}");
    let group = &groups[0];
    assert_eq!((group.route.as_str(), group.count, group.code.as_deref()), (ROUTE, 2, Some("test.bad")));
    assert_eq!((group.sample.as_str(), group.error.as_deref()), ("row-3", Some("it's bad")));
    let other = Selection { code: Some("other".to_owned()), ..Selection::default() };
    assert!(bench.desk.dead_groups(&other, 10).await.unwrap().is_empty());
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
    let listed =
        bench.desk.events(&Selection::default(), Page::Newest { before: None, above: 0, limit: 2 }).await.unwrap();
    let found: Vec<&str> = listed.iter().map(|row| row.id.as_str()).collect();
    assert_eq!(found, ["row-2", "row-1"]);
    let older = Page::Newest { before: Some(listed[1].position), above: 0, limit: 2 };
    assert_eq!(bench.desk.events(&Selection::default(), older).await.unwrap()[0].id, "row-0");
    let taken = worker.take().await.deliveries;
    worker.settle([(&taken[0], dead(1)), (&taken[1], Verdict::Returned), (&taken[2], Verdict::Returned)]).await;
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
    worker.settle([(&taken[0], delivered()), (&taken[1], dead(1)), (&taken[2], Verdict::Returned)]).await;
    let retention = Retention { delivered: Some(Duration::from_secs(1)), ..Retention::default() };
    assert_eq!(bench.desk.prune(&retention, true).await.unwrap().events, 1);
    assert_eq!(bench.desk.prune(&retention, false).await.unwrap().events, 1);
    assert_eq!(bench.seen("row-0").await, "gone");
    let archived = if bench.sample == Sample::Words { vec!["row-0 sent"] } else { Vec::new() };
    let select = if bench.sample == Sample::Words { "id || ' ' || status" } else { "'row'" };
    assert_eq!(bench.column(select, "outbox_archive").await, archived);
    assert_eq!(
        (bench.seen("row-1").await.as_str(), bench.seen("row-2").await.as_str()),
        (bench.sample.dead_seen(), "pending")
    );
}

pub async fn a_dead_row_that_was_made_pending_by_hand_is_a_dead_letter_no_more(bench: &Bench) {
    if bench.sample != Sample::Stamp {
        return;
    }
    bench.insert(1, None).await;
    let worker = bench.worker("a").await;
    let taken = worker.take().await.deliveries;
    worker.settle([(&taken[0], dead(1))]).await;
    assert_eq!(bench.desk.routes().await.unwrap()[0].status.dead, 1);
    let table = bench.sample.in_sql(bench.ground.dialect());
    bench.execute(&format!("update {table} set published_at = null, retry_count = 0")).await;
    assert_eq!(bench.desk.routes().await.unwrap()[0].status.dead, 0);
    let taken = worker.take_all().await;
    worker.settle([(&taken[0], delivered())]).await;
    let status = &bench.desk.routes().await.unwrap()[0].status;
    assert_eq!((status.dead, status.delivered, status.due), (0, 1, 0));
}

pub async fn tokens_are_made_listed_and_revoked(bench: &Bench) {
    crate::tokens::made_listed_and_revoked(&*bench.desk).await;
}
