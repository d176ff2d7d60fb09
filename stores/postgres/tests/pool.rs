//! Stores over a pool of the application's, and transactions whose commit wakes relays.
#![allow(clippy::unwrap_used, reason = "what cannot be opened fails the test")]

use postroom_admin::ManagedStore as _;
use postroom_core::{Event, Inbox, Outbox, StoreErrorKind};
use postroom_postgres::PostgresStore;
use postroom_relay::Route;
use postroom_testbed::{Database, Servers};
use postroom_testing::{ScriptedTransport, drain};
use sqlx::PgPool;
use sqlx::postgres::PgPoolOptions;

async fn pool(database: &Database, connections: u32) -> PgPool {
    PgPoolOptions::new().max_connections(connections).connect(&database.url()).await.unwrap()
}

/// How many sessions of this database there are.
async fn sessions(pool: &PgPool) -> i64 {
    let count =
        "select count(*) from pg_stat_activity where datname = current_database() and backend_type = 'client backend'";
    sqlx::query_scalar(count).fetch_one(pool).await.unwrap()
}

#[tokio::test]
async fn one_connection_of_the_application_is_enough_to_migrate_append_accept_and_look() {
    let database = Database::create(&Servers::find()).await;
    let pool = pool(&database, 1).await;
    let store = PostgresStore::from_pool(pool.clone()).await.unwrap();
    store.migrate().await.unwrap();
    store.migrate().await.unwrap();

    let mut tx = store.begin().await.unwrap();
    sqlx::query("create table orders (id text)").execute(&mut *tx).await.unwrap();
    store.append(&mut tx, &Event::new("order.placed").id("e-1")).await.unwrap();
    assert!(store.accept(&mut tx, "books", "e-0").await.unwrap().is_new());
    tx.commit().await.unwrap();

    let admin = store.admin();
    admin.append(&[Event::new("order.placed").id("e-2")]).await.unwrap();
    assert!(admin.event("e-2", false).await.unwrap().is_some());
    assert_eq!((pool.size(), sessions(&pool).await), (1, 1));
}

#[tokio::test]
async fn a_relay_has_connections_of_its_own_beside_a_pool_that_is_used_up() {
    let database = Database::create(&Servers::find()).await;
    let pool = pool(&database, 1).await;
    let store = PostgresStore::from_pool(pool.clone()).await.unwrap();
    store.migrate().await.unwrap();
    store.admin().append(&[Event::new("order.placed").id("e-1")]).await.unwrap();
    let _taken = pool.acquire().await.unwrap();
    let transport = ScriptedTransport::new();
    drain(store, Route::named("mailer").from_beginning().to(transport.clone())).await.unwrap();
    assert_eq!(transport.delivered_ids(), ["e-1"]);
}

#[tokio::test]
async fn before_the_tables_are_made_an_append_names_the_next_step() {
    let database = Database::create(&Servers::find()).await;
    let store = PostgresStore::from_pool(pool(&database, 2).await).await.unwrap();
    let mut tx = store.begin().await.unwrap();
    let error = store.append(&mut tx, &Event::new("order.placed")).await.unwrap_err();
    assert_eq!(error.kind, StoreErrorKind::Schema);
    assert!(error.hint.contains("migrate()"), "{}", error.hint);
}

#[tokio::test]
async fn a_pool_on_tables_with_other_lanes_appends_into_those_lanes() {
    let database = Database::create(&Servers::find()).await;
    let pool = pool(&database, 4).await;
    let options = postroom_postgres::PostgresOptions::new("main", database.url()).lanes(3);
    PostgresStore::open_unmigrated(options).await.unwrap().migrate().await.unwrap();
    let store = PostgresStore::from_pool(pool.clone()).await.unwrap();
    let events: Vec<Event> = (0..50).map(|n| Event::new("order.placed").key(format!("order-{n}"))).collect();
    store.admin().append(&events).await.unwrap();
    let transport = ScriptedTransport::new();
    drain(store, Route::named("mailer").from_beginning().to(transport.clone())).await.unwrap();
    assert_eq!(transport.delivered_ids().len(), 50);
}

#[tokio::test]
async fn a_commit_wakes_relays_if_something_was_appended_and_only_then() {
    let database = Database::create(&Servers::find()).await;
    let store = PostgresStore::from_pool(pool(&database, 2).await).await.unwrap();
    store.migrate().await.unwrap();
    let hints = store.wake();
    let before = hints.given();

    let mut tx = store.begin().await.unwrap();
    sqlx::query("create table orders (id text)").execute(&mut *tx).await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(hints.given(), before, "nothing was appended");

    let mut tx = store.begin().await.unwrap();
    store.append(&mut tx, &Event::new("order.placed")).await.unwrap();
    assert_eq!(hints.given(), before, "it is not committed yet");
    tx.commit().await.unwrap();
    assert_eq!(hints.given(), before + 1);
}
