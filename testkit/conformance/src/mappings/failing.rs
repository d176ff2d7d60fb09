//! What fails comes again when it is due, in order, and stands in nobody's way.

use std::time::Duration;

use postroom_admin::view::KeyCursor;
use postroom_core::{Delivery, Verdict};

use super::Sample;
use super::bench::{Bench, dead, delivered, ids, retry};

const LONG: Duration = Duration::from_hours(1);

pub async fn a_failed_row_waits_for_its_time_with_its_attempts(bench: &Bench) {
    bench.insert(2, None).await;
    let worker = bench.worker("a").await;
    let taken = worker.take().await.deliveries;
    worker.settle([(&taken[0], retry(1, LONG)), (&taken[1], retry(1, Duration::ZERO))]).await;
    assert_eq!(bench.seen("row-0").await, "pending");
    let take = worker.take_all().await;
    assert_eq!((ids(&take), take[0].attempts), (vec!["row-1"], 1));
    let idle = worker.take().await;
    assert!(idle.retrying && idle.next_due.is_some_and(|due| due > LONG / 2), "{:?}", idle.next_due);
    let status = &bench.admin.routes().await.unwrap()[0].status;
    assert_eq!((status.retrying, status.due), (1, Some(1)));
    let timeline = bench.admin.event("row-0", false).await.unwrap().unwrap();
    assert_eq!(timeline.routes[0].state, "retrying");
    assert_eq!(timeline.routes[0].attempts[0].code, "test.busy");
}

pub async fn a_failed_row_keeps_its_key_waiting_and_no_other(bench: &Bench) {
    bench.insert(2, Some("k")).await;
    bench.insert(1, Some("other")).await;
    let worker = bench.worker("a").await;
    let taken = worker.take().await.deliveries;
    let of = |id: &str| taken.iter().find(|delivery| delivery.event.id == id).unwrap();
    let back = Verdict::Returned;
    worker.settle([(of("k-0"), retry(1, LONG)), (of("k-1"), back), (of("other-0"), delivered())]).await;
    assert!(worker.take_all().await.is_empty());
    let blocked = bench.admin.blocked_keys(None, None, 10).await.unwrap();
    assert_eq!((blocked[0].key.as_str(), blocked[0].head_id.as_str(), blocked[0].waiting), ("k", "k-0", 1));
    let path = blocked[0].cursor();
    assert!(bench.admin.blocked_keys(None, Some(&path), 10).await.unwrap().is_empty());
    let before = KeyCursor { key: "a".to_owned(), ..path };
    assert_eq!(bench.admin.blocked_keys(None, Some(&before), 10).await.unwrap().len(), 1);
    let actor = postroom_core::Actor { name: "op".to_owned(), reason: None };
    assert_eq!(bench.admin.unblock("orders", "k", &actor).await.unwrap(), 1);
    assert_eq!(ids(&worker.take_all().await), ["k-1"]);
}

pub async fn what_comes_back_is_not_overtaken_by_later_rows_of_its_key(bench: &Bench) {
    for (n, id, key) in [(0, "k-0", "k"), (1, "k-1", "k"), (2, "a", "a"), (3, "b", "b"), (4, "k-2", "k")] {
        bench.insert_one(n, id, Some(key)).await;
    }
    let worker = bench.worker("a").await;
    let taken = worker.take_some(2).await;
    worker.settle([(&taken[0], dead(1)), (&taken[1], Verdict::Returned)]).await;
    assert_eq!(ids(&worker.take_some(2).await), ["k-1", "a"]);
    assert_eq!(ids(&worker.take_all().await), ["b", "k-2"]);
}

pub async fn a_failed_row_that_is_due_behind_the_walk_is_not_overtaken(bench: &Bench) {
    for (n, id, key) in [(0, "k-0", "k"), (1, "k-1", "k"), (2, "a", "a"), (3, "b", "b"), (4, "k-2", "k"), (5, "c", "c")]
    {
        bench.insert_one(n, id, Some(key)).await;
    }
    let worker = bench.worker("a").await;
    let taken = worker.take_some(2).await;
    worker.settle([(&taken[0], retry(1, LONG)), (&taken[1], Verdict::Returned)]).await;
    assert_eq!(ids(&worker.take_some(1).await), ["a"]);
    bench.reschedule("k-0", "2026-01-01 00:00:00").await;
    let rest = worker.take_all().await;
    let of_the_key: Vec<&str> = ids(&rest).into_iter().filter(|id| id.starts_with('k')).collect();
    assert_eq!((of_the_key, rest.len()), (vec!["k-0", "k-1", "k-2"], 5));
}

pub async fn a_row_committed_late_is_not_overtaken_by_later_ones_of_its_key(bench: &Bench) {
    let row = |n: usize, key: &str| (n, format!("{key}-{n}"), key.to_owned());
    bench.insert_all(&[row(1, "a"), row(2, "b"), row(4, "c"), row(5, "d"), row(6, "e"), row(7, "f")]).await;
    let worker = bench.worker("a").await;
    assert_eq!(ids(&worker.take_some(2).await), ["a-1", "b-2"]);
    let walking = worker.take_some(2).await;
    assert_eq!(ids(&walking), ["c-4", "d-5"]);
    // The walk is past the first of them, in one transaction.
    bench.insert_all(&[row(3, "k"), row(8, "k")]).await;
    worker.settle(walking.iter().map(|delivery| (delivery, delivered()))).await;
    let taken = [worker.take_some(3).await, worker.take_some(3).await].concat();
    assert_eq!(ids(&taken), ["k-3", "e-6", "f-7", "k-8"]);
}

pub async fn a_row_for_later_keeps_nobody_waiting(bench: &Bench) {
    bench.insert(3, Some("k")).await;
    bench.reschedule("k-1", "2999-01-01 00:00:00").await;
    let worker = bench.worker("a").await;
    assert_eq!(ids(&worker.take_all().await), ["k-0", "k-2"]);
    let idle = worker.take().await;
    assert!(idle.next_due.is_some() && !idle.retrying, "it comes, but was never tried: {idle:?}");
    let status = &bench.admin.routes().await.unwrap()[0].status;
    assert_eq!((status.retrying, status.blocked_keys), (0, 0));
    assert!(bench.admin.blocked_keys(None, None, 10).await.unwrap().is_empty());
}

pub async fn where_failures_are_skipped_the_key_goes_on(bench: &Bench) {
    bench.insert(2, Some("k")).await;
    let mut route = postroom_core::RouteSpec::new("orders");
    route.on_failure = postroom_core::OnFailure::Skip;
    let worker = bench.worker_of("a", route).await;
    let taken = worker.take().await.deliveries;
    worker.settle([(&taken[0], retry(1, LONG)), (&taken[1], Verdict::Returned)]).await;
    assert_eq!(ids(&worker.take_all().await), ["k-1"]);
}

pub async fn a_head_that_is_given_up_lets_its_key_go_on(bench: &Bench) {
    bench.insert(2, Some("k")).await;
    let worker = bench.worker("a").await;
    let taken = worker.take().await.deliveries;
    worker.settle([(&taken[0], retry(1, LONG)), (&taken[1], Verdict::Returned)]).await;
    let actor = postroom_core::Actor { name: "op".to_owned(), reason: None };
    assert_eq!(bench.admin.skip_head("orders", "k", &actor).await.unwrap(), "k-0");
    assert_eq!(ids(&worker.take_all().await), ["k-1"]);
    // What nobody has published does not look published.
    let seen = if bench.sample == Sample::Stamp { "pending" } else { bench.sample.dead_seen() };
    assert_eq!(bench.seen("k-0").await, seen);
    let letters = if bench.sample == Sample::Words { vec!["k-0 order.placed given up by op 1"] } else { Vec::new() };
    assert_eq!(bench.letters().await, letters);
    assert_eq!(bench.admin.audit(None, 10).await.unwrap()[0].action, "key.skip_head");
}

pub async fn a_hundred_rows_in_back_off_do_not_stand_in_the_way(bench: &Bench) {
    bench.insert(100, None).await;
    let worker = bench.worker("a").await;
    let taken = worker.take_all().await;
    assert_eq!(taken.len(), 100);
    worker.settle(taken.iter().map(|delivery| (delivery, retry(1, LONG)))).await;
    bench.insert_one(200, "fresh", None).await;
    assert_eq!(ids(&worker.take().await.deliveries), ["fresh"]);
}

pub async fn fresh_rows_come_at_once_though_many_failed_ones_are_due(bench: &Bench) {
    // 200 of a key each that have failed and are due again; one behind every eighth of them; and one that is like none.
    let row = |n: usize| (n, format!("k{:03}-{}", n % 200, n / 200), format!("k{:03}", n % 200));
    bench.insert_all(&(0..200).map(row).collect::<Vec<_>>()).await;
    let worker = bench.worker("a").await;
    loop {
        let taken = worker.take().await.deliveries;
        if taken.is_empty() {
            break;
        }
        worker.settle(taken.iter().map(|delivery| (delivery, retry(1, LONG)))).await;
    }
    bench.all_are_due().await;
    bench.insert_all(&(200..400).step_by(8).map(row).collect::<Vec<_>>()).await;
    bench.insert_one(1_000, "good", Some("good")).await;

    for (rows, failed_max) in [(100, 50), (7, 4)] {
        let taken = worker.take_some(rows).await;
        let failed = taken.iter().filter(|delivery| delivery.attempts > 0).count();
        assert!(failed > 0 && failed <= failed_max && failed < taken.len(), "{failed} of {}", taken.len());
        worker.settle(taken.iter().map(|delivery| (delivery, Verdict::Returned))).await;
    }
    // Of one row at a time, each kind gets its turn.
    let mut kinds = Vec::new();
    for _ in 0..4 {
        let taken = worker.take_some(1).await;
        kinds.push(taken[0].attempts);
        worker.settle([(&taken[0], Verdict::Returned)]).await;
    }
    kinds.sort_unstable();
    assert_eq!(kinds, [0, 0, 1, 1]);

    let mut came: Vec<String> = Vec::new();
    while came.len() < 226 {
        let taken = worker.take().await.deliveries;
        came.extend(ids(&taken).into_iter().map(str::to_owned));
        worker.settle(taken.iter().map(|delivery| (delivery, delivered()))).await;
    }
    let path = |id: &str| came.iter().position(|other| other == id).unwrap();
    assert!(path("good") < 100, "one that never failed came as number {}", path("good"));
    if !bench.sample.is_shared() {
        assert!((0..200).step_by(8).all(|n| path(&format!("k{n:03}-0")) < path(&format!("k{n:03}-1"))));
    }
}

pub async fn a_dead_row_is_a_dead_letter_and_never_comes_again_by_itself(bench: &Bench) {
    bench.insert(2, Some("k")).await;
    let worker = bench.worker("a").await;
    let taken = worker.take().await.deliveries;
    worker.settle([(&taken[0], dead(3)), (&taken[1], delivered())]).await;
    assert_eq!(bench.seen("k-0").await, bench.sample.dead_seen());
    assert!(worker.take_all().await.is_empty());
    let letters = bench.admin.dead(&postroom_admin::Selection::default(), 0, 10).await.unwrap();
    let letter = &letters[0];
    assert_eq!(
        (letter.id.as_str(), letter.code.as_deref(), letter.error.as_deref()),
        ("k-0", Some("test.bad"), Some("it's bad"))
    );
    assert_eq!((letters.len(), letter.attempts, letter.route.as_str()), (1, 3, "orders"));
}

pub async fn a_second_death_brings_the_letter_in_the_tables_own_table_up_to_date(bench: &Bench) {
    bench.insert(1, None).await;
    let worker = bench.worker("a").await;
    for _ in 0..2 {
        let taken = worker.take_all().await;
        worker.settle([(&taken[0], dead(1))]).await;
        worker.settle([(&taken[0], dead(1))]).await;
        bench.replay(postroom_admin::view::ReplayKind::Dead, &postroom_admin::Selection::default()).await;
    }
    let expected = if bench.sample == Sample::Words { vec!["row-0 order.placed it's bad 2"] } else { Vec::new() };
    assert_eq!(bench.letters().await, expected);
}

pub async fn a_row_that_holds_no_event_is_a_dead_letter_and_the_others_go_on(bench: &Bench) {
    bench.insert_one(1, &"x".repeat(65), None).await;
    if bench.sample == Sample::Inside {
        bench.insert_payload(0, "odd", r#"{"outbox_status": "pending"}"#).await;
        bench.insert_payload(2, "array", "[1]").await;
    } else {
        // A payload that is no object is an event like any other where nothing is kept inside.
        bench.insert_payload(0, "odd", "[1, 2]").await;
    }
    let worker = bench.worker("a").await;
    let taken = worker.take_all().await;
    // Where dead letters are published, a row without an event is handed out as one.
    let (refused, sound): (Vec<_>, Vec<_>) = taken.iter().partition(|delivery| delivery.refused.is_some());
    assert_eq!(sound.iter().map(|delivery| delivery.event.id.as_str()).collect::<Vec<_>>(), ["odd"]);
    assert_eq!(refused.len(), usize::from(bench.sample == Sample::Stamp));
    // Where rows are locked, what became of the others is written with the last verdict of a take.
    let died = |delivery: &Delivery| Verdict::Dead {
        attempts: 1,
        failure: (**delivery.refused.as_ref().unwrap()).clone(),
        published: true,
    };
    let verdicts = refused.iter().map(|delivery| (*delivery, died(delivery)));
    worker.settle(sound.iter().map(|delivery| (*delivery, delivered())).chain(verdicts)).await;
    let letters = bench.admin.dead(&postroom_admin::Selection::default(), 0, 10).await.unwrap();
    assert_eq!((letters.len(), letters[0].code.as_deref()), (1, Some("mapping.unreadable")));
    if bench.sample == Sample::Inside {
        let note = bench.admin.routes().await.unwrap()[0].status.message.clone();
        assert!(note.contains("1 rows have no state"), "{note}");
    }
}
