//! How the tests of a service look.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use example_testing::{mail, place_order};
use postroom::admin::ManagedStore as _;
use postroom::memory::MemoryStore;
use postroom::sqlite::SqliteStore;
use postroom::{Delays, Event, Failure, Outbox, RetryPolicy, Route};
use postroom_testing::{ScriptedTransport, assert_appended, assert_not_appended, drain};

/// What a transaction says before it commits.
#[tokio::test]
async fn a_large_order_is_flagged() {
    let store = MemoryStore::new();
    let mut tx = store.begin();
    place_order(&store, &mut tx, "order-1", 999).await.unwrap();
    assert_not_appended(&tx, "order.flagged");
    place_order(&store, &mut tx, "order-2", 1_000).await.unwrap();
    assert_appended(&tx, "order.flagged", |event| event.ordering_key() == Some("order-2"));
}

#[tokio::test]
async fn an_order_that_is_rolled_back_tells_nobody() {
    let store = MemoryStore::new();
    let mut tx = store.begin();
    place_order(&store, &mut tx, "order-1", 10).await.unwrap();
    tx.rollback();
    assert!(store.events().is_empty());
}

/// What the destination sees: `drain` delivers all there is, retries included, and returns.
#[tokio::test]
async fn a_destination_that_is_busy_once_gets_the_order_again() {
    let store = MemoryStore::new();
    let mut tx = store.begin();
    place_order(&store, &mut tx, "order-1", 10).await.unwrap();
    tx.commit();
    let transport = ScriptedTransport::new();
    transport.fail_next(1, Failure::transient("mail.busy", "try later"));
    let soon = RetryPolicy::default().delays(Delays::Schedule(vec![std::time::Duration::ZERO]));
    drain(store, Route::named("mailer").from_beginning().retry(soon).to(transport.clone())).await.unwrap();
    assert_eq!((transport.arrivals().len(), transport.delivered_ids().len()), (2, 1));
}

/// The handler and the store that are used in production, in a temporary file.
#[tokio::test]
async fn an_order_of_nothing_becomes_a_dead_letter_and_others_go_on() {
    let folder = tempfile::tempdir().unwrap();
    let store = SqliteStore::create(folder.path().join("shop.db")).await.unwrap();
    let mut tx = store.begin().await.unwrap();
    place_order(&store, &mut tx, "order-1", 0).await.unwrap();
    place_order(&store, &mut tx, "order-2", 10).await.unwrap();
    store.append(&mut tx, &Event::new("stock.counted")).await.unwrap();
    tx.commit().await.unwrap();
    drain(store.clone(), Route::named("mailer").matching("order.*").from_beginning().handle(mail)).await.unwrap();
    let status = store.admin().routes().await.unwrap().remove(0).status;
    assert_eq!((status.delivered, status.dead), (1, 1));
}
