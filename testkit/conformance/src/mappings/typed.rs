//! What the application has made itself, on databases where it can: types of columns, triggers.

use std::time::Duration;

use postroom_core::{RouteSpec, StoreErrorKind};

use super::bench::{Bench, ROUTE, dead, delivered, ids, retry};

pub async fn domains_and_enumerations_of_the_applications_own_are_written_as_such(bench: &Bench) {
    bench
        .execute(
            "create domain public.event_id as text; create domain public.instant as timestamptz;
             create domain public.\"Order Id\" as public.event_id check (value <> '');
             create domain public.document as jsonb; create type public.kind as enum ('order.placed');
             alter table public.outbox alter id type public.\"Order Id\", alter created_at type public.instant,
                 alter available_at type public.instant, alter payload type public.document;
             alter table public.dead_letter_events alter event_id type public.event_id,
                 alter event_type type public.kind using event_type::public.kind",
        )
        .await;
    let bench = bench.reopened(bench.sample.mapping()).await;
    bench.insert(4, None).await;
    let worker = bench.worker("a").await;
    // One by one, so that each is found behind the one before.
    let mut taken = Vec::new();
    for _ in 0..4 {
        taken.extend(worker.take_some(1).await);
    }
    assert_eq!(ids(&taken), ["row-0", "row-1", "row-2", "row-3"]);
    let (later, now) = (retry(1, Duration::from_hours(1)), retry(1, Duration::ZERO));
    worker.settle(taken.iter().zip([delivered(), dead(1), later, now])).await;
    assert_eq!((bench.seen("row-0").await.as_str(), bench.seen("row-1").await.as_str()), ("done", "dead"));
    assert_eq!(bench.letters().await, ["row-1 order.placed it's bad 1"]);
    assert_eq!(ids(&worker.take_all().await), ["row-3"]);
    assert_eq!(bench.admin.routes().await.unwrap()[0].status.retrying, 1);
}

pub async fn triggers_of_the_applications_own_find_their_tables(bench: &Bench) {
    bench
        .execute(
            "create table public.seen (id text, status text);
             create function public.see() returns trigger language plpgsql as $$
             begin insert into seen values (new.id, new.status); return new; end $$;
             create trigger see after update on public.outbox for each row execute function public.see()",
        )
        .await;
    bench.insert(1, None).await;
    let worker = bench.worker("a").await;
    let taken = worker.take_all().await;
    worker.settle([(&taken[0], delivered())]).await;
    assert_eq!(bench.column("id || ' ' || status", "seen").await, ["row-0 sent"]);
}

pub async fn a_log_may_have_an_enumeration_for_its_word(bench: &Bench) {
    let words = "'PENDING', 'PROCESSING', 'COMPLETED', 'COMPLETED_WITH_ERRORS'";
    let typed = "type public.event_status using status::public.event_status";
    bench
        .execute(&format!(
            "create type public.event_status as enum ({words});
             alter table public.outbox alter status drop default;
             alter table public.outbox alter status {typed}, alter status set default 'PENDING';
             alter table public.event_log alter status {typed}"
        ))
        .await;
    let bench = bench.reopened(bench.sample.mapping()).await;
    bench.insert(2, None).await;
    let worker = bench.worker("a").await;
    let taken = worker.take().await.deliveries;
    worker.settle([(&taken[0], delivered()), (&taken[1], dead(1))]).await;
    let log = bench.column("id || ' ' || status", "event_log").await;
    assert_eq!(log, ["row-0 COMPLETED", "row-1 COMPLETED_WITH_ERRORS"]);
    // Both tables are one to operators, also where the log has no such column.
    bench.execute("alter table public.outbox add shade public.event_status").await;
    let bench = bench.reopened(bench.sample.mapping()).await;
    assert_eq!(bench.admin.routes().await.unwrap()[0].status.dead, 1);
}

pub async fn a_mapping_that_does_not_fit_its_table_is_refused_before_anything_is_sent(bench: &Bench) {
    bench
        .execute(
            "alter table public.outbox alter available_at drop default;
             alter table public.outbox alter available_at type bigint using 0",
        )
        .await;
    let bench = bench.reopened(bench.sample.mapping()).await;
    let error = bench.source("a", RouteSpec::new(ROUTE)).await.err().unwrap();
    assert_eq!(error.kind, StoreErrorKind::Invalid);
    let said = error.to_string();
    assert!(said.contains("public.outbox") && said.contains("\"available_at\" is of type bigint"), "{said}");
    assert!(bench.admin.routes().await.unwrap().is_empty(), "the route is not registered");
}
