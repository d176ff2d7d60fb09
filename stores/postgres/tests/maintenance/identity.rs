//! After a restore: a sequence that is behind, another cluster, another timeline.

use std::io::Write;
use std::process::{Command, Stdio};
use std::time::Duration;

use postroom_admin::ManagedStore as _;
use postroom_core::{Event, Filter, Outbox, RelayIdentity, RouteSpec, StartFrom, Store, StoreErrorKind, Timestamp};
use postroom_postgres::{PostgresOptions, PostgresStore};
use postroom_relay::Route;
use postroom_testbed::{Cluster, ClusterOptions, Database, Servers, program};
use postroom_testing::{ScriptedTransport, drain};
use sqlx::{AssertSqlSafe, Executor};

use crate::maintenance::bench::{Bench, ada, options};

/// Who holds the lane, under which term, and how many checkpoints there are.
const LANE: &str =
    "select format('%s/%s/%s', holder, term, (select count(*) from postroom.checkpoint)) from postroom.lane";

#[tokio::test]
async fn a_sequence_that_is_behind_is_repaired_once_and_audited() {
    let bench = Bench::new().await;
    for _ in 0..5 {
        bench.append(&Event::new("order.placed").key("order-7")).await;
    }
    let maintenance = bench.maintenance().await;
    assert!(!maintenance.repair(false, &ada()).await.unwrap().repaired, "nothing is wrong yet");
    bench.sql("select setval('postroom.log_seq', 2)").await;
    let would = maintenance.repair(true, &ada()).await.unwrap();
    assert_eq!((would.last_number, would.greatest, would.repaired), (2, 5, true));
    assert_eq!(bench.one("select last_value from postroom.log_seq").await, "2");
    assert!(maintenance.repair(false, &ada()).await.unwrap().repaired);
    assert!(!maintenance.repair(false, &ada()).await.unwrap().repaired);
    bench.append(&Event::new("order.placed").key("order-7")).await;
    assert_eq!(bench.one("select max(seq) from postroom.log").await, "6");
    let audited = "select string_agg(concat_ws(' ', actor, action, subject, reason), ';') from postroom.audit";
    assert_eq!(bench.one(audited).await, "ada store.repair sequence from 2 to 5 moved");
}

#[tokio::test]
async fn a_repair_takes_nothing_back_that_was_repaired_while_it_waited() {
    let bench = Bench::new().await;
    for _ in 0..5 {
        bench.append(&Event::new("order.placed").key("order-7")).await;
    }
    bench.sql("select setval('postroom.log_seq', 2)").await;
    // A writer that is open keeps the repair waiting.
    let mut open = bench.store.begin().await.unwrap();
    open.execute(bench.here("lock table postroom.log in row exclusive mode")).await.unwrap();
    let (maintenance, actor) = (bench.maintenance().await, ada());
    let repair = tokio::spawn(async move { maintenance.repair(false, &actor).await.unwrap() });
    let waits = "select exists (select from pg_locks where relation = 'postroom.log'::regclass and not granted)";
    while bench.one(waits).await != "true" {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    bench.sql("select setval('postroom.log_seq', 9)").await;
    open.rollback().await.unwrap();
    assert!(!repair.await.unwrap().repaired);
    assert_eq!(bench.one("select last_value from postroom.log_seq").await, "9");
}

/// A route whose lane had passed number 6 when the backup was made; three of those transactions were still open.
async fn restored(bench: &Bench) {
    let relay = RelayIdentity {
        name: "r".to_owned(),
        boot: "b".to_owned(),
        version: "1".to_owned(),
        lease: Duration::from_secs(30),
    };
    let route = RouteSpec {
        filter: Filter::types(["order.*"]).unwrap(),
        ..RouteSpec::new("mailer").start_from(StartFrom::Beginning)
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
    let refused = PostgresStore::open(options(&bench.schema)).await.err().unwrap();
    assert_eq!(refused.kind, StoreErrorKind::Conflict);
    assert!(refused.hint.contains("postroom store accept-identity"), "{}", refused.hint);

    let maintenance = bench.maintenance().await;
    let would = maintenance.accept_identity(true, &ada()).await.unwrap();
    assert_eq!(bench.one(LANE).await, "b/0/2");
    assert_eq!(bench.one("select last_value from postroom.log_seq").await, "1");

    let done = maintenance.accept_identity(false, &ada()).await.unwrap();
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

    PostgresStore::open(options(&bench.schema)).await.unwrap();
    let again = maintenance.accept_identity(false, &ada()).await.unwrap();
    assert_eq!((again.accepted, again.lanes), (false, 0));
}

#[tokio::test]
async fn another_timeline_alone_is_noted_without_taking_lanes() {
    let bench = Bench::new().await;
    bench.sql("update postroom.meta set value = '99' where name = 'timeline'").await;
    let done = bench.maintenance().await.accept_identity(false, &ada()).await.unwrap();
    assert!(done.accepted && !done.other_cluster && done.from.ends_with("/99"), "{done:?}");
    assert_eq!((done.lanes, done.recovered), (0, 0));
    assert_ne!(bench.one("select value from postroom.meta where name = 'timeline'").await, "99");
}

#[tokio::test]
async fn after_a_dump_and_a_restore_on_another_cluster_the_rest_is_delivered() {
    let bench = Bench::new().await;
    let route = RouteSpec::new("mailer").start_from(StartFrom::Beginning);
    let (before, after) = (ScriptedTransport::new(), ScriptedTransport::new());
    bench.sql("select setval('postroom.log_seq', 1000)").await;
    bench.append(&Event::new("order.placed").key("order-1")).await;
    // A transaction that the relay reads past, and that has committed when the dump is made.
    let mut open = bench.store.begin().await.unwrap();
    let appended = bench.store.append(&mut open, &Event::new("order.late").key("order-2")).await.unwrap();
    bench.append(&Event::new("order.placed").key("order-3")).await;
    drain(bench.store.clone(), Route::from_spec(route.clone()).to(before.clone())).await.unwrap();
    assert_eq!(before.delivered_ids().len(), 2);
    open.commit().await.unwrap();
    appended.wake();
    bench.append(&Event::new("order.placed").key("order-4")).await;

    let other = Cluster::start_with(ClusterOptions { own_identity: true, ..ClusterOptions::default() }).await;
    let mut dump = Command::new(program("pg_dump", "postgresql-client").unwrap());
    let dump = dump.args(["--schema", bench.schema.name(), &bench.schema.url()]).output().unwrap();
    assert!(dump.status.success(), "{}", String::from_utf8_lossy(&dump.stderr));
    let there = || PostgresOptions::new("main", other.url("postgres")).schema(bench.schema.name());
    let unmigrated = PostgresStore::open_unmigrated(there()).await.unwrap();
    let mut psql = Command::new(program("psql", "postgresql-client").unwrap());
    psql.args(["--quiet", "--set=ON_ERROR_STOP=1", &other.url("postgres")]).stdin(Stdio::piped()).stdout(Stdio::null());
    let mut psql = psql.spawn().unwrap();
    psql.stdin.take().unwrap().write_all(&dump.stdout).unwrap();
    assert!(psql.wait().unwrap().success());

    assert_eq!(PostgresStore::open(there()).await.err().unwrap().kind, StoreErrorKind::Conflict);
    // Logical replication brings no sequences, and the application goes on at once.
    let cut_over = "select setval('postroom.log_seq', 1), setval('postroom.checkpoint_id_seq', 1, false);
                    select postroom.append('order.after', 'order-' || n) from generate_series(4, 5) n";
    unmigrated.pool().execute(bench.here(cut_over)).await.unwrap();
    let done = unmigrated.maintenance().unwrap().accept_identity(false, &ada()).await.unwrap();
    assert_eq!((done.lanes, done.recovered), (1, 1), "{done:?}");
    assert_eq!((done.passed.renumbered, done.sequence.identities), (2, 1), "{done:?}");
    let store = PostgresStore::open(there()).await.unwrap();
    drain(store.clone(), Route::from_spec(route).to(after.clone())).await.unwrap();
    let types: Vec<String> = after.arrivals().iter().map(|arrival| arrival.event.event_type.clone()).collect();
    assert_eq!(types, ["order.late", "order.placed", "order.after", "order.after"]);
    assert!(store.admin().verify().await.unwrap().iter().all(|row| row.differences.is_empty()));
}

#[tokio::test]
async fn a_copy_made_as_a_template_in_the_same_cluster_is_refused_until_it_is_accepted() {
    let servers = Servers::find();
    let original = Database::create(&servers).await;
    let there = |database: &str| PostgresOptions::new("main", servers.postgres_url(database)).lanes(1).partitions(4);
    let unmigrated = PostgresStore::open_unmigrated(there(original.name())).await.unwrap();
    unmigrated.schema().unwrap().up().await.unwrap();
    drop(unmigrated);
    let copy = format!("{}_copy", original.name());
    let admin = sqlx::PgPool::connect(&servers.postgres_url("postgres")).await.unwrap();
    let others =
        format!("select pg_terminate_backend(pid) from pg_stat_activity where datname = '{}'", original.name());
    admin.execute(AssertSqlSafe(others)).await.unwrap();
    let create = format!("create database {copy} template {}", original.name());
    admin.execute(AssertSqlSafe(create)).await.unwrap();

    PostgresStore::open(there(original.name())).await.unwrap();
    let refused = PostgresStore::open(there(&copy)).await.err().unwrap();
    assert_eq!(refused.kind, StoreErrorKind::Conflict);
    assert!(refused.message.contains("another database of this cluster"), "{refused}");
    let unmigrated = PostgresStore::open_unmigrated(there(&copy)).await.unwrap();
    let done = unmigrated.maintenance().unwrap().accept_identity(false, &ada()).await.unwrap();
    assert!(done.accepted && done.other_cluster && done.from != done.to, "{done:?}");
    let accepted = PostgresStore::open(there(&copy)).await.unwrap();
    // Without the note nobody can tell a copy: that is said, and is not taken for one.
    accepted.pool().execute("delete from postroom.meta where name = 'database'").await.unwrap();
    let changed = PostgresStore::open(there(&copy)).await.err().unwrap();
    assert_eq!(changed.kind, StoreErrorKind::Schema);
    assert!(changed.message.contains("meta has no row database"), "{changed}");
    drop((accepted, unmigrated));
    admin.execute(AssertSqlSafe(format!("drop database {copy} with (force)"))).await.unwrap();
}

#[tokio::test]
async fn a_copy_of_the_files_at_another_address_is_warned_of_and_one_statement_has_it_refused() {
    let original = Cluster::start(&[]).await;
    let there = |cluster: &Cluster| PostgresOptions::new("main", cluster.url("postgres")).lanes(1).partitions(4);
    PostgresStore::open_unmigrated(there(&original)).await.unwrap().schema().unwrap().up().await.unwrap();
    let copy = Cluster::standby_of(&original, &[]).await;
    copy.stop_fast().await;
    std::fs::remove_file(copy.data().join("standby.signal")).unwrap();
    copy.start_again().await;

    let warned = async |cluster: &Cluster| {
        let store = PostgresStore::open(there(cluster)).await.unwrap();
        let found = store.maintenance().unwrap().diagnose().await.unwrap();
        found.into_iter().find(|found| found.code.as_deref() == Some("doctor.server_changed"))
    };
    assert_eq!(warned(&original).await, None);
    let found = warned(&copy).await.unwrap();
    assert!(found.message.contains(&format!(":{}", copy.port())), "{}", found.message);

    let store = PostgresStore::open(there(&copy)).await.unwrap();
    let done = store.maintenance().unwrap().accept_identity(false, &ada()).await.unwrap();
    assert!(done.accepted && !done.other_cluster && done.lanes == 0, "{done:?}");
    assert_eq!(warned(&copy).await, None, "whoever moved it says so once");

    // What the page says to do with a copy before anything is started on it.
    let copied = "update postroom.meta set value = 'copy' where name = 'system_identifier'";
    store.pool().execute(copied).await.unwrap();
    assert_eq!(PostgresStore::open(there(&copy)).await.err().unwrap().kind, StoreErrorKind::Conflict);
    PostgresStore::open(there(&original)).await.unwrap();
}
