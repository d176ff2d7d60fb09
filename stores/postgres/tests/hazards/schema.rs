//! Tables of another version, changed tables, and several who make them at once.

use postroom_core::{Store as _, StoreErrorKind};
use postroom_postgres::{PostgresOptions, PostgresStore};
use postroom_testbed::proxy::{Mode, Moment, Trigger};
use postroom_testbed::{Database, FaultProxy, Servers};

use crate::hazards::bench::{Bench, events};

/// H-20
#[tokio::test]
async fn tables_of_another_version_are_refused_with_both_versions_and_the_next_step() {
    let bench = Bench::new().await;
    let version: i64 =
        bench.one("select value from postroom.meta where name = 'schema_version'").await.parse().unwrap();
    bench.sql("update postroom.meta set value = '99' where name = 'schema_version'").await;
    let newer = PostgresStore::open(bench.options.clone()).await.err().unwrap();
    assert_eq!(newer.kind, StoreErrorKind::Schema);
    assert_eq!(newer.message, format!("store schema is at version 99, this build needs {version}"));
    assert_eq!(newer.hint, "run the newer build that made it");
    let schema = bench.store.schema().unwrap();
    assert!(schema.up().await.is_err() && schema.down().await.is_err() && schema.plan().await.is_err());

    let empty = Database::create(&Servers::find()).await;
    let missing = PostgresStore::open(PostgresOptions::new("main", empty.url())).await.err().unwrap();
    assert_eq!(missing.kind, StoreErrorKind::Schema);
    assert!(missing.message.contains("is missing") && missing.message.contains(&format!("version {version}")));
    assert!(missing.hint.contains("postroom store migrate up"), "{}", missing.hint);
}

/// H-21
#[tokio::test]
async fn a_renamed_table_is_refused_at_the_start_and_named_at_run_time() {
    let bench = Bench::new().await;
    bench.append(&events(0, 5)).await;
    let mut worker = bench.worker().await;
    let taken = worker.take(5).await;
    bench.sql("alter table postroom.checkpoint rename to checkpoints").await;
    let error = PostgresStore::open(bench.options.clone()).await.err().unwrap();
    assert_eq!(error.kind, StoreErrorKind::Schema);
    assert!(error.message.contains("checkpoint"), "{}", error.message);
    let error = worker.settle(&taken).await.unwrap_err();
    assert_eq!(error.kind, StoreErrorKind::Schema);
    assert!(error.message.contains("checkpoint"), "{}", error.message);
    bench.sql("alter table postroom.checkpoints rename to checkpoint").await;
    worker.settle(&taken).await.unwrap();
    worker.drain().await;
    assert_eq!(bench.agrees().await, 5);
}

/// H-22
#[tokio::test]
async fn several_migrators_at_once_make_the_tables_once() {
    let database = Database::create(&Servers::find()).await;
    let options = PostgresOptions::new("main", database.url());
    let mut migrators = tokio::task::JoinSet::new();
    for _ in 0..4 {
        let store = PostgresStore::open_unmigrated(options.clone()).await.unwrap();
        migrators.spawn(async move { store.schema().unwrap().up().await.unwrap().len() });
    }
    let applied: usize = migrators.join_all().await.into_iter().sum();
    let store = PostgresStore::open(options).await.unwrap();
    let steps = store.schema().unwrap().status().await.unwrap().steps;
    assert_eq!((applied, steps.iter().all(|step| step.applied)), (steps.len(), true));
}

/// H-22
#[tokio::test]
async fn a_migrator_that_is_cut_off_leaves_nothing_or_everything() {
    for moment in [Moment::Before, Moment::AfterReply] {
        let database = Database::create(&Servers::find()).await;
        let proxy = FaultProxy::to_postgres(Servers::find().port("postgres")).await;
        let cut =
            PostgresStore::open_unmigrated(PostgresOptions::new("main", proxy.url(database.name()))).await.unwrap();
        // As it goes over the wire: the functions of the tables have an `end` of their own.
        proxy.set(Mode::CutAt(Trigger::Bytes(b"Q\0\0\0\x0bcommit\0".to_vec()), moment)).await;
        cut.schema().unwrap().up().await.expect_err("the connection is cut");
        proxy.set(Mode::Pass).await;
        let direct = PostgresStore::open_unmigrated(PostgresOptions::new("main", database.url())).await.unwrap();
        let status = direct.schema().unwrap().status().await.unwrap();
        let there = i64::from(moment == Moment::AfterReply);
        assert_eq!(status.version, there);
        let applied = cut.schema().unwrap().up().await.unwrap().len();
        assert_eq!(i64::try_from(applied).unwrap(), status.needs - there);
        PostgresStore::open(PostgresOptions::new("main", database.url())).await.unwrap();
    }
}
