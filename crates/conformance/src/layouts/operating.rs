//! Operators use the same commands as on the native log.

use postroom_core::{Actor, Page, ReplayOptions, Retention, Selection, StoreErrorKind, Verdict};

use super::Sample;
use super::bench::{Bench, ROUTE, dead, delivered, ids};

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
    let done: Vec<String> = bench.desk.actions(10).await.unwrap().into_iter().map(|action| action.action).collect();
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
    let dry = ReplayOptions { dry_run: true, ..ReplayOptions::default() };
    let all = Selection::default();
    assert_eq!(bench.desk.replay_dead(&all, dry, &operator()).await.unwrap().deliveries, 1);
    assert!(worker.take_all().await.is_empty(), "a dry run changes nothing");
    let done = bench.desk.replay_dead(&all, ReplayOptions::default(), &operator()).await.unwrap();
    assert_eq!(done.deliveries, 1);
    let again = worker.take_all().await;
    assert_eq!((ids(&again), again[0].attempts), (vec!["row-0"], 0));
    let actions = bench.desk.actions(10).await.unwrap();
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
    let done = bench.desk.replay(&which, ReplayOptions::default(), &operator()).await.unwrap();
    assert_eq!((done.deliveries, done.keys), (2, 1));
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
    let replay = async {
        let all = Selection::default();
        bench.desk.replay(&all, ReplayOptions::default(), &operator()).await.unwrap().deliveries
    };
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
    let accepted = bench.desk.inbox(None, Some("row-0"), 10).await.unwrap();
    assert_eq!((accepted.len(), accepted[0].consumer.as_str()), (1, "mailer"));
    assert!(bench.desk.inbox(Some("other"), None, 10).await.unwrap().is_empty());
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
    let retention = Retention { delivered: Some(std::time::Duration::from_secs(1)), ..Retention::default() };
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
