//! Looking after the store: rights, sizes, the sequence, another cluster, tables changed by hand.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test may panic")]

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use postroom_conformance::servers::{Cluster, ClusterOptions, Schema, Servers, program};
use postroom_core::{
    Acceptance, Actor, Event, Failure, Filter, Inbox, Outbox, RelayIdentity, ReplayOptions, Retention, RouteDefinition,
    Selection, Start, Store, StoreErrorKind, Timestamp, Upkeep,
};
use postroom_postgres::{Postgres, PostgresOptions};
use postroom_testing::{ManualClock, ScriptedTransport, drain};
use sqlx::{AssertSqlSafe, Executor, Row};

const ROLES: [&str; 6] = ["append", "writer", "relay", "inbox", "viewer", "migrate"];
/// Who holds the lane, under which term, and how many checkpoints there are.
const LANE: &str =
    "select format('%s/%s/%s', holder, term, (select count(*) from postroom.checkpoint)) from postroom.lane";

/// A store in a schema of its own.
struct Bench {
    schema: Schema,
    store: Postgres,
}

fn options(schema: &Schema) -> PostgresOptions {
    PostgresOptions::new("main", schema.url()).schema(schema.name()).lanes(1).leaves(4)
}

fn ada() -> Actor {
    Actor { name: "ada".to_owned(), reason: Some("moved".to_owned()) }
}

impl Bench {
    async fn new() -> Self {
        let schema = Schema::choose(&Servers::find());
        let unmigrated = Postgres::open_unmigrated(options(&schema)).await.unwrap();
        unmigrated.schema().unwrap().up().await.unwrap();
        Self { store: Postgres::open(options(&schema)).await.unwrap(), schema }
    }

    /// A text in which `postroom.` is the schema.
    fn here(&self, text: &str) -> AssertSqlSafe<String> {
        AssertSqlSafe(text.replace("postroom.", &format!("{}.", self.schema.name())))
    }

    async fn sql(&self, text: &str) {
        self.store.pool().execute(self.here(text)).await.unwrap();
    }

    /// One value, as text.
    async fn one(&self, text: &str) -> String {
        let row = self.store.pool().fetch_one(self.here(&format!("select ({text})::text"))).await.unwrap();
        row.get::<Option<String>, _>(0).unwrap_or_default()
    }

    async fn append(&self, event: &Event) {
        let mut tx = self.store.begin().await.unwrap();
        let appended = self.store.append(&mut tx, event).await.unwrap();
        tx.commit().await.unwrap();
        appended.wake();
    }

    /// The upkeep as commands reach it: without asking whether this is the right cluster.
    async fn upkeep(&self) -> Arc<dyn Upkeep> {
        Postgres::open_unmigrated(options(&self.schema)).await.unwrap().upkeep().unwrap()
    }
}

#[tokio::test]
async fn the_list_of_columns_is_that_of_a_fresh_store() {
    let bench = Bench::new().await;
    let query = sqlx::query(include_str!("../src/sql/columns.sql")).bind(bench.schema.name().to_owned());
    let rows = query.fetch_all(bench.store.pool()).await.unwrap();
    let line = |row: &sqlx::postgres::PgRow| format!("{} {}\n", row.get::<String, _>(0), row.get::<String, _>(1));
    let mut lines: Vec<String> = rows.iter().map(line).collect();
    lines.sort();
    let fresh = lines.concat().replace("4 leaves", "{leaves} leaves");
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("migrations/columns.txt");
    if std::env::var_os("POSTROOM_WRITE_DOCS").is_some() {
        std::fs::write(&path, fresh).unwrap();
    } else {
        let kept = std::fs::read_to_string(&path).unwrap();
        assert!(kept == fresh, "migrations/columns.txt is stale; run this test with POSTROOM_WRITE_DOCS=1\n{fresh}");
    }
}

#[tokio::test]
async fn a_table_changed_by_hand_is_refused_with_the_exact_difference() {
    let bench = Bench::new().await;
    bench.sql("alter table postroom.lane alter column term type int4").await;
    bench.sql("alter table postroom.stat drop column dead").await;
    bench.sql("alter table postroom.inbox add column note text").await;
    bench.sql("alter table postroom.log detach partition postroom.log_3").await;
    bench.sql("create table postroom.mine (x int)").await;
    let error = Postgres::open(options(&bench.schema)).await.err().unwrap();
    assert_eq!(error.kind, StoreErrorKind::Schema);
    let (_, said) = error.message.split_once("changed: ").unwrap();
    assert_eq!(
        said,
        "lane.term is integer not null, not bigint not null; log is 3 leaves, not 4 leaves; stat.dead is missing; \
         inbox.note text was added"
    );
}

#[tokio::test]
async fn stats_say_how_large_things_are_and_who_holds_the_horizon() {
    let bench = Bench::new().await;
    for n in 0..3 {
        bench.append(&Event::new("order.placed").key(format!("order-{n}"))).await;
    }
    let mut looks_back = bench.store.begin().await.unwrap();
    looks_back.execute("set transaction isolation level repeatable read; select 1").await.unwrap();
    let stats = bench.upkeep().await.stats().await.unwrap();
    let current: Vec<_> = stats.leaves.iter().filter(|leaf| leaf.current).collect();
    assert_eq!((stats.leaves.len(), current.len(), stats.last_number, stats.truncated), (4, 1, 3, 0));
    assert_eq!(stats.leaves.iter().map(|leaf| leaf.rows).sum::<u64>(), 3);
    assert!(current[0].oldest <= current[0].newest && current[0].newest.is_some() && !current[0].rows_estimated);
    assert!(stats.tables.iter().any(|table| table.table == "delivery" && table.bytes > 0));
    assert!(!stats.tables.iter().any(|table| table.table.starts_with("log")));
    // Another test's session may look back further.
    let horizon = stats.horizon.expect("an open transaction looks back");
    assert!(horizon.kind == "session" && horizon.name.parse::<u32>().is_ok() && horizon.since.is_some(), "{horizon:?}");
    looks_back.rollback().await.unwrap();
}

#[tokio::test]
async fn a_sequence_that_is_behind_is_repaired_once_and_audited() {
    let bench = Bench::new().await;
    for _ in 0..5 {
        bench.append(&Event::new("order.placed").key("order-7")).await;
    }
    let upkeep = bench.upkeep().await;
    assert!(!upkeep.repair(false, &ada()).await.unwrap().repaired, "nothing is wrong yet");
    bench.sql("select setval('postroom.log_seq', 2)").await;
    let would = upkeep.repair(true, &ada()).await.unwrap();
    assert_eq!((would.last_number, would.greatest, would.repaired), (2, 5, true));
    assert_eq!(bench.one("select last_value from postroom.log_seq").await, "2");
    assert!(upkeep.repair(false, &ada()).await.unwrap().repaired);
    assert!(!upkeep.repair(false, &ada()).await.unwrap().repaired);
    bench.append(&Event::new("order.placed").key("order-7")).await;
    assert_eq!(bench.one("select max(seq) from postroom.log").await, "6");
    let audited = "select string_agg(concat_ws(' ', actor, action, subject, reason), ';') from postroom.audit";
    assert_eq!(bench.one(audited).await, "ada store.repair sequence from 2 to 5 moved");
}

/// A route whose lane had passed number 6 when the backup was made; three of those transactions were still open.
async fn restored(bench: &Bench) {
    let relay = RelayIdentity {
        name: "r".to_owned(),
        boot: "b".to_owned(),
        version: "1".to_owned(),
        lease: Duration::from_secs(30),
    };
    let route = RouteDefinition {
        filter: Filter::types(["order.*"]).unwrap(),
        ..RouteDefinition::new("mailer").starting(Start::Beginning)
    };
    bench.store.source(&relay, &route).await.unwrap();
    let mut later = Event::new("order.later").key("order-4"); // 5: pending, its time lies ahead
    later.available_at = Some(Timestamp::now() + Duration::from_hours(1));
    for event in [
        Event::new("order.placed").key("order-1"), // 1: settled
        Event::new("order.placed").key("order-2"), // 2: unsettled
        Event::new("order.late").key("order-3"),   // 3: pending
        Event::new("other.late").key("order-3"),   // 4: pending, not wanted
        later,
        Event::new("order.placed").key("order-2"), // 6: unsettled
        Event::new("order.placed").key("order-9"), // 7: not read yet
    ] {
        bench.append(&event).await;
    }
    // Ids that this cluster has yet to give out.
    bench.sql("update postroom.log set tx = 3000000000 + seq").await;
    bench
        .sql(
            "insert into postroom.checkpoint (route, lane, term, hwm, pending, los, unsettled, base, seen, delivered)
             select route, lane, term, 6, '{3000000003,3000000004,3000000005,3000000099}', '{0,2,0,0}', '{[2,6]}', 0, 3, 1
             from postroom.lane;
             update postroom.lane set holder = 'b';
             update postroom.meta set value = '17' where name = 'system_identifier';
             select setval('postroom.log_seq', 1)",
        )
        .await;
}

#[tokio::test]
async fn another_cluster_is_refused_until_it_is_accepted_and_then_nothing_is_missing() {
    let bench = Bench::new().await;
    restored(&bench).await;
    let refused = Postgres::open(options(&bench.schema)).await.err().unwrap();
    assert_eq!(refused.kind, StoreErrorKind::Conflict);
    assert!(refused.hint.contains("postroom store accept-identity"), "{}", refused.hint);

    let upkeep = bench.upkeep().await;
    let would = upkeep.accept_identity(true, &ada()).await.unwrap();
    assert_eq!(bench.one(LANE).await, "b/0/2");
    assert_eq!(bench.one("select last_value from postroom.log_seq").await, "1");

    let done = upkeep.accept_identity(false, &ada()).await.unwrap();
    assert_eq!(would, done);
    assert!(done.accepted && done.other_cluster && done.sequence.repaired && done.from.starts_with("17/"), "{done:?}");
    assert_eq!((done.lanes, done.recovered, done.cleared), (1, 2, 7));
    let newest = "select format('%s %s %s %s seen %s delivered %s filtered %s parked %s', term, hwm, pending, unsettled, \
                  seen, delivered, filtered, parked) from postroom.checkpoint order by term desc, id desc limit 1";
    assert_eq!(bench.one(newest).await, "1 6 {} {[2,4),[6,7)} seen 6 delivered 1 filtered 1 parked 1");
    assert_eq!(bench.one(LANE).await, "/1/3");
    let delayed = "select string_agg(concat_ws(' ', seq, state, due > now()), ';') from postroom.delivery";
    assert_eq!(bench.one(delayed).await, "5 delayed t");
    let audited = "select string_agg(action, ' ' order by number) from postroom.audit";
    assert_eq!(bench.one(audited).await, "store.repair store.accept_identity");

    Postgres::open(options(&bench.schema)).await.unwrap();
    let again = upkeep.accept_identity(false, &ada()).await.unwrap();
    assert_eq!((again.accepted, again.lanes), (false, 0));
}

#[tokio::test]
async fn another_timeline_alone_is_noted_without_taking_lanes() {
    let bench = Bench::new().await;
    bench.sql("update postroom.meta set value = '99' where name = 'timeline'").await;
    let done = bench.upkeep().await.accept_identity(false, &ada()).await.unwrap();
    assert!(done.accepted && !done.other_cluster && done.from.ends_with("/99"), "{done:?}");
    assert_eq!((done.lanes, done.recovered), (0, 0));
    assert_ne!(bench.one("select value from postroom.meta where name = 'timeline'").await, "99");
}

#[tokio::test]
async fn each_role_may_do_its_task_and_nothing_else() {
    let bench = Bench::new().await;
    let script = bench.upkeep().await.roles();
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
    let insert = "insert into postroom.log (seg, lane, tx, seq, occurred_at, id, type, payload) \
                  values (0, 0, 1, nextval('postroom.log_seq'), now(), 'x', 't', '1')";
    let settle = "insert into postroom.checkpoint (route, lane, term, hwm, base) values ('r', 0, 1, 1, 0)";
    for (statement, allowed) in [
        ("select value from postroom.meta", &ROLES[..]),
        (append, &["append", "writer", "migrate"]),
        (insert, &["writer", "migrate"]),
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
    drop_roles(&bench).await;
}

async fn drop_roles(bench: &Bench) {
    let schema = bench.schema.name();
    for role in ROLES {
        bench.sql(&format!("drop owned by {schema}_{role} cascade; drop role {schema}_{role}")).await;
    }
}

#[tokio::test]
async fn users_with_one_role_each_carry_events_from_end_to_end() {
    let bench = Bench::new().await;
    let script = bench.upkeep().await.roles();
    bench.store.pool().execute(AssertSqlSafe(script)).await.unwrap();
    // The roles themselves log in here: whatever they may do, they may do by their own rights.
    let open = async |role: &str| {
        let user = format!("{}_{role}", bench.schema.name());
        bench.sql(&format!("alter role {user} login")).await;
        let url = bench.schema.url().replace("postgres@", &format!("{user}@"));
        Postgres::open(PostgresOptions::new("main", url).schema(bench.schema.name())).await.unwrap()
    };
    let (by_function, by_statement) = (open("append").await, open("writer").await);
    for (n, store) in [&by_function, &by_statement, &by_function, &by_statement].into_iter().enumerate() {
        let mut tx = store.begin().await.unwrap();
        let appended = store.append(&mut tx, &Event::new("order.placed").key(format!("order-{n}"))).await.unwrap();
        tx.commit().await.unwrap();
        appended.wake();
    }
    let transport = ScriptedTransport::new();
    transport.fail_next(1, Failure::permanent("no", "no such address"));
    drain(open("relay").await, RouteDefinition::new("mailer").starting(Start::Beginning), transport.clone())
        .await
        .unwrap();
    assert_eq!((transport.arrivals().len(), transport.delivered_ids().len()), (4, 3));
    assert_eq!(bench.one("select string_agg(state, ',') from postroom.delivery").await, "dead");

    let consumer = open("inbox").await;
    let mut tx = consumer.begin().await.unwrap();
    let id = &transport.delivered_ids()[0];
    assert_eq!(consumer.accept(&mut tx, "mailer", id).await.unwrap(), Acceptance::New);
    tx.commit().await.unwrap();
    assert_eq!(open("viewer").await.upkeep().unwrap().stats().await.unwrap().last_number, 4);
    drop_roles(&bench).await;
}

#[tokio::test]
async fn operators_and_retention_need_no_more_than_the_role_of_relays() {
    let bench = Bench::new().await;
    let script = bench.upkeep().await.roles();
    bench.store.pool().execute(AssertSqlSafe(script)).await.unwrap();
    let user = format!("{}_relay", bench.schema.name());
    bench.sql(&format!("alter role {user} login")).await;
    let clock = ManualClock::default();
    let url = bench.schema.url().replace("postgres@", &format!("{user}@"));
    let with_clock =
        |url: String| PostgresOptions::new("main", url).schema(bench.schema.name()).clock(Arc::new(clock.clone()));
    let (producer, relay) =
        (Postgres::open(with_clock(bench.schema.url())).await.unwrap(), Postgres::open(with_clock(url)).await.unwrap());
    for n in 0..3 {
        let mut tx = producer.begin().await.unwrap();
        let event = Event::new("order.placed").key(format!("order-{n}"));
        producer.append_once(&mut tx, &format!("request-{n}"), &event).await.unwrap().wake();
        assert_eq!(producer.accept(&mut tx, "mailer", &event.id).await.unwrap(), Acceptance::New);
        tx.commit().await.unwrap();
    }
    let desk = relay.desk();
    let route = RouteDefinition::new("mailer").starting(Start::Beginning);
    desk.register(std::slice::from_ref(&route)).await.unwrap();
    let transport = ScriptedTransport::new();
    transport.fail_next(2, Failure::permanent("no", "no such address"));
    drain(relay.clone(), route, transport).await.unwrap();
    assert!(desk.pause("mailer", &ada()).await.unwrap() && desk.resume("mailer", &ada()).await.unwrap());

    clock.advance(Duration::from_hours(24 * 2));
    let day = Some(Duration::from_hours(24));
    let retention = Retention { delivered: day, attempts: day, inbox: day };
    let pruned = desk.prune(&retention, false).await.unwrap();
    assert_eq!((pruned.events, pruned.inbox, pruned.append_keys), (1, 3, 3), "{pruned:?}");
    assert_eq!(bench.one("select count(*) from postroom.evacuated").await, "2");
    let all = Selection::default();
    assert_eq!(desk.dead(&all, 0, 10).await.unwrap().len(), 2);
    let how = ReplayOptions::default();
    let one = Selection { ids: vec![desk.dead(&all, 0, 1).await.unwrap()[0].id.clone()], ..Selection::default() };
    assert_eq!(desk.replay_dead(&one, how, &ada()).await.unwrap().deliveries, 1);
    assert_eq!(desk.discard_dead(&all, false, &ada()).await.unwrap().deliveries, 1);
    assert!(desk.audit().await.unwrap().iter().all(|row| row.differences.is_empty()));
    assert!(desk.store().await.is_ok() && desk.relays().await.is_ok() && desk.routes().await.is_ok());
    clock.advance(Duration::from_hours(1));
    desk.forget("mailer", &ada()).await.unwrap();
    drop_roles(&bench).await;
}

#[tokio::test]
async fn after_a_dump_and_a_restore_on_another_cluster_the_rest_is_delivered() {
    let bench = Bench::new().await;
    let route = RouteDefinition::new("mailer").starting(Start::Beginning);
    let (before, after) = (ScriptedTransport::new(), ScriptedTransport::new());
    bench.append(&Event::new("order.placed").key("order-1")).await;
    // A transaction that the relay reads past, and that has committed when the dump is made.
    let mut open = bench.store.begin().await.unwrap();
    let appended = bench.store.append(&mut open, &Event::new("order.late").key("order-2")).await.unwrap();
    bench.append(&Event::new("order.placed").key("order-3")).await;
    drain(bench.store.clone(), route.clone(), before.clone()).await.unwrap();
    assert_eq!(before.delivered_ids().len(), 2);
    open.commit().await.unwrap();
    appended.wake();
    bench.append(&Event::new("order.placed").key("order-4")).await;

    let other = Cluster::start_with(ClusterOptions { own_identity: true, ..ClusterOptions::default() }).await;
    let mut dump = Command::new(program("pg_dump", "postgresql-client").unwrap());
    let dump = dump.args(["--schema", bench.schema.name(), &bench.schema.url()]).output().unwrap();
    assert!(dump.status.success(), "{}", String::from_utf8_lossy(&dump.stderr));
    let there = || PostgresOptions::new("main", other.url("postgres")).schema(bench.schema.name());
    let unmigrated = Postgres::open_unmigrated(there()).await.unwrap();
    let mut psql = Command::new(program("psql", "postgresql-client").unwrap());
    psql.args(["--quiet", "--set=ON_ERROR_STOP=1", &other.url("postgres")]).stdin(Stdio::piped()).stdout(Stdio::null());
    let mut psql = psql.spawn().unwrap();
    psql.stdin.take().unwrap().write_all(&dump.stdout).unwrap();
    assert!(psql.wait().unwrap().success());

    assert_eq!(Postgres::open(there()).await.err().unwrap().kind, StoreErrorKind::Conflict);
    let done = unmigrated.upkeep().unwrap().accept_identity(false, &ada()).await.unwrap();
    assert_eq!((done.lanes, done.recovered), (1, 1), "{done:?}");
    drain(Postgres::open(there()).await.unwrap(), route, after.clone()).await.unwrap();
    let types: Vec<String> = after.arrivals().iter().map(|arrival| arrival.event.event_type.clone()).collect();
    assert_eq!(types, ["order.late", "order.placed"]);
}
