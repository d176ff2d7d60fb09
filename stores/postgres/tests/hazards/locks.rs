//! In each other's way: locks that are held, deadlocks, serialization failures, transactions that stay open.

use std::time::Duration;

use postroom_admin::ManagedStore as _;
use postroom_core::{Event, Outbox as _, RouteSpec, Store as _, StoreErrorKind};
use postroom_postgres::PostgresStore;
use postroom_relay::{Relay, RelayOptions, Route};
use postroom_testbed::{Database, Servers};
use postroom_testing::ScriptedTransport;
use sqlx::Executor as _;

use crate::hazards::bench::{Bench, LEASE, Worker, append, events, relay, retry, route, wait_for};

/// H-13
#[tokio::test]
async fn a_lock_that_is_held_too_long_fails_the_settle_and_loses_nothing() {
    let bench = Bench::new().await;
    bench.append(&events(0, 5)).await;
    let mut worker = bench.worker().await;
    let taken = worker.take(10).await;
    let mut holder = bench.store.begin().await.unwrap();
    holder.execute(bench.here("lock table postroom.checkpoint in access exclusive mode")).await.unwrap();
    let error = worker.settle(&taken).await.unwrap_err();
    assert_eq!(error.kind, StoreErrorKind::Busy, "{error}");
    holder.rollback().await.unwrap();
    worker.settle(&taken).await.unwrap();
    worker.drain().await;
    assert_eq!((worker.came.len(), worker.twice()), (5, 0), "the server had said no: nothing was in doubt");
    assert_eq!(bench.agrees().await, 5);
}

/// H-07
#[tokio::test]
async fn a_settle_whose_caller_went_away_is_part_of_what_the_next_one_writes() {
    let bench = Bench::with(|options| options.lanes(1)).await;
    bench.append(&events(0, 6)).await;
    let mut worker = bench.worker().await;
    let taken = worker.take(10).await;
    let mut holder = bench.store.begin().await.unwrap();
    holder.execute(bench.here("lock table postroom.checkpoint in access exclusive mode")).await.unwrap();
    // Nobody waits for the first one; it is written all the same.
    let waits = "select count(*) from pg_locks where relation = 'postroom.checkpoint'::regclass and not granted";
    let written = wait_for("the settle to be written", async || bench.one(waits).await == "1");
    tokio::select! {
        settled = worker.settle(&taken[..3]) => panic!("it cannot be written yet: {settled:?}"),
        () = written => {}
    }
    let (settled, released) = tokio::join!(worker.settle(&taken[3..]), async {
        // Long enough for the second one to have looked at what it starts from.
        tokio::task::yield_now().await;
        holder.rollback().await
    });
    settled.unwrap();
    released.unwrap();
    worker.drain().await;
    assert_eq!((worker.came.len(), worker.twice()), (6, 0));
    assert_eq!(bench.agrees().await, 6);
}

/// H-29
#[tokio::test]
async fn a_relay_that_comes_back_while_its_lanes_are_taken_over_is_told_so() {
    let bench = Bench::new().await;
    bench.append(&events(0, 5)).await;
    let mut late = bench.worker().await;
    assert_eq!(late.take(10).await.len(), 5);
    // As if it had been frozen for longer than its lease.
    bench
        .sql("update postroom.relay set seen_at = now() - interval '2 hours', alive_until = now() - interval '1 hour'")
        .await;
    let mut next = bench.worker().await;
    next.renew().await.unwrap();
    let mut holder = bench.store.begin().await.unwrap();
    holder.execute(bench.here("lock table postroom.checkpoint in exclusive mode")).await.unwrap();
    let taking = tokio::spawn(async move { next.look(10).await });
    let waits = "select count(*) from pg_locks where relation = 'postroom.checkpoint'::regclass and not granted";
    wait_for("the lanes to be half taken over", async || bench.one(waits).await == "1").await;
    let renewing = tokio::spawn(async move { late.renew().await });
    let both = format!(
        "select count(*) from pg_stat_activity where wait_event_type = 'Lock' and query like '%{}%'",
        bench.name
    );
    // Either it waits, or it has been told something wrong.
    wait_for("the late one to come", async || renewing.is_finished() || bench.one(&both).await == "2").await;
    holder.rollback().await.unwrap();
    taking.await.unwrap().unwrap();
    assert_eq!(renewing.await.unwrap().unwrap(), 0, "it would go on with lanes that are another's");
}

/// H-16
#[tokio::test]
async fn lanes_that_a_relay_lost_track_of_go_to_whom_they_belong() {
    let bench = Bench::new().await;
    bench.append(&events(0, 40)).await;
    let mut first = bench.worker().await;
    let taken = first.take(100).await;
    first.settle(&taken).await.unwrap();
    assert_eq!(bench.one("select count(*) from postroom.lane where holder is not null").await, "4");
    // Its connection is cut in the middle of a look: what it knew of its lanes it must not believe any more.
    let mut holder = bench.store.begin().await.unwrap();
    holder.execute(bench.here("lock table postroom.lane in access exclusive mode")).await.unwrap();
    bench.append(&events(40, 40)).await;
    let look = tokio::spawn(async move { (first.look(100).await, first) });
    let cut = "select count(pg_terminate_backend(pid)) from pg_locks where relation = 'postroom.lane'::regclass and not granted";
    wait_for("its connection to be cut", async || bench.one(cut).await != "0").await;
    let (looked, mut first) = look.await.unwrap();
    looked.unwrap_err();
    holder.rollback().await.unwrap();
    // Before it looks again there is another, and half of the lanes are that one's.
    let mut second = bench.worker().await;
    second.renew().await.unwrap();
    wait_for("each to have its share", async || {
        for relay in [&mut first, &mut second] {
            let take = relay.look(100).await.unwrap();
            relay.settle(&take.deliveries).await.unwrap();
        }
        second.renew().await.unwrap() == 2
    })
    .await;
    first.drain().await;
    second.drain().await;
    assert_eq!(bench.agrees().await, 80);
}

/// H-13
#[tokio::test]
async fn timeouts_deadlocks_and_serialization_failures_of_callers_can_be_retried() {
    let bench = Bench::new().await;
    let one = Event::new("order.placed");
    let store = &bench.store;

    let mut holder = store.begin().await.unwrap();
    drop(store.append_once(&mut holder, "a", &one).await.unwrap());
    for setting in ["set local statement_timeout = '50ms'", "set local lock_timeout = '50ms'"] {
        let mut tx = store.begin().await.unwrap();
        tx.execute(setting).await.unwrap();
        let error = store.append_once(&mut tx, "a", &one).await.unwrap_err();
        assert_eq!(error.kind, StoreErrorKind::Busy, "{setting}: {error}");
    }

    let mut other = store.begin().await.unwrap();
    drop(store.append_once(&mut other, "b", &one).await.unwrap());
    let (first, second) = tokio::join!(store.append_once(&mut holder, "b", &one), async {
        let result = store.append_once(&mut other, "a", &one).await;
        if result.is_err() {
            other.rollback().await.unwrap();
        }
        result
    });
    let error = first.err().or(second.err()).expect("one of the two is chosen");
    assert_eq!(error.kind, StoreErrorKind::Busy, "{error}");
    drop(holder);

    bench
        .sql("create table postroom.account (id int primary key, n int); insert into postroom.account values (1, 0)")
        .await;
    let begin = async || {
        let mut tx = store.begin().await.unwrap();
        tx.execute("set transaction isolation level serializable").await.unwrap();
        tx.execute(bench.here("select sum(n) from postroom.account")).await.unwrap();
        tx
    };
    let (mut a, mut b) = (begin().await, begin().await);
    for (n, tx) in [(2, &mut a), (3, &mut b)] {
        tx.execute(bench.here(&format!("insert into postroom.account values ({n}, 1)"))).await.unwrap();
    }
    drop(store.append(&mut a, &one).await.unwrap());
    a.commit().await.unwrap();
    let error = store.append(&mut b, &one).await.expect_err("the first to commit has won");
    assert_eq!(error.kind, StoreErrorKind::Busy, "{error}");
}

/// H-13
#[tokio::test]
async fn a_role_whose_transactions_are_serializable_works_like_any_other() {
    let database = Database::create(&Servers::find()).await;
    let bench = Bench::at(database.url()).await;
    bench.sql(&format!("alter database {} set default_transaction_isolation = 'serializable'", database.name())).await;
    let (one, two) = (bench.another().await, bench.another().await);
    let mut writers = tokio::task::JoinSet::new();
    for n in 0..4 {
        let store = if n % 2 == 0 { one.clone() } else { two.clone() };
        writers.spawn(async move {
            for i in 0..50 {
                append(&store, &events(1_000 * n + i, 1)).await.unwrap();
            }
        });
    }
    // Two relays that share the lanes, with failures on the way: their statements meet in every table.
    let mut relays = [Worker::on(&one, LEASE).await, Worker::on(&two, LEASE).await];
    let mut came = std::collections::BTreeSet::new();
    wait_for("all of them", async || {
        for relay in &mut relays {
            let take = relay.look(20).await.unwrap();
            let (fail, through): (Vec<_>, Vec<_>) =
                take.deliveries.iter().partition(|one| one.attempts == 0 && one.event.id.ends_with('7'));
            let failed = fail.into_iter().map(|one| retry(one, Duration::ZERO));
            let settlements: Vec<_> = failed.chain(through.into_iter().map(crate::hazards::bench::delivered)).collect();
            relay.source.settle(&settlements).await.unwrap();
            relay.renew().await.unwrap();
            came.extend(relay.came.keys().cloned());
        }
        came.len() == 200
    })
    .await;
    writers.join_all().await;
    for relay in &mut relays {
        relay.drain().await;
    }
    assert_eq!(bench.agrees().await, 200);
}

/// H-14
#[tokio::test]
async fn no_transaction_is_open_while_a_delivery_is_on_its_way() {
    let database = Database::create(&Servers::find()).await;
    let bench = Bench::at(database.url()).await;
    bench.append(&events(0, 20)).await;
    let transport = ScriptedTransport::new();
    transport.hold_when(|_| true);
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let store: PostgresStore = bench.another().await;
    let relay = Relay::new(store)
        .options(RelayOptions::default().retention(None).shutdown_grace(Duration::ZERO))
        .route(Route::from_spec(route()).to(transport.clone()));
    let running = tokio::spawn(relay.run(async move {
        let _ = stopped.await;
    }));
    wait_for("a delivery", async || !transport.arrivals().is_empty()).await;
    let open = "select count(*) from pg_stat_activity where datname = current_database() \
                and state like 'idle in transaction%' and clock_timestamp() - state_change > interval '1 second'";
    let start = std::time::Instant::now();
    while start.elapsed() < Duration::from_millis(2_500) {
        assert_eq!(bench.one(open).await, "0", "a transaction stays open while the destination takes its time");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    drop(stop);
    running.await.unwrap().unwrap();
}

/// H-37
#[tokio::test]
async fn two_relays_with_different_definitions_of_a_new_route_do_not_both_join() {
    let bench = Bench::new().await;
    // Both get as far as their heartbeats.
    let mut holder = bench.store.begin().await.unwrap();
    holder.execute(bench.here("lock table postroom.relay in exclusive mode")).await.unwrap();
    let join = |to: &str| {
        let (store, route) = (bench.store.clone(), RouteSpec { to: to.to_owned(), ..route() });
        tokio::spawn(async move { store.source(&relay(LEASE), &route).await.map(drop) })
    };
    let waiting = format!(
        "select count(*) from pg_stat_activity where wait_event_type = 'Lock' and query like '%{}%'",
        bench.name
    );
    let first = join("here");
    wait_for("a relay to wait", async || bench.one(&waiting).await == "1").await;
    let second = join("there");
    wait_for("another one to wait", async || bench.one(&waiting).await == "2").await;
    holder.rollback().await.unwrap();
    let joined = [first.await.unwrap(), second.await.unwrap()];
    let refused: Vec<_> = joined.into_iter().filter_map(Result::err).collect();
    assert_eq!(refused.len(), 1);
    assert_eq!(refused[0].kind, StoreErrorKind::Conflict, "{}", refused[0]);
}

/// Whoever looks waits two seconds at most, behind a lock or for what is much, on two connections.
#[tokio::test]
async fn a_question_that_takes_too_long_is_cut_off_for_admin_connections() {
    let bench = Bench::new().await;
    let store = PostgresStore::open(bench.options.clone().for_admin()).await.unwrap();
    let mut holder = bench.store.begin().await.unwrap();
    holder.execute(bench.here("lock table postroom.token in access exclusive mode")).await.unwrap();
    let admin = store.admin();
    let (one, two, three) = tokio::join!(admin.tokens(), admin.tokens(), admin.tokens());
    for refused in [one, two, three] {
        assert_eq!(refused.unwrap_err().kind, StoreErrorKind::Busy);
    }
    holder.rollback().await.unwrap();
    admin.tokens().await.unwrap();
    bench.sql("alter table postroom.token rename to put_away").await;
    let slow = "create view postroom.token as select t.* from postroom.put_away t right join pg_sleep(3600) on true";
    bench.sql(slow).await;
    assert_eq!(admin.tokens().await.unwrap_err().kind, StoreErrorKind::Busy);
    admin.routes().await.unwrap();
}
