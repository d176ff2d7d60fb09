//! Stores over a pool of the application's, and transactions whose commit wakes relays.
#![allow(clippy::unwrap_used, reason = "what cannot be opened fails the test")]

use postroom_admin::ManagedStore as _;
use postroom_core::{Event, Inbox, Outbox, StoreErrorKind};
use postroom_relay::Route;
use postroom_sqlite::SqliteStore;
use postroom_testing::{ScriptedTransport, drain};
use sqlx::SqlitePool;
use sqlx::sqlite::{SqliteConnectOptions, SqlitePoolOptions};

/// A pool of this many connections on a file of its own.
async fn pool(folder: &tempfile::TempDir, connections: u32) -> SqlitePool {
    let file = SqliteConnectOptions::new().filename(folder.path().join("shop.db")).create_if_missing(true);
    SqlitePoolOptions::new().max_connections(connections).connect_with(file).await.unwrap()
}

#[tokio::test]
async fn one_connection_of_the_application_is_enough_to_migrate_append_accept_and_look() {
    let folder = tempfile::tempdir().unwrap();
    let pool = pool(&folder, 1).await;
    let store = SqliteStore::from_pool(pool.clone()).await.unwrap();
    store.migrate().await.unwrap();
    store.migrate().await.unwrap();

    let mut tx = store.begin().await.unwrap();
    sqlx::query("create table orders (id text)").execute(&mut *tx).await.unwrap();
    store.append(&mut tx, &Event::new("order.placed").id("e-1")).await.unwrap();
    assert!(store.accept(&mut tx, "books", "e-0").await.unwrap().is_new());
    tx.commit().await.unwrap();

    let admin = store.admin();
    admin.append(&[Event::new("order.placed").id("e-2")]).await.unwrap();
    assert_eq!(admin.store().await.unwrap().events, Some(2));
    assert_eq!(pool.size(), 1);
}

#[tokio::test]
async fn a_relay_has_connections_of_its_own_beside_a_pool_that_is_used_up() {
    let folder = tempfile::tempdir().unwrap();
    let pool = pool(&folder, 1).await;
    let store = SqliteStore::from_pool(pool.clone()).await.unwrap();
    store.migrate().await.unwrap();
    store.admin().append(&[Event::new("order.placed").id("e-1")]).await.unwrap();
    let _taken = pool.acquire().await.unwrap();
    let transport = ScriptedTransport::new();
    drain(store, Route::named("mailer").from_beginning().to(transport.clone())).await.unwrap();
    assert_eq!(transport.delivered_ids(), ["e-1"]);
}

#[tokio::test]
async fn a_pool_in_memory_is_refused_because_a_relay_would_see_another_database() {
    let pool = SqlitePool::connect(":memory:").await.unwrap();
    let error = SqliteStore::from_pool(pool).await.unwrap_err();
    assert_eq!(error.kind, StoreErrorKind::Invalid, "{error}");
}

#[tokio::test]
async fn a_commit_wakes_relays_if_something_was_appended_and_only_then() {
    let folder = tempfile::tempdir().unwrap();
    let store = SqliteStore::create(folder.path().join("shop.db")).await.unwrap();
    let hints = store.wake();

    let mut tx = store.begin().await.unwrap();
    sqlx::query("create table orders (id text)").execute(&mut *tx).await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(hints.given(), 0, "nothing was appended");

    let mut tx = store.begin().await.unwrap();
    store.append(&mut tx, &Event::new("order.placed")).await.unwrap();
    assert_eq!(hints.given(), 0, "it is not committed yet");
    tx.commit().await.unwrap();
    assert_eq!(hints.given(), 1);

    let mut tx = store.begin().await.unwrap();
    store.append(&mut tx, &Event::new("order.placed")).await.unwrap();
    tx.rollback().await.unwrap();
    let mut tx = store.begin().await.unwrap();
    store.append_once(&mut tx, "request-1", &Event::new("order.placed")).await.unwrap();
    tx.commit().await.unwrap();
    let mut tx = store.begin().await.unwrap();
    store.append_once(&mut tx, "request-1", &Event::new("order.placed")).await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(hints.given(), 2, "a rolled-back and a repeated append wake nobody");
}
