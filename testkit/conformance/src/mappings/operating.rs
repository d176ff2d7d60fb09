//! Operators use the same commands as on the native log.

use std::time::Duration;

use postroom_admin::view::ReplayKind::{Dead, Settled};
use postroom_admin::view::{ReplayState, ThroughputRow};
use postroom_admin::{Page, ReplayChange, ReplayOrder, Selection};
use postroom_core::{Actor, DeliveryState, Retention, Store as _, StoreErrorKind, Verdict};

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
    assert!(bench.admin.pause(ROUTE, &operator()).await.unwrap());
    let take = worker.take().await;
    assert!(take.ownership.paused && take.deliveries.is_empty());
    assert!(bench.admin.resume(ROUTE, &operator()).await.unwrap());
    assert_eq!(worker.take().await.deliveries.len(), 1);
    let done: Vec<String> =
        bench.admin.audit(None, 10).await.unwrap().into_iter().map(|action| action.action).collect();
    assert!(!bench.admin.resume(ROUTE, &operator()).await.unwrap(), "it is running already");
    assert_eq!(done, ["route.resume", "route.pause"]);
    let missing = bench.admin.pause("nobody", &operator()).await.unwrap_err();
    assert_eq!(missing.kind, StoreErrorKind::NotFound);
}

pub async fn dead_letters_are_replayed_with_their_attempts_at_nought(bench: &Bench) {
    bench.insert(2, None).await;
    let worker = bench.worker("a").await;
    let taken = worker.take().await.deliveries;
    worker.settle([(&taken[0], dead(3)), (&taken[1], delivered())]).await;
    let all = Selection::default();
    assert_eq!(bench.admin.preview_replay(Dead, &all, None).await.unwrap().deliveries, 1);
    assert!(worker.take_all().await.is_empty(), "a preview changes nothing");
    assert_eq!(bench.replay(Dead, &all).await, 1);
    let again = worker.take_all().await;
    assert_eq!((ids(&again), again[0].attempts), (vec!["row-0"], 0));
    let actions = bench.admin.audit(None, 10).await.unwrap();
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
    let preview = bench.admin.preview_replay(Settled, &which, None).await.unwrap();
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
    let admin = &bench.admin;
    let begun = admin.start_replay(&order, &operator()).await.unwrap();
    assert_eq!((begun.state, begun.done, &begun.selection), (ReplayState::Running, 0, &order.which));
    assert_eq!((begun.rate, begun.allow_duplicates, begun.reason.as_deref()), (None, true, Some("because")));
    assert!(worker.take_all().await.is_empty(), "nothing is pending before the first step");
    assert_eq!(admin.step_replay(&begun.id, 2).await.unwrap().done, 2);
    let again = worker.take_all().await;
    assert_eq!(ids(&again), ["row-0", "row-1"]);
    worker.settle(again.iter().map(|delivery| (delivery, delivered()))).await;
    assert!(admin.change_replay(&begun.id, ReplayChange::Pause, &operator()).await.unwrap());
    assert_eq!(admin.step_replay(&begun.id, 2).await.unwrap().done, 2);
    assert!(admin.change_replay(&begun.id, ReplayChange::Resume, &operator()).await.unwrap());
    assert_eq!(admin.step_replay(&begun.id, 2).await.unwrap().done, 4);
    assert_eq!(ids(&worker.take_all().await), ["row-2", "row-3"]);
    assert!(admin.change_replay(&begun.id, ReplayChange::Cancel, &operator()).await.unwrap());
    let ended = admin.step_replay(&begun.id, 2).await.unwrap();
    assert_eq!((ended.done, ended.state, ended.ended_at.is_some()), (4, ReplayState::Cancelled, true));
    let resumed = admin.change_replay(&begun.id, ReplayChange::Resume, &operator()).await.unwrap_err();
    assert_eq!(resumed.kind, StoreErrorKind::Conflict);
    assert!(admin.replays(Some(ReplayState::Running), 10).await.unwrap().is_empty());
    assert_eq!(admin.replays(None, 10).await.unwrap(), [ended]);
    let actions = admin.audit(None, 10).await.unwrap();
    let said: Vec<(&str, u64)> = actions.iter().map(|row| (row.action.as_str(), row.count)).collect();
    assert_eq!(said, [("replay.cancel", 4), ("replay.resume", 2), ("replay.pause", 2), ("replay", 6)]);
    assert_eq!(admin.step_replay("none", 1).await.unwrap_err().kind, StoreErrorKind::NotFound);
}

pub async fn payloads_of_an_adopted_table_are_not_erased(bench: &Bench) {
    bench.insert(2, Some("k")).await;
    for dry_run in [true, false] {
        let refused = bench.admin.erase_payloads("k", true, dry_run, &operator()).await.unwrap_err();
        assert_eq!(refused.kind, StoreErrorKind::Invalid);
        assert!(refused.to_string().contains("belong to its application"), "{refused}");
    }
    let worker = bench.worker("a").await;
    assert!(worker.take_all().await.iter().all(|one| one.event.payload != "null"), "the rows are as they were");
    assert!(bench.admin.audit(None, 10).await.unwrap().is_empty(), "nothing was done");
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
    let id = bench.admin.start_replay(&order, &operator()).await.unwrap().id;
    let work = async || loop {
        let row = bench.admin.step_replay(&id, 2).await.unwrap();
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
    // The last step makes functions, where the mapping has any.
    let newest = schema.status().await.unwrap().version;
    assert!((3..=4).contains(&newest), "{newest}");
    for version in (2..=newest).rev() {
        assert_eq!(schema.down().await.unwrap()[0].version, version);
    }
    assert_eq!(schema.status().await.unwrap().version, 1);
    let bench = bench.reopened(bench.sample.mapping()).await;
    assert_eq!(schema.status().await.unwrap().version, newest);
    assert_eq!(bench.replay(Dead, &Selection::default()).await, 1, "what was there is still there");
    for version in (1..=newest).rev() {
        assert_eq!(schema.down().await.unwrap()[0].version, version);
    }
    assert!(schema.down().await.unwrap().is_empty());
    assert_eq!(schema.up().await.unwrap().last().unwrap().version, newest);
}

pub async fn words_of_others_are_counted_and_those_nobody_declared_are_a_difference(bench: &Bench) {
    if bench.sample != Sample::Words {
        return;
    }
    bench.insert(3, None).await;
    bench.worker("a").await;
    let table =
        if bench.executor.dialect() == postroom_adopted::Dialect::Postgres { "public.outbox" } else { "outbox" };
    bench.execute(&format!("update {table} set status = 'failed' where id = 'row-0'")).await;
    let note = bench.admin.routes().await.unwrap()[0].status.message.clone();
    assert!(note.contains("1 rows are failed") && !note.contains("declare"), "{note}");
    assert!(bench.admin.verify().await.unwrap()[0].differences.is_empty());
    bench.execute(&format!("update {table} set status = 'odd' where id = 'row-1'")).await;
    let verified = bench.admin.verify().await.unwrap();
    assert_eq!(verified[0].differences, ["1 rows are odd, which the mapping does not declare"]);
}

pub async fn what_consumers_accepted_is_shown(bench: &Bench) {
    if bench.sample != Sample::Words {
        return;
    }
    let table = if bench.executor.dialect() == postroom_adopted::Dialect::Postgres { "public." } else { "" };
    bench
        .execute(&format!("insert into {table}processed_events (event_id, consumer_name) values ('row-0', 'mailer')"))
        .await;
    let accepted = bench.admin.inbox(None, Some("row-0"), None, 10).await.unwrap();
    assert_eq!((accepted.len(), accepted[0].consumer.as_str()), (1, "mailer"));
    assert!(bench.admin.inbox(Some("other"), None, None, 10).await.unwrap().is_empty());
    let more = "('row-0', 'billing'), ('row-1', 'mailer')";
    bench.execute(&format!("insert into {table}processed_events (event_id, consumer_name) values {more}")).await;
    let (mut after, mut seen) = (None, Vec::new());
    while let Some(row) = bench.admin.inbox(None, None, after.as_ref(), 1).await.unwrap().pop() {
        seen.push(format!("{} {}", row.id, row.consumer));
        after = Some(row.cursor());
    }
    assert_eq!(seen, ["row-1 mailer", "row-0 billing", "row-0 mailer"]);
}

pub async fn an_acceptance_that_is_forgotten_is_gone(bench: &Bench) {
    if bench.sample != Sample::Words {
        let refused = bench.admin.forget_inbox("mailer", "row-0", &operator()).await.unwrap_err();
        assert_eq!(refused.kind, StoreErrorKind::Invalid);
        return;
    }
    let table = if bench.executor.dialect() == postroom_adopted::Dialect::Postgres { "public." } else { "" };
    let rows = "('row-0', 'mailer'), ('row-0', 'billing')";
    bench.execute(&format!("insert into {table}processed_events (event_id, consumer_name) values {rows}")).await;
    assert!(bench.admin.forget_inbox("mailer", "row-0", &operator()).await.unwrap());
    assert!(!bench.admin.forget_inbox("mailer", "row-0", &operator()).await.unwrap());
    let left = bench.admin.inbox(None, Some("row-0"), None, 10).await.unwrap();
    assert_eq!((left.len(), left[0].consumer.as_str()), (1, "billing"));
    let actions = bench.admin.audit(None, 10).await.unwrap();
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
    let rows = bench.admin.throughput(Some(ROUTE), from).await.unwrap();
    let sum = |count: fn(&ThroughputRow) -> u64| rows.iter().map(count).sum::<u64>();
    assert_eq!((sum(|row| row.delivered), sum(|row| row.retried), sum(|row| row.dead)), (1, 1, 2), "{rows:?}");
    assert!(rows.iter().all(|row| row.minute.as_second() % 60 == 0 && row.minute <= from + LONG), "{rows:?}");
    assert!(bench.admin.throughput(Some("other"), from).await.unwrap().is_empty());
    assert!(bench.admin.throughput(None, from + 2 * LONG).await.unwrap().is_empty());
    let table = if bench.executor.dialect() == postroom_adopted::Dialect::Postgres {
        "postroom.stat set minute = minute - interval '25 hours'"
    } else {
        "postroom_stat set minute = minute - 90000000000"
    };
    bench.execute(&format!("update {table}")).await;
    bench.admin.prune(&Retention::default(), false).await.unwrap();
    assert!(bench.admin.throughput(None, postroom_core::Timestamp::UNIX_EPOCH).await.unwrap().is_empty());

    let open = [DeliveryState::Due, DeliveryState::Retrying];
    let waiting = bench.admin.deliveries(&open, &Selection::default(), i64::MIN, 10).await.unwrap();
    let seen: Vec<_> = waiting.iter().map(|row| (row.id.as_str(), row.state.as_str(), row.due_at.is_some())).collect();
    assert_eq!(seen, [(taken[1].event.id.as_str(), "retrying", true)], "{waiting:?}");
    let failed = bench.admin.delivery_groups(&[DeliveryState::Retrying], &Selection::default(), 10).await.unwrap();
    assert_eq!((failed.len(), failed[0].count, failed[0].sample.as_str()), (1, 1, taken[1].event.id.as_str()));
    // Some tables lose a row when it is delivered; some do not say when a row was written, which is then now.
    let appended = bench.admin.appended(postroom_core::Timestamp::UNIX_EPOCH, LONG).await.unwrap();
    assert!((3..=4).contains(&appended.iter().map(|row| row.appended).sum::<u64>()), "{appended:?}");
    assert!(bench.admin.appended(from + 24 * LONG, LONG).await.unwrap().is_empty());
    let groups = bench.admin.dead_groups(&Selection::default(), 10).await.unwrap();
    assert_eq!(groups.len(), 1, "{groups:?}");
    let group = &groups[0];
    assert_eq!((group.route.as_str(), group.count, group.code.as_deref()), (ROUTE, 2, Some("test.bad")));
    assert_eq!((group.sample.as_str(), group.error.as_deref()), ("row-3", Some("it's bad")));
    let other = Selection { code: Some("other".to_owned()), ..Selection::default() };
    assert!(bench.admin.dead_groups(&other, 10).await.unwrap().is_empty());
}

pub async fn a_discarded_dead_letter_is_gone_for_good(bench: &Bench) {
    bench.insert(1, None).await;
    let worker = bench.worker("a").await;
    let taken = worker.take().await.deliveries;
    worker.settle([(&taken[0], dead(1))]).await;
    let all = Selection::default();
    assert_eq!(bench.admin.discard_dead(&all, false, &operator()).await.unwrap().deliveries, 1);
    assert!(bench.admin.dead(&all, 0, 10).await.unwrap().is_empty() && worker.take_all().await.is_empty());
}

pub async fn rows_are_listed_and_audited(bench: &Bench) {
    bench.insert(3, None).await;
    let worker = bench.worker("a").await;
    let listed =
        bench.admin.events(&Selection::default(), Page::Newest { before: None, above: 0, limit: 2 }).await.unwrap();
    let found: Vec<&str> = listed.iter().map(|row| row.id.as_str()).collect();
    assert_eq!(found, ["row-2", "row-1"]);
    let older = Page::Newest { before: Some(listed[1].position), above: 0, limit: 2 };
    assert_eq!(bench.admin.events(&Selection::default(), older).await.unwrap()[0].id, "row-0");
    let taken = worker.take().await.deliveries;
    worker.settle([(&taken[0], dead(1)), (&taken[1], Verdict::Returned), (&taken[2], Verdict::Returned)]).await;
    let verified = bench.admin.verify().await.unwrap();
    assert_eq!((verified[0].open, verified[0].unsettled, verified[0].differences.len()), (1, 2, 0));
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
    assert_eq!(bench.admin.prune(&retention, true).await.unwrap().events, 1);
    assert_eq!(bench.admin.prune(&retention, false).await.unwrap().events, 1);
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
    assert_eq!(bench.admin.routes().await.unwrap()[0].status.dead, 1);
    let table = bench.sample.in_sql(bench.executor.dialect());
    bench.execute(&format!("update {table} set published_at = null, retry_count = 0")).await;
    assert_eq!(bench.admin.routes().await.unwrap()[0].status.dead, 0);
    let taken = worker.take_all().await;
    worker.settle([(&taken[0], delivered())]).await;
    let status = &bench.admin.routes().await.unwrap()[0].status;
    assert_eq!((status.dead, status.delivered, status.due), (0, 1, Some(0)));
}

pub async fn tokens_are_made_listed_and_revoked(bench: &Bench) {
    crate::tokens::made_listed_and_revoked(&*bench.admin).await;
}

pub async fn tokens_are_rotated_and_their_use_is_recorded(bench: &Bench) {
    crate::tokens::rotated_and_used(&*bench.admin).await;
}
