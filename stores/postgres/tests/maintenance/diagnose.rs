//! What is found wrong with a server, and the SQL that fixes it.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use postroom_core::{Diagnostic, Event, Level, Outbox as _, Store as _};
use postroom_postgres::{PostgresOptions, PostgresStore};
use postroom_testbed::{Cluster, ClusterOptions, faketime, unique_folder};
use postroom_testing::ManualClock;
use sqlx::{AssertSqlSafe, Connection as _, Executor as _, PgConnection, Row as _};

use crate::maintenance::bench::{Bench, ada, options};

/// What was found under a code.
fn with<'f>(found: &'f [Diagnostic], code: &str) -> Vec<&'f Diagnostic> {
    found.iter().filter(|found| found.code.as_deref() == Some(code)).collect()
}

/// A cluster whose clock goes by what stands in this file.
async fn cluster(shift: &Path) -> Cluster {
    fs::write(shift, "+0").unwrap();
    let mut environment = faketime("+0");
    environment.retain(|(name, _)| name != "FAKETIME");
    environment.push(("FAKETIME_TIMESTAMP_FILE".to_owned(), shift.display().to_string()));
    environment.push(("FAKETIME_NO_CACHE".to_owned(), "1".to_owned()));
    let settings = vec![("max_prepared_transactions".to_owned(), "2".to_owned())];
    Cluster::start_with(ClusterOptions { settings, environment, ..ClusterOptions::default() }).await
}

async fn session(cluster: &Cluster, name: &str, text: &str) -> (PgConnection, String) {
    let url = format!("{}?application_name={name}", cluster.url("postgres"));
    let mut session = PgConnection::connect(&url).await.unwrap();
    session.execute(AssertSqlSafe(text.to_owned())).await.unwrap();
    let pid: i32 = session.fetch_one("select pg_backend_pid()").await.unwrap().get(0);
    (session, pid.to_string())
}

/// H-05, H-18, H-31.
#[tokio::test]
async fn a_pinned_horizon_and_long_writers_are_named_with_the_sql_that_ends_them() {
    let folder = unique_folder("postroom-doctor").unwrap();
    let shift = folder.join("shift");
    let cluster = cluster(&shift).await;
    let store = PostgresStore::open_unmigrated(PostgresOptions::new("main", cluster.url("postgres"))).await.unwrap();
    store.schema().unwrap().up().await.unwrap();
    let maintenance = store.maintenance().unwrap();
    let report = "begin isolation level repeatable read; select 1";
    let (_report, report) = session(&cluster, "report", report).await;
    let (_between, _) = session(&cluster, "between", "select pg_current_xact_id()").await;
    let (_writer, writer) = session(&cluster, "importer", "begin; select pg_current_xact_id()").await;
    let prepare = "begin; select pg_current_xact_id(); prepare transaction 'it''s lost'";
    let (_prepared, _) = session(&cluster, "prepared", prepare).await;

    let found = maintenance.diagnose().await.unwrap();
    assert!(found.iter().all(|found| found.level == Level::Fine), "{found:#?}");

    let gauges = maintenance.gauges().await.unwrap();
    assert!(
        gauges.horizon_age < Duration::from_mins(5) && gauges.horizon_age >= gauges.oldest_writer_age,
        "{gauges:?}"
    );

    fs::write(&shift, "+600").unwrap();
    let gauges = maintenance.gauges().await.unwrap();
    assert!(gauges.oldest_writer_age >= Duration::from_mins(10), "{gauges:?}");
    assert!(gauges.horizon_age >= gauges.oldest_writer_age, "{gauges:?}");
    let found = maintenance.diagnose().await.unwrap();
    let pinned = with(&found, "doctor.horizon_pinned");
    assert_eq!(pinned.len(), 1, "{found:#?}");
    let who = format!("session {report} (postgres, report, idle in transaction) looks back 10 min, ");
    assert!(pinned[0].message.starts_with(&who), "{}", pinned[0].message);
    assert_eq!(pinned[0].fix, Some(format!("select pg_terminate_backend({report});")));
    let writers: Vec<_> =
        with(&found, "doctor.long_writer").iter().map(|w| (w.message.clone(), w.fix.clone())).collect();
    let expected = [
        (
            format!("session {writer} (postgres, importer, idle in transaction) has written and is open for 10 min"),
            Some(format!("select pg_terminate_backend({writer});")),
        ),
        (
            "prepared transaction it's lost (postgres) has written and is open for 10 min".to_owned(),
            Some("rollback prepared 'it''s lost';".to_owned()),
        ),
    ];
    assert_eq!(writers, expected);
    let skew = with(&found, "doctor.clock_skew");
    assert!(skew[0].message.ends_with(" ahead of this machine's"), "{}", skew[0].message);

    // What is printed does what it says.
    let mut doer = PgConnection::connect(&cluster.url("postgres")).await.unwrap();
    for fix in found.iter().filter_map(|found| found.fix.clone()) {
        doer.execute(AssertSqlSafe(fix)).await.unwrap();
    }
    // Ending a session only asks it to end.
    let there = format!("select count(*) from pg_stat_activity where pid in ({report}, {writer})");
    while doer.fetch_one(AssertSqlSafe(there.clone())).await.unwrap().get::<i64, _>(0) > 0 {
        tokio::task::yield_now().await;
    }
    fs::write(&shift, "-600").unwrap();
    let found = maintenance.diagnose().await.unwrap();
    let codes: Vec<_> = found.iter().filter_map(|found| found.code.as_deref()).collect();
    assert_eq!(codes, ["doctor.clock_skew"], "{found:#?}");
    // Who has written and sees nothing at the moment looks back all the same.
    let (_idle, idle) = session(&cluster, "idle", "begin; select pg_current_xact_id()").await;
    let horizon = maintenance.stats().await.unwrap().horizon.expect("somebody looks back");
    assert_eq!(horizon.name, idle, "{horizon:?}");
    fs::remove_dir_all(&folder).unwrap();
}

#[tokio::test]
async fn a_sequence_left_behind_is_a_problem_until_it_is_repaired() {
    let bench = Bench::new().await;
    for n in 0..3 {
        bench.append(&Event::new("order.placed").key(format!("order-{n}"))).await;
    }
    let maintenance = bench.maintenance().await;
    assert_eq!(with(&maintenance.diagnose().await.unwrap(), "doctor.sequence_behind"), Vec::<&Diagnostic>::new());
    bench.sql("select setval('postroom.log_seq', 1)").await;
    let found = maintenance.diagnose().await.unwrap();
    let behind = with(&found, "doctor.sequence_behind");
    assert_eq!(behind[0].message, "the sequence is at 1, but numbers up to 3 were given out");
    assert_eq!(behind[0].fix.as_deref(), Some("postroom store repair --store main"));
    maintenance.repair(false, &ada()).await.unwrap();
    assert_eq!(with(&maintenance.diagnose().await.unwrap(), "doctor.sequence_behind"), Vec::<&Diagnostic>::new());
}

#[tokio::test]
async fn a_role_without_the_rights_of_a_relay_is_told_which_and_the_grants_do() {
    let bench = Bench::new().await;
    let (schema, role) = (bench.schema.name(), format!("{}_doctor", bench.schema.name()));
    bench.sql(&format!("create role {role} login; grant usage on schema {schema} to {role}")).await;
    bench.sql(&format!("grant select on all tables in schema {schema} to {role}")).await;
    let url = bench.schema.url().replace("postgres@", &format!("{role}@"));
    let store = PostgresStore::open(PostgresOptions::new("main", url).schema(schema)).await.unwrap();
    let maintenance = store.maintenance().unwrap();
    let found = maintenance.diagnose().await.unwrap();
    let missing = with(&found, "doctor.rights_missing");
    let partition = |found: &&&Diagnostic| found.fix.as_ref().is_some_and(|fix| fix.starts_with("grant truncate on "));
    let partition = missing.iter().find(partition).unwrap_or_else(|| panic!("{found:#?}"));
    assert!(
        partition.level == Level::Problem && partition.message.contains(&format!("{schema}.log_3")),
        "{partition:?}"
    );
    for missing in missing {
        bench.sql(missing.fix.as_ref().unwrap()).await;
    }
    let found = maintenance.diagnose().await.unwrap();
    assert_eq!(with(&found, "doctor.rights_missing"), Vec::<&Diagnostic>::new());
    bench.sql(&format!("drop owned by {role}; drop role {role}")).await;
}

#[tokio::test]
async fn the_role_of_relays_lacks_nothing() {
    let bench = Bench::new().await;
    let script = bench.maintenance().await.roles();
    bench.store.pool().execute(AssertSqlSafe(script)).await.unwrap();
    let schema = bench.schema.name();
    bench.sql(&format!("alter role {schema}_relay login")).await;
    let url = bench.schema.url().replace("postgres@", &format!("{schema}_relay@"));
    let store = PostgresStore::open(PostgresOptions::new("main", url).schema(schema)).await.unwrap();
    let found = store.maintenance().unwrap().diagnose().await.unwrap();
    assert_eq!(with(&found, "doctor.rights_missing"), Vec::<&Diagnostic>::new());
    assert!(found.iter().any(|found| found.message == "the role has the rights of a relay"));
    bench.drop_roles().await;
}

#[tokio::test]
async fn a_partition_that_takes_events_next_and_was_not_emptied_is_warned_of() {
    let bench = Bench::new().await;
    let clock = ManualClock::default();
    let store = PostgresStore::open(options(&bench.schema).clock(Arc::new(clock.clone()))).await.unwrap();
    let mut tx = store.begin().await.unwrap();
    let _ = store.append(&mut tx, &Event::new("order.placed")).await.unwrap();
    tx.commit().await.unwrap();
    let maintenance = store.maintenance().unwrap();
    let found = maintenance.diagnose().await.unwrap();
    assert_eq!(with(&found, "doctor.partition_not_emptied"), Vec::<&Diagnostic>::new());
    clock.advance(Duration::from_hours(3 * 24));
    let found = maintenance.diagnose().await.unwrap();
    let partition = with(&found, "doctor.partition_not_emptied");
    assert!(partition.len() == 1 && partition[0].message.contains(" still holds 1 of them since "), "{found:#?}");
}

#[tokio::test]
async fn a_database_without_tables_is_diagnosed_as_far_as_it_goes() {
    let bench = Bench::new().await;
    bench.store.schema().unwrap().down().await.unwrap();
    let found = bench.maintenance().await.diagnose().await.unwrap();
    assert!(found[0].message.contains(" is PostgreSQL "), "{found:#?}");
    assert!(!found.iter().any(|found| found.message.contains("sequence")), "{found:#?}");
}
