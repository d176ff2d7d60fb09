//! Several routes of one table: the first marks its rows, the others have entries of their own.

use std::sync::Arc;
use std::time::Duration;

use postroom_admin::Selection;
use postroom_admin::view::ReplayKind;
use postroom_adopted::mapping::Claim;
use postroom_adopted::{Adopted, AdoptedOptions, Dialect, Statement};
use postroom_core::{Actor, Delivery, DeliveryState, RouteSpec, StartFrom, StoreErrorKind, Verdict};

use super::Sample;
use super::bench::{Bench, ROUTE, Worker, dead, delivered, ids, retry};

/// The further route.
pub(super) const MAILER: &str = "mailer";

/// The same tables, of which [`ROUTE`] marks the rows.
async fn several(bench: &Bench) -> Bench {
    bench.reopened(postroom_adopted::Mapping { marked_by: Some(ROUTE.to_owned()), ..bench.sample.mapping() }).await
}

/// The same tables with a further route that nobody serves.
pub(super) async fn beside(bench: &Bench) -> Bench {
    let bench = several(bench).await;
    let routes = [RouteSpec::new(ROUTE), RouteSpec::new(MAILER).start_from(StartFrom::Beginning)];
    bench.admin.register(&routes).await.unwrap();
    bench
}

async fn mailer(bench: &Bench, relay: &str, start: StartFrom) -> Worker {
    bench.worker_of(relay, RouteSpec::new(MAILER).start_from(start)).await
}

/// Both routes from the beginning, in one relay.
async fn both(bench: &Bench) -> (Worker, Worker) {
    (bench.worker("a").await, mailer(bench, "a", StartFrom::Beginning).await)
}

async fn settle_all(worker: &Worker, taken: &[Delivery], verdict: impl Fn() -> Verdict) {
    worker.settle(taken.iter().map(|delivery| (delivery, verdict()))).await;
}

/// Takes until so many have come: rows that a route has not seen are looked for now and then.
async fn take(worker: &Worker, count: usize) -> Vec<Delivery> {
    let mut all = Vec::new();
    for _ in 0..600 {
        all.extend(worker.take_all().await);
        if all.len() >= count {
            assert_eq!(all.len(), count, "{:?}", ids(&all));
            return all;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("{} of {count} came: {:?}", all.len(), ids(&all));
}

/// Delivers everything there is.
async fn deliver(worker: &Worker, count: usize) -> Vec<String> {
    let taken = take(worker, count).await;
    settle_all(worker, &taken, delivered).await;
    ids(&taken).into_iter().map(str::to_owned).collect()
}

/// Entries of further routes: row and state.
async fn entries(bench: &Bench) -> Vec<String> {
    let table = entries_table(bench);
    let query = Statement::new(format!("select event_id || ' ' || state from {table} order by 1"));
    let found = bench.executor.look("test", vec![query]).await.unwrap();
    found.into_iter().flatten().filter_map(|row| row.into_iter().next().flatten()).collect()
}

fn entries_table(bench: &Bench) -> &'static str {
    match bench.executor.dialect() {
        Dialect::Postgres => "postroom.adopted_delivery",
        Dialect::Sqlite => "postroom_adopted_delivery",
    }
}

/// Makes every entry due that waits for its time.
async fn all_entries_are_due(bench: &Bench) {
    let past = match bench.executor.dialect() {
        Dialect::Postgres => "'2026-01-01 00:00:00Z'",
        Dialect::Sqlite => "1767225600000000",
    };
    bench.execute(&format!("update {} set due = {past} where due is not null", entries_table(bench))).await;
}

fn operator() -> Actor {
    Actor { name: "op".to_owned(), reason: None }
}

fn of_route(route: &str) -> Selection {
    Selection { route: Some(route.to_owned()), ..Selection::default() }
}

/// What a route has to show: delivered, due, retrying, dead.
async fn status(bench: &Bench, route: &str) -> (u64, u64, u64, u64) {
    let routes = bench.admin.routes().await.unwrap();
    let status = &routes.iter().find(|detail| detail.status.route == route).unwrap().status;
    (status.delivered, status.due.unwrap(), status.retrying, status.dead)
}

pub async fn every_route_delivers_every_row_whichever_comes_first(bench: &Bench) {
    let bench = &several(bench).await;
    let (first, second) = both(bench).await;
    bench.insert(3, Some("k")).await;
    assert_eq!(deliver(&second, 3).await, ["k-0", "k-1", "k-2"], "before the first route");
    assert_eq!(entries(bench).await, ["k-0 delivered", "k-1 delivered", "k-2 delivered"]);
    assert!(second.take_all().await.is_empty());
    assert_eq!(deliver(&first, 3).await, ["k-0", "k-1", "k-2"]);
    first.renew().await;
    bench.insert(2, Some("l")).await;
    assert_eq!(deliver(&first, 2).await, ["l-0", "l-1"], "before the further one");
    assert_eq!(deliver(&second, 2).await, ["l-0", "l-1"]);
    assert!(first.take_all().await.is_empty() && second.take_all().await.is_empty());
    assert!(entries(bench).await.is_empty(), "nothing is left of what both have delivered");
    assert_eq!((status(bench, ROUTE).await, status(bench, MAILER).await), ((5, 0, 0, 0), (5, 0, 0, 0)));
    for audited in bench.admin.verify().await.unwrap() {
        assert!(audited.differences.is_empty() && audited.unsettled == 0, "{audited:?}");
    }
}

pub async fn a_route_that_is_down_for_long_gets_everything_though_rows_are_gone(bench: &Bench) {
    let bench = &several(bench).await;
    let (first, second) = both(bench).await;
    for n in 0..5 {
        bench.insert_one(n, &format!("row-{n}"), None).await;
        let down = second.take().await.deliveries;
        settle_all(&second, &down, || Verdict::Returned).await;
        deliver(&first, 1).await;
    }
    assert_eq!(status(bench, MAILER).await, (0, 5, 0, 0));
    let table = bench.sample.in_sql(bench.executor.dialect());
    bench.execute(&format!("delete from {table}")).await;
    let taken = take(&second, 5).await;
    assert_eq!(ids(&taken), ["row-0", "row-1", "row-2", "row-3", "row-4"]);
    let payload: serde_json::Value = serde_json::from_slice(&taken[3].event.payload).unwrap();
    assert_eq!(payload["n"], 3);
    settle_all(&second, &taken, delivered).await;
    assert!(entries(bench).await.is_empty());
}

pub async fn the_first_route_that_is_down_for_long_holds_nobody_up(bench: &Bench) {
    let bench = &several(bench).await;
    let (first, second) = both(bench).await;
    for n in 0..5 {
        bench.insert_one(n, &format!("row-{n}"), None).await;
        let down = first.take().await.deliveries;
        settle_all(&first, &down, || Verdict::Returned).await;
        assert_eq!(deliver(&second, 1).await, [format!("row-{n}")]);
    }
    assert_eq!((status(bench, ROUTE).await, status(bench, MAILER).await), ((0, 5, 0, 0), (5, 0, 0, 0)));
    assert_eq!(deliver(&first, 5).await.len(), 5);
    assert!(second.take_all().await.is_empty());
    assert!(entries(bench).await.is_empty());
}

pub async fn a_failure_of_one_route_waits_with_its_tries_and_keeps_its_key_waiting_there_alone(bench: &Bench) {
    let bench = &several(bench).await;
    let (first, second) = both(bench).await;
    bench.insert(3, Some("k")).await;
    bench.insert_one(10, "other", Some("o")).await;
    let taken = take(&second, 4).await;
    second.settle([(&taken[0], retry(1, Duration::from_hours(1)))]).await;
    settle_all(&second, &taken[1..3], || Verdict::Returned).await;
    second.settle([(&taken[3], delivered())]).await;
    assert!(second.take_all().await.is_empty(), "the key waits");
    assert_eq!(status(bench, MAILER).await, (1, 2, 1, 0));
    let blocked = bench.admin.blocked_keys(None, None, 10).await.unwrap();
    let waits: Vec<_> = blocked.iter().map(|key| (key.route.as_str(), key.key.as_str(), key.waiting)).collect();
    assert_eq!(waits, [(MAILER, "k", 2)]);
    assert_eq!(deliver(&first, 4).await, ["k-0", "k-1", "k-2", "other"], "the other route goes on");
    all_entries_are_due(bench).await;
    let again = take(&second, 3).await;
    assert_eq!((ids(&again), again[0].attempts), (vec!["k-0", "k-1", "k-2"], 1));
    let timeline = bench.admin.event("k-0", false).await;
    settle_all(&second, &again, delivered).await;
    if bench.sample != Sample::Presence {
        let routes = timeline.unwrap().unwrap().routes;
        let shown: Vec<_> =
            routes.iter().map(|route| (route.route.as_str(), route.state, route.attempts.len())).collect();
        assert_eq!(shown, [(ROUTE, "delivered", 0), (MAILER, "due", 1)]);
    }
    assert!(entries(bench).await.is_empty());
}

pub async fn a_key_that_an_operator_lets_go_on_goes_on_where_he_says(bench: &Bench) {
    let bench = &several(bench).await;
    let (_, second) = both(bench).await;
    bench.insert(3, Some("k")).await;
    let taken = take(&second, 3).await;
    second.settle([(&taken[0], retry(1, Duration::from_hours(1)))]).await;
    settle_all(&second, &taken[1..], || Verdict::Returned).await;
    assert_eq!(bench.admin.unblock(MAILER, "k", &operator()).await.unwrap(), 2);
    let taken = take(&second, 2).await;
    assert_eq!(ids(&taken), ["k-1", "k-2"]);
    second.settle([(&taken[0], retry(1, Duration::from_hours(1)))]).await;
    second.settle([(&taken[1], Verdict::Returned)]).await;
    assert_eq!(bench.admin.skip_head(MAILER, "k", &operator()).await.unwrap(), "k-1");
    assert_eq!(deliver(&second, 1).await, ["k-2"]);
    assert_eq!(status(bench, MAILER).await, (1, 0, 1, 1));
}

pub async fn dead_letters_are_a_routes_own(bench: &Bench) {
    let bench = &several(bench).await;
    let (first, second) = both(bench).await;
    bench.insert(3, None).await;
    let taken = take(&second, 3).await;
    settle_all(&second, &taken, || dead(1)).await;
    assert_eq!(deliver(&first, 3).await.len(), 3);
    assert_eq!((status(bench, ROUTE).await, status(bench, MAILER).await), ((3, 0, 0, 0), (0, 0, 0, 3)));
    let letters = bench.admin.deliveries(&[DeliveryState::Dead], &Selection::default(), 0, 10).await.unwrap();
    let shown: Vec<_> = letters.iter().map(|row| (row.route.as_str(), row.id.as_str(), row.code.as_deref())).collect();
    assert_eq!(
        shown,
        [(MAILER, "row-0", Some("test.bad")), (MAILER, "row-1", Some("test.bad")), (MAILER, "row-2", Some("test.bad"))]
    );
    assert!(second.take_all().await.is_empty());
    let groups = bench.admin.delivery_groups(&[DeliveryState::Dead], &Selection::default(), 10).await.unwrap();
    assert_eq!(groups.iter().map(|group| group.count).sum::<u64>(), 3);
    let one = Selection { ids: vec!["row-1".to_owned()], ..of_route(MAILER) };
    assert_eq!(bench.replay(ReplayKind::Dead, &one).await, 1);
    let again = take(&second, 1).await;
    assert_eq!((ids(&again), again[0].attempts), (vec!["row-1"], 0));
    settle_all(&second, &again, delivered).await;
    let discarded = bench.admin.discard_dead(&of_route(MAILER), false, &operator()).await.unwrap();
    assert_eq!(discarded.deliveries, 2);
    assert!(entries(bench).await.is_empty());
    assert!(first.take_all().await.is_empty() && second.take_all().await.is_empty());
}

pub async fn a_dead_letter_of_the_first_route_is_none_of_the_others(bench: &Bench) {
    let bench = &several(bench).await;
    let (first, second) = both(bench).await;
    bench.insert(2, None).await;
    let taken = take(&first, 2).await;
    settle_all(&first, &taken, || dead(1)).await;
    assert_eq!(deliver(&second, 2).await, ["row-0", "row-1"]);
    assert_eq!((status(bench, ROUTE).await, status(bench, MAILER).await), ((0, 0, 0, 2), (2, 0, 0, 0)));
    assert!(second.take_all().await.is_empty(), "though some tables leave dead rows pending");
    assert_eq!(bench.replay(ReplayKind::Dead, &of_route(ROUTE)).await, 2);
    assert_eq!(deliver(&first, 2).await.len(), 2);
    assert!(second.take_all().await.is_empty());
    assert!(entries(bench).await.is_empty());
}

pub async fn a_replay_is_of_one_route_and_a_row_set_back_by_hand_of_all(bench: &Bench) {
    if bench.sample == Sample::Presence {
        return; // Rows that are done are gone.
    }
    let bench = &several(bench).await;
    let (first, second) = both(bench).await;
    bench.insert(2, None).await;
    deliver(&first, 2).await;
    deliver(&second, 2).await;
    let unclear = bench.admin.preview_replay(ReplayKind::Settled, &Selection::default(), None).await.unwrap_err();
    assert_eq!(unclear.kind, StoreErrorKind::Invalid, "{unclear}");
    assert_eq!(bench.replay(ReplayKind::Settled, &of_route(MAILER)).await, 2);
    assert_eq!(deliver(&second, 2).await, ["row-0", "row-1"]);
    assert!(first.take_all().await.is_empty());
    assert_eq!(bench.replay(ReplayKind::Settled, &of_route(ROUTE)).await, 2);
    assert!(second.take_all().await.is_empty(), "pending again for the first route alone");
    assert_eq!(deliver(&first, 2).await, ["row-0", "row-1"]);
    assert!(entries(bench).await.is_empty());
    bench.execute(&bench.sample.set_back(bench.executor.dialect(), "row-1")).await;
    assert_eq!(deliver(&first, 1).await, ["row-1"]);
    assert_eq!(deliver(&second, 1).await, ["row-1"]);
    bench.execute(&bench.sample.set_back(bench.executor.dialect(), "row-0")).await;
    assert_eq!(deliver(&second, 1).await, ["row-0"]);
    assert_eq!(deliver(&first, 1).await, ["row-0"]);
    assert!(first.take_all().await.is_empty() && second.take_all().await.is_empty());
}

pub async fn a_new_route_begins_where_it_says(bench: &Bench) {
    let bench = &several(bench).await;
    let first = bench.worker("a").await;
    bench.insert(2, None).await;
    let late = mailer(bench, "a", StartFrom::Now).await;
    let early = bench.worker_of("a", RouteSpec::new("early").start_from(StartFrom::Beginning)).await;
    bench.insert_one(5, "new", None).await;
    assert_eq!(deliver(&late, 1).await, ["new"]);
    assert_eq!(deliver(&early, 3).await, ["row-0", "row-1", "new"]);
    assert_eq!(deliver(&first, 3).await.len(), 3);
    first.renew().await;
    let again = mailer(bench, "b", StartFrom::Now).await;
    assert!(again.take_all().await.is_empty(), "a route that is there does not begin again");
    let routes = bench.admin.routes().await.unwrap();
    let starts: Vec<_> = routes.iter().map(|detail| (detail.status.route.as_str(), detail.start.as_str())).collect();
    assert_eq!(starts, [(ROUTE, "beginning"), ("early", "beginning"), (MAILER, "now")]);
}

pub async fn a_route_that_is_registered_while_rows_are_in_flight_gets_them(bench: &Bench) {
    let bench = &several(bench).await;
    let first = bench.worker("a").await;
    bench.insert(2, None).await;
    let taken = take(&first, 2).await;
    let second = mailer(bench, "a", StartFrom::Beginning).await;
    settle_all(&first, &taken, delivered).await;
    assert_eq!(deliver(&second, 2).await, ["row-0", "row-1"]);
}

pub async fn another_relay_goes_on_with_both_routes(bench: &Bench) {
    let bench = &several(bench).await;
    let (first, second) = both(bench).await;
    bench.insert(3, None).await;
    let (mine, theirs) = (take(&first, 3).await, take(&second, 3).await);
    settle_all(&first, &mine, delivered).await;
    // It is gone between the settles of the two: nothing of the second reached the table.
    let gone = match bench.executor.dialect() {
        Dialect::Postgres => "update postroom.relay set alive_until = alive_until - interval '1 hour'",
        Dialect::Sqlite => "update postroom_relay set alive_until = alive_until - 3600000000",
    };
    bench.execute(gone).await;
    let (other_first, other_second) = (bench.worker("b").await, mailer(bench, "b", StartFrom::Beginning).await);
    assert!(other_first.take_all().await.is_empty());
    let again = take(&other_second, 3).await;
    assert_eq!(ids(&again), ["row-0", "row-1", "row-2"]);
    settle_all(&second, &theirs, delivered).await;
    assert_eq!(status(bench, MAILER).await, (0, 3, 0, 0), "what the old relay says is void");
    settle_all(&other_second, &again, delivered).await;
    assert_eq!(status(bench, MAILER).await, (3, 0, 0, 0));
    assert!(entries(bench).await.is_empty());
}

pub async fn a_settle_of_either_route_repeated_changes_nothing(bench: &Bench) {
    let bench = &several(bench).await;
    let (first, second) = both(bench).await;
    bench.insert(2, None).await;
    let (mine, theirs) = (take(&first, 2).await, take(&second, 2).await);
    for _ in 0..2 {
        settle_all(&second, &theirs, delivered).await;
        settle_all(&first, &mine, delivered).await;
    }
    assert!(first.take_all().await.is_empty() && second.take_all().await.is_empty());
    assert_eq!((status(bench, ROUTE).await, status(bench, MAILER).await), ((2, 0, 0, 0), (2, 0, 0, 0)));
    assert!(entries(bench).await.is_empty());
}

pub async fn routes_that_settle_the_same_rows_at_once_leave_nothing_behind(bench: &Bench) {
    let bench = &several(bench).await;
    let (first, second) = both(bench).await;
    for round in 0..20 {
        let rows: Vec<_> = (0..10).map(|n| (n, format!("row-{round}-{n}"), format!("k-{n}"))).collect();
        bench.insert_all(&rows).await;
        let (mine, theirs) = (take(&first, 10).await, take(&second, 10).await);
        tokio::join!(settle_all(&first, &mine, delivered), settle_all(&second, &theirs, delivered));
    }
    assert_eq!((status(bench, ROUTE).await, status(bench, MAILER).await), ((200, 0, 0, 0), (200, 0, 0, 0)));
    assert!(entries(bench).await.is_empty());
    assert!(first.take_all().await.is_empty() && second.take_all().await.is_empty());
}

pub async fn a_route_may_be_renamed_and_forgotten(bench: &Bench) {
    let bench = &several(bench).await;
    let (first, second) = both(bench).await;
    bench.insert(2, None).await;
    let taken = take(&second, 2).await;
    second.settle([(&taken[0], dead(1)), (&taken[1], retry(1, Duration::from_hours(1)))]).await;
    second.0.release().await.unwrap();
    bench.admin.rename(MAILER, "post", &operator()).await.unwrap();
    assert_eq!(status(bench, "post").await, (0, 0, 1, 1));
    bench.admin.forget("post", &operator()).await.unwrap();
    assert!(entries(bench).await.is_empty());
    assert_eq!(deliver(&first, 2).await.len(), 2);
    assert!(entries(bench).await.is_empty(), "nobody else is there");
}

pub async fn a_route_keeps_its_part(bench: &Bench) {
    let both_parts = several(bench).await;
    drop(both(&both_parts).await);
    let swapped = bench
        .reopened(postroom_adopted::Mapping { marked_by: Some(MAILER.to_owned()), ..bench.sample.mapping() })
        .await;
    for route in [ROUTE, MAILER] {
        let error = swapped.source("b", RouteSpec::new(route)).await.err().unwrap();
        assert_eq!(error.kind, StoreErrorKind::Conflict, "{error}");
    }
    let shared = postroom_adopted::Mapping {
        marked_by: Some(ROUTE.to_owned()),
        claim: Claim::RowLocks,
        ordered: false,
        ..bench.sample.mapping()
    };
    let error = Adopted::open(AdoptedOptions::new("main", shared), Arc::clone(&bench.executor)).await.unwrap_err();
    assert!(error.to_string().contains("says nothing of a second route"), "{error}");
}

pub async fn what_is_left_of_rows_that_somebody_else_finished_is_swept_away(bench: &Bench) {
    let bench = &several(bench).await;
    let (_, second) = both(bench).await;
    bench.insert(2, None).await;
    assert_eq!(deliver(&second, 2).await.len(), 2);
    let table = bench.sample.in_sql(bench.executor.dialect());
    bench.execute(&format!("delete from {table}")).await;
    assert_eq!(entries(bench).await.len(), 2);
    bench.admin.prune(&postroom_core::Retention::default(), false).await.unwrap();
    assert!(entries(bench).await.is_empty());
}
