//! Relays that share a table: by claims in columns, or by locks.

use std::time::{Duration, Instant};

use postroom_admin::Selection;
use postroom_core::Verdict;

use super::bench::{Bench, dead, delivered, ids, retry};
use super::sample::CLAIMS_MAX;

pub async fn relays_share_the_rows_and_none_has_what_another_has(bench: &Bench) {
    bench.insert(6, None).await;
    let (first, second) = (bench.worker("a").await, bench.worker("b").await);
    let mine = first.take_some(4).await;
    let theirs = second.take_all().await;
    assert_eq!((ids(&mine), ids(&theirs)), (vec!["row-0", "row-1", "row-2", "row-3"], vec!["row-4", "row-5"]));
    first.settle(mine.iter().map(|delivery| (delivery, delivered()))).await;
    second.settle(theirs.iter().map(|delivery| (delivery, delivered()))).await;
    let status = &bench.admin.routes().await.unwrap()[0].status;
    assert_eq!((status.delivered, status.due), (6, Some(0)));
    assert!(first.take_all().await.is_empty());
}

/// Makes every claim look this old.
async fn age(bench: &Bench, by: Duration) {
    super::clocks::claims(bench, -i64::try_from(by.as_secs()).unwrap()).await;
}

pub async fn a_claim_that_is_not_renewed_is_anybodys_and_its_settle_changes_nothing(bench: &Bench) {
    bench.insert(1, None).await;
    let (first, second) = (bench.worker("a").await, bench.worker("b").await);
    let taken = first.take().await.deliveries;
    let idle = second.take().await;
    assert!(idle.deliveries.is_empty() && idle.next_due.is_some_and(|due| due > Duration::from_secs(30)));
    age(bench, Duration::from_secs(61)).await;
    let again = second.take().await.deliveries;
    assert_eq!((ids(&again), again[0].attempts), (vec!["row-0"], 0), "nobody knows that it was tried");
    first.settle([(&taken[0], dead(1))]).await;
    assert_eq!(bench.seen("row-0").await, "claimed", "the first claim is over");
    second.settle([(&again[0], delivered())]).await;
    assert_eq!(bench.seen("row-0").await, "done");
    let status = &bench.admin.routes().await.unwrap()[0].status;
    assert_eq!((status.delivered, status.dead), (1, 0));
}

pub async fn a_claim_that_is_renewed_stays(bench: &Bench) {
    bench.insert(1, None).await;
    let (first, second) = (bench.worker("a").await, bench.worker("b").await);
    let taken = first.take().await.deliveries;
    age(bench, Duration::from_secs(61)).await;
    first.renew().await;
    assert!(second.take_all().await.is_empty());
    first.settle([(&taken[0], delivered())]).await;
    assert_eq!(bench.seen("row-0").await, "done");
}

pub async fn a_row_that_is_claimed_too_often_is_given_up(bench: &Bench) {
    bench.insert(1, None).await;
    for n in 0..CLAIMS_MAX {
        let taken = bench.worker(&format!("w-{n}")).await.take().await.deliveries;
        assert_eq!((taken.len(), taken[0].attempts), (1, 0));
        age(bench, Duration::from_secs(61)).await;
    }
    assert!(bench.worker("last").await.take_all().await.is_empty());
    assert_eq!(bench.seen("row-0").await, "dead");
    let letters = bench.admin.dead(&Selection::default(), 0, 10).await.unwrap();
    assert_eq!(letters[0].code.as_deref(), Some("mapping.abandoned"));
}

pub async fn claims_that_come_back_untried_count_as_no_try(bench: &Bench) {
    bench.insert(1, None).await;
    // Twice as often as claims may run out: by a relay that gives rows back, by one that stops, by one that does both.
    for n in 0..2 * CLAIMS_MAX {
        let worker = bench.worker(&format!("w-{n}")).await;
        let taken = worker.take().await.deliveries;
        assert_eq!((ids(&taken), taken[0].attempts), (vec!["row-0"], 0), "claim {n}");
        if n % 3 != 1 {
            worker.settle([(&taken[0], Verdict::Returned)]).await;
        }
        if n % 3 != 0 {
            worker.0.release().await.unwrap();
        }
    }
    let worker = bench.worker("last").await;
    let taken = worker.take().await.deliveries;
    worker.settle([(&taken[0], delivered())]).await;
    assert_eq!(bench.seen("row-0").await, "done");
    let claims = bench.column("cast(attempts as text)", "event_log").await;
    assert_eq!(claims, [(2 * CLAIMS_MAX + 1).to_string()], "the column counts claims, as it always did");
    let status = &bench.admin.routes().await.unwrap()[0].status;
    assert_eq!((status.delivered, status.dead), (1, 0));
}

pub async fn failed_tries_are_counted_apart_from_claims(bench: &Bench) {
    bench.insert(1, None).await;
    for n in 0..3 {
        let worker = bench.worker(&format!("w-{n}")).await;
        let untried = worker.take().await.deliveries;
        assert_eq!(untried[0].attempts, n, "untried");
        worker.settle([(&untried[0], Verdict::Returned)]).await;
        let taken = worker.take().await.deliveries;
        assert_eq!(taken[0].attempts, n);
        worker.settle([(&taken[0], retry(n + 1, Duration::ZERO))]).await;
        worker.0.release().await.unwrap();
    }
    let worker = bench.worker("last").await;
    let taken = worker.take().await.deliveries;
    assert_eq!(taken[0].attempts, 3);
    let timeline = bench.admin.event("row-0", false).await.unwrap().unwrap();
    let tries: Vec<u32> = timeline.routes[0].attempts.iter().map(|attempt| attempt.attempt).collect();
    assert_eq!(tries, [1, 2, 3]);
    worker.settle([(&taken[0], dead(4))]).await;
    let letters = bench.admin.dead(&Selection::default(), 0, 10).await.unwrap();
    assert_eq!(letters[0].attempts, 4);
    assert_eq!(bench.column("cast(attempts as text)", "event_log").await, ["7"], "claims");
}

pub async fn a_verdict_ends_the_count_of_claims_that_ran_out(bench: &Bench) {
    bench.insert(1, None).await;
    for n in 0..2 * CLAIMS_MAX {
        let worker = bench.worker(&format!("w-{n}")).await;
        let taken = worker.take().await.deliveries;
        assert_eq!(ids(&taken), ["row-0"], "claim {n}");
        if n % CLAIMS_MAX == CLAIMS_MAX - 1 {
            worker.settle([(&taken[0], retry(taken[0].attempts + 1, Duration::ZERO))]).await;
        } else {
            age(bench, Duration::from_secs(61)).await;
        }
    }
    let worker = bench.worker("last").await;
    let taken = worker.take().await.deliveries;
    assert_eq!(taken[0].attempts, 2);
    worker.settle([(&taken[0], delivered())]).await;
    assert_eq!(bench.seen("row-0").await, "done");
    assert!(bench.beside().await.is_empty(), "nothing is left of it");
}

pub async fn claims_of_other_programs_that_ran_out_count_too(bench: &Bench) {
    bench.insert(2, None).await;
    // Somebody else has claimed them, as often as it says there, and died of it.
    bench
        .execute(&format!("update outbox set status = 'PROCESSING', attempts = {CLAIMS_MAX} where id = 'row-0'"))
        .await;
    let fewer = CLAIMS_MAX - 1;
    bench.execute(&format!("update outbox set status = 'PROCESSING', attempts = {fewer} where id = 'row-1'")).await;
    age(bench, Duration::from_secs(61)).await;
    let worker = bench.worker("a").await;
    let taken = worker.take_all().await;
    assert_eq!((ids(&taken), taken[0].attempts), (vec!["row-1"], 0));
    assert_eq!(bench.seen("row-0").await, "dead");
    worker.settle([(&taken[0], delivered())]).await;
    assert_eq!(bench.seen("row-1").await, "done");
}

pub async fn finished_rows_are_in_the_log_with_their_errors(bench: &Bench) {
    bench.insert(2, None).await;
    let worker = bench.worker("a").await;
    let taken = worker.take().await.deliveries;
    let mut failure = postroom_core::Failure::permanent("test.bad", "two of them failed");
    let error = |handler: &str| postroom_core::HandlerError { handler: handler.to_owned(), error: "no".to_owned() };
    failure.handlers = vec![error("mail"), error("stock")];
    worker
        .settle([(&taken[0], delivered()), (&taken[1], Verdict::Dead { attempts: 1, failure, published: true })])
        .await;
    let ended = "event_log where finished_at is not null";
    let log = bench.column("id || ' ' || status || ' ' || attempts", ended).await;
    assert_eq!(log, ["row-0 COMPLETED 1", "row-1 COMPLETED_WITH_ERRORS 1"]);
    let errors = bench.column("cast(errors as text)", "event_log where id = 'row-1'").await;
    let expected = serde_json::json!([{"handler": "mail", "error": "no"}, {"handler": "stock", "error": "no"}]);
    assert_eq!(serde_json::from_str::<serde_json::Value>(&errors[0]).unwrap(), expected);
    assert!(bench.column("id", "outbox").await.is_empty());
}

pub async fn what_comes_back_untried_may_be_claimed_at_once(bench: &Bench) {
    bench.insert(2, None).await;
    let (first, second) = (bench.worker("a").await, bench.worker("b").await);
    let taken = first.take().await.deliveries;
    first.settle([(&taken[0], Verdict::Returned), (&taken[1], retry(1, Duration::from_hours(1)))]).await;
    assert_eq!(bench.seen("row-0").await, "pending");
    assert_eq!(ids(&second.take_all().await), ["row-0"]);
}

pub async fn a_release_gives_claims_back_at_once(bench: &Bench) {
    bench.insert(2, None).await;
    let (first, second) = (bench.worker("a").await, bench.worker("b").await);
    let taken = first.take().await.deliveries;
    first.settle([(&taken[0], delivered())]).await;
    first.0.release().await.unwrap();
    assert_eq!((bench.seen("row-0").await.as_str(), bench.seen("row-1").await.as_str()), ("done", "pending"));
    assert_eq!(ids(&second.take_all().await), ["row-1"]);
}

pub async fn rows_are_let_go_when_the_last_of_a_take_has_its_verdict(bench: &Bench) {
    bench.insert(3, None).await;
    let (first, second) = (bench.worker("a").await, bench.worker("b").await);
    let taken = first.take().await.deliveries;
    first.settle([(&taken[0], delivered()), (&taken[1], Verdict::Returned)]).await;
    assert!(second.take_all().await.is_empty(), "all three are locked as long as one is on its way");
    assert_eq!(bench.seen("row-0").await, "pending");
    first.settle([(&taken[2], retry(1, Duration::from_hours(1)))]).await;
    assert_eq!((bench.seen("row-0").await.as_str(), bench.seen("row-2").await.as_str()), ("done", "pending"));
    assert_eq!(ids(&second.take_all().await), ["row-1"]);
}

pub async fn no_more_is_out_than_one_fault_may_repeat(bench: &Bench) {
    bench.insert(30, None).await;
    let worker = bench.worker("a").await;
    worker.0.bound(8);
    let taken = worker.take_all().await;
    assert_eq!(taken.len(), 8);
    worker.settle(taken.iter().map(|delivery| (delivery, delivered()))).await;
    assert_eq!(worker.take_all().await.len(), 8);
}

pub async fn a_release_keeps_the_verdicts_there_are_and_lets_the_rest_go(bench: &Bench) {
    bench.insert(3, None).await;
    let (first, second) = (bench.worker("a").await, bench.worker("b").await);
    let taken = first.take().await.deliveries;
    first.settle([(&taken[0], delivered())]).await;
    first.0.release().await.unwrap();
    assert_eq!(bench.seen("row-0").await, "done");
    assert_eq!(ids(&second.take_all().await), ["row-1", "row-2"]);
}

pub async fn a_take_that_cannot_be_settled_is_not_repeated_at_once(bench: &Bench) {
    bench.insert(2, None).await;
    let worker = bench.worker("a").await;
    let refuses = "check (id <> 'row-0' or status <> 'sent') not valid";
    bench.execute(&format!("alter table public.outbox add constraint no_more {refuses}")).await;
    // The second is on its way beside it, where more than one take may be held.
    let (bad, good) = (worker.take_some(1).await, worker.take_some(1).await);
    let ownership = worker.settle([(&bad[0], delivered())]).await;
    assert!(!ownership.lost.is_empty());
    worker.settle(good.iter().map(|delivery| (delivery, delivered()))).await;
    assert_eq!(bench.seen("row-1").await, if good.is_empty() { "pending" } else { "done" });
    assert!(worker.take_all().await.is_empty(), "it would be sent as fast as the destination takes it");
    bench.execute("alter table public.outbox drop constraint no_more").await;
    let taken = loop {
        let taken = worker.take_all().await;
        if !taken.is_empty() {
            break taken;
        }
        tokio::task::yield_now().await;
    };
    worker.settle(taken.iter().map(|delivery| (delivery, delivered()))).await;
    assert_eq!((bench.seen("row-0").await.as_str(), bench.seen("row-1").await.as_str()), ("done", "done"));
}

pub async fn rows_of_a_relay_that_stands_still_are_anybodys_within_its_lease(bench: &Bench) {
    let lease = Duration::from_secs(2);
    bench.insert(4, None).await;
    let (frozen, alive) = (bench.worker_for("a", lease).await, bench.worker("b").await);
    let taken = frozen.take_all().await;
    assert_eq!(taken.len(), 4);
    // As long as it renews, its rows are its own, well beyond a lease.
    let began = Instant::now();
    while began.elapsed() < 2 * lease {
        frozen.renew().await;
        assert!(alive.take_all().await.is_empty(), "after {:?}", began.elapsed());
        tokio::time::sleep(lease / 8).await;
    }
    // From here on nobody hears of it, and nothing of it is closed.
    let (began, mut rows) = (Instant::now(), Vec::new());
    while rows.len() < 4 {
        assert!(began.elapsed() < lease + Duration::from_secs(10), "{rows:?}");
        alive.renew().await;
        rows.extend(alive.take_all().await);
        tokio::time::sleep(lease / 20).await;
    }
    alive.settle(rows.iter().map(|delivery| (delivery, delivered()))).await;
    frozen.settle(taken.iter().map(|delivery| (delivery, dead(1)))).await;
    for n in 0..4 {
        assert_eq!(bench.seen(&format!("row-{n}")).await, "done", "what it says now is void");
    }
}
