//! The tables: made, checked, undone.
#![allow(clippy::unwrap_used, reason = "helpers are part of the tests")]

use postroom_admin::ManagedStore as _;
use postroom_core::{Event, Outbox, SchemaStep, Store, StoreErrorKind};
use postroom_sqlite::{SqliteOptions, SqliteStore};

use crate::common::*;

fn options(folder: &tempfile::TempDir) -> SqliteOptions {
    SqliteOptions::new("main", format!("sqlite://{}", folder.path().join("shop.db").display())).create(true)
}

#[tokio::test]
async fn a_store_without_tables_says_how_to_make_them() {
    let folder = tempfile::tempdir().unwrap();
    let error = SqliteStore::open(options(&folder)).await.unwrap_err();
    assert_eq!(error.kind, StoreErrorKind::Schema);
    assert!(error.message.starts_with("store schema is missing"), "{error}");
    assert_eq!(error.hint, "run `postroom store migrate up`");
}

#[tokio::test]
async fn an_older_and_a_newer_schema_are_told_with_both_versions() {
    let shop = Shop::open().await;
    for (version, hint) in [(-1, "migrate up"), (99, "newer build")] {
        sqlx::query("update postroom_meta set value = ?1 where name = 'schema_version'")
            .bind(version)
            .execute(shop.store.pool())
            .await
            .unwrap();
        let error = SqliteStore::open(SqliteOptions::new("main", shop.path().to_str().unwrap())).await.unwrap_err();
        assert_eq!(error.kind, StoreErrorKind::Schema);
        assert_eq!(error.message, format!("store schema is at version {version}, this build needs 2"));
        assert!(error.hint.contains(hint), "{}", error.hint);
    }
    let error = shop.store.schema().unwrap().down().await.unwrap_err();
    assert_eq!(error.kind, StoreErrorKind::Schema);
}

#[tokio::test]
async fn up_down_and_up_again_leave_a_store_that_works_and_nothing_behind_in_between() {
    let folder = tempfile::tempdir().unwrap();
    let store = SqliteStore::open_unmigrated(options(&folder)).await.unwrap();
    let schema = store.schema().unwrap();
    sqlx::query("create table orders (n integer)").execute(store.pool()).await.unwrap();
    let status = schema.status().await.unwrap();
    assert_eq!((status.version, status.needs, status.steps[0].applied), (0, 2, false));
    let versions = |steps: Vec<SchemaStep>| steps.into_iter().map(|step| step.version).collect::<Vec<_>>();
    assert_eq!(versions(schema.up().await.unwrap()), [1, 2]);
    assert!(schema.up().await.unwrap().is_empty());
    assert!(schema.plan().await.unwrap().is_empty());
    assert_eq!(versions(schema.down().await.unwrap()), [2]);
    assert_eq!(schema.status().await.unwrap().version, 1);
    assert_eq!(versions(schema.up().await.unwrap()), [2], "a file of before is brought up to date");
    for version in [2, 1] {
        assert_eq!(versions(schema.down().await.unwrap()), [version]);
    }
    assert!(schema.down().await.unwrap().is_empty());
    let left: Vec<String> = sqlx::query_scalar("select name from sqlite_schema").fetch_all(store.pool()).await.unwrap();
    assert_eq!(left.iter().filter(|name| name.starts_with("postroom")).count(), 0, "{left:?}");
    assert!(left.contains(&"orders".to_owned()), "the user's table is gone");
    schema.up().await.unwrap();
    assert_eq!(store.admin().append(&[Event::new("t")]).await.unwrap().len(), 1);
}

#[tokio::test]
async fn the_plan_can_be_applied_by_hand() {
    let folder = tempfile::tempdir().unwrap();
    let store = SqliteStore::open_unmigrated(options(&folder)).await.unwrap();
    let plan = store.schema().unwrap().plan().await.unwrap();
    sqlx::raw_sql(sqlx::AssertSqlSafe(plan)).execute(store.pool()).await.unwrap();
    let store = SqliteStore::open(options(&folder)).await.unwrap();
    assert_eq!(store.schema().unwrap().status().await.unwrap().version, 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn two_migrators_at_once_make_the_tables_once() {
    let folder = tempfile::tempdir().unwrap();
    let mut migrators = Vec::new();
    for _ in 0..8 {
        let store = SqliteStore::open_unmigrated(options(&folder)).await.unwrap();
        migrators.push(tokio::spawn(async move { store.schema().unwrap().up().await.unwrap().len() }));
    }
    let mut applied = 0;
    for migrator in migrators {
        applied += migrator.await.unwrap();
    }
    assert_eq!(applied, 2);
}

#[tokio::test]
async fn create_makes_a_store_that_works_and_opens_it_again() {
    let folder = tempfile::tempdir().unwrap();
    for _ in 0..2 {
        let store = SqliteStore::create(folder.path().join("shop.db")).await.unwrap();
        let mut tx = store.begin().await.unwrap();
        let appended = store.append(&mut tx, &Event::new("t")).await.unwrap();
        tx.commit().await.unwrap();
        appended.wake();
    }
    let store = SqliteStore::create(folder.path().join("shop.db")).await.unwrap();
    assert_eq!(store.admin().store().await.unwrap().events, Some(2));
}
