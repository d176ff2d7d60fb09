//! With tokio-postgres.

use postroom_adapters::Shop;
use postroom_clients::tokio_postgres as outbox;
use postroom_core::{Acceptance, StoreErrorKind};
use tokio_postgres::{Client, NoTls};

use crate::clients::{event, refused};

pub(crate) async fn connect(shop: &Shop) -> Client {
    let (client, connection) = tokio_postgres::connect(&shop.url(), NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

#[tokio::test]
async fn events_are_there_if_and_only_if_the_order_is() {
    let shop = Shop::open().await;
    let mut client = connect(&shop).await;

    let tx = client.transaction().await.unwrap();
    tx.execute("insert into orders values ('undone', 1)", &[]).await.unwrap();
    let _ = outbox::append(&shop.store, &tx, &event("undone")).await.unwrap();
    tx.rollback().await.unwrap();

    let tx = client.transaction().await.unwrap();
    tx.execute("insert into orders values ('done', 1)", &[]).await.unwrap();
    let one = outbox::append(&shop.store, &tx, &event("1")).await.unwrap();
    let two = outbox::append_many(&shop.store, &tx, &[event("2"), event("3")]).await.unwrap();
    let none = outbox::append_many::<postroom_core::Event>(&shop.store, &tx, &[]).await.unwrap();
    let new = outbox::append_once(&shop.store, &tx, "request-31", &event("4")).await.unwrap();
    let again = outbox::append_once(&shop.store, &tx, "request-31", &event("5")).await.unwrap();
    tx.commit().await.unwrap();

    assert_eq!([one.ids(), two.ids(), none.ids(), new.ids(), again.ids()].concat(), ["1", "2", "3", "4"]);
    assert_eq!(shop.orders().await, ["done"]);
    assert_eq!(shop.taken_ids().await, ["1", "2", "3", "4"]);
}

#[tokio::test]
async fn an_event_is_accepted_once_per_consumer() {
    let shop = Shop::open().await;
    let mut client = connect(&shop).await;
    let tx = client.transaction().await.unwrap();
    assert_eq!(outbox::accept(&shop.store, &tx, "books", "7").await.unwrap(), Acceptance::New);
    tx.rollback().await.unwrap();
    let tx = client.transaction().await.unwrap();
    assert_eq!(outbox::accept(&shop.store, &tx, "books", "7").await.unwrap(), Acceptance::New);
    tx.commit().await.unwrap();
    let tx = client.transaction().await.unwrap();
    assert_eq!(outbox::accept(&shop.store, &tx, "books", "7").await.unwrap(), Acceptance::Duplicate);
    assert_eq!(outbox::accept(&shop.store, &tx, "mail", "7").await.unwrap(), Acceptance::New);
}

#[tokio::test]
async fn errors_say_what_to_do() {
    let shop = Shop::open().await;
    let mut client = connect(&shop).await;
    let tx = client.transaction().await.unwrap();
    let invalid = outbox::append(&shop.store, &tx, &refused()).await.unwrap_err();
    assert_eq!(invalid.kind, StoreErrorKind::Invalid);
    // Nothing was sent: the transaction is as it was.
    tx.execute("set transaction read only", &[]).await.unwrap();
    let refused = outbox::append(&shop.store, &tx, &event("1")).await.unwrap_err();
    assert_eq!((refused.kind, refused.operation), (StoreErrorKind::PermissionDenied, "append"));
}

#[tokio::test]
async fn a_lost_connection_can_be_tried_again() {
    let shop = Shop::open().await;
    let mut client = connect(&shop).await;
    let tx = client.transaction().await.unwrap();
    let ended = tx.execute("select pg_terminate_backend(pg_backend_pid())", &[]).await;
    assert!(ended.is_err());
    let lost = outbox::append(&shop.store, &tx, &event("1")).await.unwrap_err();
    assert_eq!(lost.kind, StoreErrorKind::Unreachable);
}
