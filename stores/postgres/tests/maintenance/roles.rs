//! One role per task, with the rights it needs and no more.

use std::sync::Arc;
use std::time::Duration;

use postroom_admin::view::ReplayKind;
use postroom_admin::{ManagedStore as _, Selection, replay_at_once};
use postroom_core::{Acceptance, Event, Failure, Inbox, Outbox, Retention, RouteSpec, StartFrom, Store};
use postroom_postgres::{PostgresOptions, PostgresStore};
use postroom_relay::Route;
use postroom_testing::{ManualClock, ScriptedTransport, drain};
use sqlx::{AssertSqlSafe, Executor};

use crate::maintenance::bench::{Bench, ROLES, ada};

#[tokio::test]
async fn each_role_may_do_its_task_and_nothing_else() {
    let bench = Bench::new().await;
    let script = bench.maintenance().await.roles();
    for _ in 0..2 {
        bench.store.pool().execute(AssertSqlSafe(script.clone())).await.unwrap();
    }
    let may = async |role: &str, statement: &str| {
        let mut tx = bench.store.begin().await.unwrap();
        let done = tx.execute(bench.here(&format!("set local role {}_{role}; {statement}", bench.schema.name()))).await;
        tx.rollback().await.unwrap();
        match done {
            Ok(_) => true,
            Err(error) if error.as_database_error().is_some_and(|e| e.code().as_deref() == Some("42501")) => false,
            Err(error) => panic!("{role}: {statement}: {error}"),
        }
    };
    let append = "select postroom.append('t'), postroom.append_once('w', 't'), postroom.append_ordered('t', 'k')";
    let insert = "insert into postroom.log (partition, lane, tx, seq, occurred_at, id, type, payload) \
                  values (0, 0, 1, nextval('postroom.log_seq'), now(), 'x', 't', '1')";
    let settle = "insert into postroom.checkpoint (route, lane, term, hwm, base) values ('r', 0, 1, 1, 0)";
    for (statement, allowed) in [
        ("select value from postroom.meta", &ROLES[..]),
        (append, &["append", "migrate"]),
        (insert, &["migrate"]),
        ("select nextval('postroom.log_seq')", &["migrate"]),
        ("select postroom.accept('c', 'x')", &["inbox", "migrate"]),
        ("select id from postroom.log", &["relay", "migrate"]),
        ("select payload from postroom.log_1", &["relay", "migrate"]),
        ("select payload from postroom.evacuated", &["relay", "migrate"]),
        ("select id, payload_bytes from postroom.event", &["relay", "viewer", "migrate"]),
        ("select route from postroom.delivery", &["relay", "viewer", "migrate"]),
        ("truncate postroom.log_1, postroom.receipt_1", &["relay", "migrate"]),
        (settle, &["relay", "migrate"]),
        ("update postroom.log set type = 't'", &["migrate"]),
        ("delete from postroom.audit", &["migrate"]),
        ("select setval('postroom.log_seq', 1)", &["migrate"]),
        ("create table postroom.t (x int)", &["migrate"]),
    ] {
        for role in ROLES {
            assert_eq!(may(role, statement).await, allowed.contains(&role), "{role}: {statement}");
        }
    }
    bench.drop_roles().await;
}

#[tokio::test]
async fn users_with_one_role_each_carry_events_from_end_to_end() {
    let bench = Bench::new().await;
    let script = bench.maintenance().await.roles();
    bench.store.pool().execute(AssertSqlSafe(script)).await.unwrap();
    // The roles themselves log in here: whatever they may do, they may do by their own rights.
    let open = async |role: &str| {
        let user = format!("{}_{role}", bench.schema.name());
        bench.sql(&format!("alter role {user} login")).await;
        let url = bench.schema.url().replace("postgres@", &format!("{user}@"));
        PostgresStore::open(PostgresOptions::new("main", url).schema(bench.schema.name())).await.unwrap()
    };
    let store = open("append").await;
    for n in 0..3 {
        let mut tx = store.begin().await.unwrap();
        let appended = store.append(&mut tx, &Event::new("order.placed").key(format!("order-{n}"))).await.unwrap();
        tx.commit().await.unwrap();
        appended.wake();
    }
    for expected in [1, 0] {
        let mut tx = store.begin().await.unwrap();
        let event = Event::new("label.printed").bytes("application/pdf", "%PDF");
        let appended = store.append_once(&mut tx, "request-7", &event).await.unwrap();
        tx.commit().await.unwrap();
        assert_eq!(appended.ids().len(), expected, "not only JSON, and once");
    }
    let transport = ScriptedTransport::new();
    transport.fail_next(1, Failure::permanent("no", "no such address"));
    drain(open("relay").await, Route::named("mailer").from_beginning().to(transport.clone())).await.unwrap();
    assert_eq!((transport.arrivals().len(), transport.delivered_ids().len()), (4, 3));
    assert_eq!(bench.one("select string_agg(state, ',') from postroom.delivery").await, "dead");

    let consumer = open("inbox").await;
    let mut tx = consumer.begin().await.unwrap();
    let id = &transport.delivered_ids()[0];
    assert_eq!(consumer.accept(&mut tx, "mailer", id).await.unwrap(), Acceptance::New);
    tx.commit().await.unwrap();
    assert_eq!(open("viewer").await.maintenance().unwrap().stats().await.unwrap().last_number, 4);
    bench.drop_roles().await;
}

#[tokio::test]
async fn operators_and_retention_need_no_more_than_the_role_of_relays() {
    let bench = Bench::new().await;
    let script = bench.maintenance().await.roles();
    bench.store.pool().execute(AssertSqlSafe(script)).await.unwrap();
    let user = format!("{}_relay", bench.schema.name());
    bench.sql(&format!("alter role {user} login")).await;
    let clock = ManualClock::default();
    let url = bench.schema.url().replace("postgres@", &format!("{user}@"));
    let with_clock =
        |url: String| PostgresOptions::new("main", url).schema(bench.schema.name()).clock(Arc::new(clock.clone()));
    let (producer, relay) = (
        PostgresStore::open(with_clock(bench.schema.url())).await.unwrap(),
        PostgresStore::open(with_clock(url)).await.unwrap(),
    );
    for n in 0..3 {
        let mut tx = producer.begin().await.unwrap();
        let event = Event::new("order.placed").key(format!("order-{n}"));
        producer.append_once(&mut tx, &format!("request-{n}"), &event).await.unwrap().wake();
        assert_eq!(producer.accept(&mut tx, "mailer", &event.id).await.unwrap(), Acceptance::New);
        tx.commit().await.unwrap();
    }
    let admin = relay.admin();
    let route = RouteSpec::new("mailer").start_from(StartFrom::Beginning);
    admin.register(std::slice::from_ref(&route)).await.unwrap();
    let transport = ScriptedTransport::new();
    transport.fail_next(2, Failure::permanent("no", "no such address"));
    drain(relay.clone(), Route::from_spec(route).to(transport)).await.unwrap();
    assert!(admin.pause("mailer", &ada()).await.unwrap() && admin.resume("mailer", &ada()).await.unwrap());

    clock.advance(Duration::from_hours(24 * 2));
    let day = Some(Duration::from_hours(24));
    let retention = Retention { delivered: day, attempts: day, inbox: day };
    let pruned = admin.prune(&retention, false).await.unwrap();
    assert_eq!((pruned.events, pruned.inbox, pruned.append_keys), (1, 3, 3), "{pruned:?}");
    assert_eq!(bench.one("select count(*) from postroom.evacuated").await, "2");
    let all = Selection::default();
    assert_eq!(admin.dead(&all, 0, 10).await.unwrap().len(), 2);
    let one = Selection { ids: vec![admin.dead(&all, 0, 1).await.unwrap()[0].id.clone()], ..Selection::default() };
    let replayed = replay_at_once(&*admin, ReplayKind::Dead, &one, &ada()).await.unwrap();
    assert_eq!(replayed.map(|replay| replay.done), Some(1));
    assert_eq!(admin.discard_dead(&all, false, &ada()).await.unwrap().deliveries, 1);
    assert!(admin.verify().await.unwrap().iter().all(|row| row.differences.is_empty()));
    assert!(admin.store().await.is_ok() && admin.relays().await.is_ok() && admin.routes().await.is_ok());
    clock.advance(Duration::from_hours(1));
    admin.forget("mailer", &ada()).await.unwrap();
    bench.drop_roles().await;
}
