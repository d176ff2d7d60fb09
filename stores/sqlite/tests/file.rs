//! The file and its troubles: what SQLite does differently, and what a disk and its people do to files.
#![allow(clippy::unwrap_used, reason = "helpers are part of the tests")]

use std::time::Duration;

use postroom_admin::ManagedStore as _;
use postroom_core::{Event, Outbox, Retention, Store, StoreErrorKind};
use postroom_sqlite::{SqliteOptions, SqliteStore};
use sqlx::ConnectOptions as _;
use sqlx::sqlite::{SqliteConnectOptions, SqlitePoolOptions};

use crate::common::*;

async fn open(path: &std::path::Path) -> Result<SqliteStore, postroom_core::StoreError> {
    SqliteStore::open(SqliteOptions::new("main", path.to_str().unwrap())).await
}

/// A plain rowid would start at 1 again, below every position: silent loss.
#[tokio::test]
async fn numbers_go_on_after_retention_has_emptied_the_log() {
    let shop = Shop::open().await;
    let source = shop.all().await;
    shop.append_key("k", 1..=5).await;
    let taken = take(&source).await;
    settle(&source, &taken.iter().map(delivered).collect::<Vec<_>>()).await;
    shop.clock.advance(Duration::from_secs(10));
    let keep = Retention { delivered: Some(Duration::from_secs(1)), attempts: None, inbox: None };
    assert_eq!(shop.store.admin().prune(&keep, false).await.unwrap().events, 5);
    assert_eq!(shop.number("select count(*) from postroom_log").await, 0);
    // A route that starts now starts after what is gone, too.
    let late = shop.source("a", &postroom_core::RouteSpec::new("late")).await;
    shop.append_key("k", 6..=6).await;
    let taken = take(&source).await;
    assert_eq!((ids(&taken), taken[0].position), (vec!["k-6"], Some(6)));
    assert_eq!(ids(&take(&late).await), ["k-6"]);
    settle(&source, &[delivered(&taken[0])]).await;
    shop.verify().await;
}

#[tokio::test]
async fn begin_is_a_writer_from_the_start() {
    let shop = Shop::open().await;
    let _tx = shop.store.begin().await.unwrap();
    let connect = SqliteConnectOptions::new().filename(shop.path()).busy_timeout(Duration::ZERO);
    let other = SqlitePoolOptions::new().connect_with(connect).await.unwrap();
    let refused = other.begin_with("begin immediate").await.unwrap_err();
    assert_eq!(refused.as_database_error().unwrap().code().unwrap(), "5", "the lock was not taken");
}

/// H-24: with `synchronous=NORMAL` a power cut loses the last commits in WAL mode.
#[tokio::test]
async fn h24_every_connection_commits_durably_in_wal_mode_and_waits_for_writers() {
    let shop = Shop::open().await;
    assert_eq!(shop.number("pragma synchronous").await, 2, "2 is FULL");
    assert_eq!(shop.number("pragma busy_timeout").await, 5_000);
    assert_eq!(shop.number("pragma journal_size_limit").await, 64 << 20, "a WAL that grew stays large");
    let mode: String = sqlx::query_scalar("pragma journal_mode").fetch_one(shop.store.pool()).await.unwrap();
    assert_eq!(mode, "wal");
}

/// H-25: older libraries can damage a file in WAL mode; `open` refuses them.
#[tokio::test]
async fn h25_the_bundled_library_has_the_wal_reset_fix() {
    let shop = Shop::open().await;
    let version: String = sqlx::query_scalar("select sqlite_version()").fetch_one(shop.store.pool()).await.unwrap();
    let parts: Vec<u32> = version.split('.').map(|part| part.parse().unwrap()).collect();
    assert!(parts >= vec![3, 51, 3], "{version}");
}

#[tokio::test]
async fn h26_a_missing_file_is_named_and_not_created() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("nobody.db");
    let error = open(&path).await.unwrap_err();
    assert_eq!(error.kind, StoreErrorKind::Unreachable);
    assert!(error.message.contains("nobody.db does not exist"), "{error}");
    assert!(!path.exists());
}

#[tokio::test]
async fn h26_what_is_no_database_is_not_a_store() {
    let folder = tempfile::tempdir().unwrap();
    let text = folder.path().join("notes.txt");
    std::fs::write(&text, "dear diary, ".repeat(200)).unwrap();
    assert_eq!(open(&text).await.unwrap_err().kind, StoreErrorKind::UnexpectedSchema);
    assert_eq!(std::fs::read_to_string(&text).unwrap(), "dear diary, ".repeat(200), "the file was changed");
    let error = open(folder.path()).await.unwrap_err();
    assert_eq!(error.kind, StoreErrorKind::UnexpectedSchema);
    assert!(error.message.contains("is a folder"));
    assert_eq!(open(":memory:".as_ref()).await.unwrap_err().kind, StoreErrorKind::Invalid);
    let nowhere = SqliteOptions::new("main", folder.path().join("no/such/folder.db").to_str().unwrap()).create(true);
    assert_eq!(SqliteStore::open_unmigrated(nowhere).await.unwrap_err().kind, StoreErrorKind::Unreachable);
}

#[tokio::test]
async fn h26_a_read_only_file_can_be_looked_at_and_refuses_writes_clearly() {
    let shop = Shop::open().await;
    shop.append_key("k", 1..=2).await;
    let url = format!("sqlite://{}?mode=ro", shop.path().display());
    let store = SqliteStore::open(SqliteOptions::new("main", url)).await.unwrap();
    assert_eq!(store.admin().store().await.unwrap().events, Some(2));
    let error = store.admin().append(&[Event::new("t")]).await.unwrap_err();
    assert_eq!(error.kind, StoreErrorKind::PermissionDenied);
    assert!(error.message.contains("is read-only"), "{error}");
}

#[tokio::test]
async fn h26_a_file_whose_wal_was_deleted_opens_where_it_was_last_folded_in() {
    let shop = Shop::open().await;
    let source = shop.all().await;
    shop.append_key("k", 1..=2).await;
    let taken = take(&source).await;
    settle(&source, &[delivered(&taken[0])]).await;
    sqlx::query("pragma wal_checkpoint(truncate)").fetch_all(shop.store.pool()).await.unwrap();
    shop.append_key("k", 3..=4).await;
    let moved = shop.folder.path().join("moved.db");
    std::fs::copy(shop.path(), &moved).unwrap();
    let store =
        SqliteStore::open(SqliteOptions::new("main", moved.to_str().unwrap()).clock(shop.clock.clone())).await.unwrap();
    shop.clock.advance(LEASE);
    let source = store.source(&relay("b"), &from_beginning("r")).await.unwrap();
    assert_eq!(ids(&take(&source).await), ["k-2"]);
    assert!(store.admin().verify().await.unwrap()[0].differences.is_empty());
}

#[tokio::test]
async fn h26_a_full_file_is_told_as_such_and_works_again_when_there_is_room() {
    let shop = Shop::open().await;
    // SQLite takes a limit below the size that the file has as that size.
    let connect = SqliteConnectOptions::new().filename(shop.path()).pragma("max_page_count", "1");
    let pool = SqlitePoolOptions::new().connect_with(connect).await.unwrap();
    let large = Event::new("t").bytes("text/plain", vec![b'x'; 100_000]);
    let mut tx = pool.begin_with("begin immediate").await.unwrap();
    let error = shop.store.append(&mut tx, &large).await.unwrap_err();
    assert_eq!(error.kind, StoreErrorKind::StorageFull);
    assert!(error.is_transient());
    drop(tx);
    shop.append(&[large]).await;
    assert_eq!(shop.number("select count(*) from postroom_log").await, 1);
}

#[tokio::test]
async fn a_settle_or_take_that_failed_changed_nothing_and_can_be_repeated() {
    let shop = Shop::open().await;
    let source = shop.all().await;
    let break_it =
        "create trigger broken before update on postroom_checkpoint begin select raise(abort, 'broken'); end";
    // One session: another of the pool may not have heard yet that a trigger is gone, and says that it is there.
    let mut session = SqliteConnectOptions::new().filename(shop.path()).connect().await.unwrap();
    shop.append_key("k", 1..=3).await;
    let taken = take(&source).await;
    let verdicts = [delivered(&taken[0]), retry(&taken[1], 1), returned(&taken[2])];
    for _ in 0..2 {
        sqlx::query(break_it).execute(&mut session).await.unwrap();
        source.settle(&verdicts).await.unwrap_err();
        assert_eq!(shop.number("select count(*) from postroom_delivery").await, 0);
        sqlx::query("drop trigger broken").execute(&mut session).await.unwrap();
        assert!(take(&source).await.is_empty(), "handed out while still in the engine's hands");
    }
    settle(&source, &verdicts).await;
    shop.append_key("k", 4..=4).await;
    shop.append_key("other", 1..=1).await;
    sqlx::query(break_it).execute(&mut session).await.unwrap();
    source.take(ALL).await.unwrap_err();
    sqlx::query("drop trigger broken").execute(&mut session).await.unwrap();
    assert_eq!(ids(&take(&source).await), ["other-1"]);
    shop.clock.advance(Duration::from_secs(1));
    let head = take(&source).await;
    settle(&source, &[delivered(&head[0])]).await;
    assert_eq!(ids(&take(&source).await), ["k-3", "k-4"]);
    shop.verify().await;
}

#[tokio::test]
async fn after_a_full_disk_callers_can_begin_again() {
    let shop = Shop::open().await;
    let mut tx = shop.store.begin().await.unwrap();
    sqlx::query("pragma max_page_count = 1").execute(&mut *tx).await.unwrap();
    let large = Event::new("t").bytes("text/plain", vec![b'1'; 200_000]);
    let full = shop.store.append(&mut tx, &large).await.unwrap_err();
    assert_eq!(full.kind, StoreErrorKind::StorageFull);
    drop(tx);
    for _ in 0..3 {
        let mut tx = shop.store.begin().await.expect("the connection is of no use any more");
        sqlx::query("pragma max_page_count = 1000000").execute(&mut *tx).await.unwrap();
        let appended = shop.store.append(&mut tx, &Event::new("t")).await.unwrap();
        tx.commit().await.unwrap();
        appended.wake();
    }
    assert_eq!(shop.number("select count(*) from postroom_log").await, 3);
}

/// H-26: a relay must not go on with a file that nobody else sees any more.
#[tokio::test]
async fn h26_a_file_replaced_while_it_is_open_is_noticed() {
    let shop = Shop::open().await;
    let source = shop.all().await;
    source.take(ALL).await.unwrap();
    std::fs::rename(shop.path(), shop.folder.path().join("moved.db")).unwrap();
    std::fs::write(shop.path(), b"").unwrap();
    let error = source.take(ALL).await.unwrap_err();
    assert_eq!(error.kind, StoreErrorKind::Unreachable);
    assert!(error.to_string().ends_with("was deleted or replaced while it was open"), "{error}");
    assert!(source.renew(&postroom_core::RouteHealth::running()).await.is_err());
}

#[tokio::test]
async fn parameters_nobody_knows_are_refused_and_make_no_file() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite://{}?mode=rwc", folder.path().join("shop.db").display());
    let error = SqliteStore::open_unmigrated(SqliteOptions::new("main", url).create(true)).await.err().unwrap();
    assert_eq!(error.kind, StoreErrorKind::Invalid);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[tokio::test]
async fn the_plan_of_a_file_that_is_not_there_makes_it_whole() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("shop.db");
    let options = || SqliteOptions::new("main", path.to_str().unwrap());
    let plan = SqliteStore::plan(options()).await.unwrap();
    assert!(!path.exists(), "a plan makes nothing");
    let empty = SqliteStore::open_unmigrated(options().create(true)).await.unwrap();
    sqlx::raw_sql(sqlx::AssertSqlSafe(plan)).execute(empty.pool()).await.unwrap();
    SqliteStore::open(options()).await.unwrap();
    assert_eq!(SqliteStore::plan(options()).await.unwrap(), "");
}

#[tokio::test]
async fn a_file_is_diagnosed_and_what_keeps_a_relay_from_it_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("shop.db");
    let found = SqliteStore::create(&path).await.unwrap().diagnose().await.unwrap();
    assert!(found.iter().all(|found| found.code.is_none()), "{found:?}");
    assert!(found[0].message.contains("is read by SQLite 3."), "{found:?}");
    let slow = SqliteConnectOptions::new().filename(&path).journal_mode(sqlx::sqlite::SqliteJournalMode::Delete);
    // The store's connections close behind it, and nobody else may be there for this.
    let until = std::time::Instant::now() + Duration::from_mins(5);
    let pool = loop {
        match SqlitePoolOptions::new().connect_with(slow.clone()).await {
            Ok(pool) => break pool,
            Err(error) => assert!(std::time::Instant::now() < until, "{error}"),
        }
    };
    pool.close().await;
    let read_only = SqliteOptions::new("main", format!("sqlite://{}?mode=ro", path.display()));
    let found = SqliteStore::open(read_only).await.unwrap().diagnose().await.unwrap();
    let codes: Vec<_> = found.iter().filter_map(|found| found.code.as_deref()).collect();
    assert_eq!(codes, ["doctor.journal_mode", "doctor.read_only"]);
}

/// Looking never takes long: whoever asks too much is told so, and relays go on.
#[tokio::test]
async fn a_question_that_takes_too_long_is_cut_off_for_admin_connections() {
    let shop = Shop::open().await;
    let endless = "create view postroom_token as with recursive n(name) as (select 1 union all select name + 1 from n) \
         select name, '' as role, '' as hash, 0 as created_at, '' as created_by, null as expires_at, '[]' as routes, \
         null as tenant, null as last_used_at, null as revoked_at, null as previous_hash, null as previous_until \
         from n where name < 0";
    for statement in ["drop table postroom_token", endless] {
        sqlx::query(statement).execute(shop.store.pool()).await.unwrap();
    }
    let options = SqliteOptions::new("main", shop.path().to_str().unwrap()).for_admin();
    let store = SqliteStore::open(options).await.unwrap();
    let error = store.admin().tokens().await.unwrap_err();
    assert_eq!(error.kind, StoreErrorKind::Busy, "{error}");
    store.admin().routes().await.unwrap();
}
