//! With diesel-async.

use diesel::sql_query;
use diesel_async::{AsyncConnection, AsyncPgConnection, RunQueryDsl};
use postroom_adapters::Shop;
use postroom_clients::diesel_async as outbox;
use postroom_core::{Acceptance, StoreErrorKind};

use crate::clients::{event, refused};

/// What a transaction of diesel's may end with.
type Failed = Box<dyn std::error::Error + Send + Sync>;

pub(crate) async fn connect(shop: &Shop) -> AsyncPgConnection {
    AsyncPgConnection::establish(&shop.url()).await.unwrap()
}

#[tokio::test]
async fn events_are_there_if_and_only_if_the_order_is() {
    let shop = Shop::open().await;
    let (store, mut connection) = (&shop.store, connect(&shop).await);

    let undone = connection.transaction::<(), Failed, _>(async |tx| {
        sql_query("insert into orders values ('undone', 1)").execute(tx).await?;
        outbox::append(store, tx, &event("undone")).await?.wake();
        Err("the shop is closed".into())
    });
    assert!(undone.await.is_err());

    let done = connection.transaction::<_, Failed, _>(async |tx| {
        sql_query("insert into orders values ('done', 1)").execute(tx).await?;
        Ok([
            outbox::append(store, tx, &event("1")).await?,
            outbox::append_many(store, tx, &[event("2"), event("3")]).await?,
            outbox::append_many::<postroom_core::Event>(store, tx, &[]).await?,
            outbox::append_once(store, tx, "request-31", &event("4")).await?,
            outbox::append_once(store, tx, "request-31", &event("5")).await?,
        ])
    });
    let ids: Vec<_> = done.await.unwrap().iter().flat_map(|appended| appended.ids().to_vec()).collect();

    assert_eq!(ids, ["1", "2", "3", "4"]);
    assert_eq!(shop.orders().await, ["done"]);
    assert_eq!(shop.taken_ids().await, ["1", "2", "3", "4"]);
}

#[tokio::test]
async fn an_event_is_accepted_once_per_consumer() {
    let shop = Shop::open().await;
    let (store, mut connection) = (&shop.store, connect(&shop).await);
    let undone = connection.transaction::<(), Failed, _>(async |tx| {
        assert_eq!(outbox::accept(store, tx, "books", "7").await?, Acceptance::New);
        Err("the shop is closed".into())
    });
    assert!(undone.await.is_err());
    for expected in [Acceptance::New, Acceptance::Duplicate] {
        let accepted =
            connection.transaction::<_, Failed, _>(async |tx| Ok(outbox::accept(store, tx, "books", "7").await?)).await;
        assert_eq!(accepted.unwrap(), expected);
    }
}

#[tokio::test]
async fn errors_say_what_to_do() {
    let shop = Shop::open().await;
    let (store, mut connection) = (&shop.store, connect(&shop).await);
    let done = connection.transaction::<(), Failed, _>(async |tx| {
        let invalid = outbox::append(store, tx, &refused()).await.unwrap_err();
        assert_eq!(invalid.kind, StoreErrorKind::Invalid);
        // Nothing was sent: the transaction is as it was.
        sql_query("set transaction read only").execute(tx).await?;
        let refused = outbox::append(store, tx, &event("1")).await.unwrap_err();
        assert_eq!((refused.kind, refused.operation), (StoreErrorKind::PermissionDenied, "append"));
        Err("enough".into())
    });
    assert_eq!(done.await.unwrap_err().to_string(), "enough");
}

#[tokio::test]
async fn nothing_is_appended_or_accepted_outside_of_a_transaction() {
    let shop = Shop::open().await;
    let mut connection = connect(&shop).await;
    let appended = outbox::append(&shop.store, &mut connection, &event("1")).await.unwrap_err();
    let accepted = outbox::accept(&shop.store, &mut connection, "books", "7").await.unwrap_err();
    assert_eq!([appended.kind, accepted.kind], [StoreErrorKind::Invalid; 2]);
    assert_eq!(shop.taken_ids().await, [""; 0]);
}

#[tokio::test]
async fn a_lost_connection_can_be_tried_again() {
    let shop = Shop::open().await;
    let (store, mut connection) = (&shop.store, connect(&shop).await);
    let done = connection.transaction::<(), Failed, _>(async |tx| {
        assert!(sql_query("select pg_terminate_backend(pg_backend_pid())").execute(tx).await.is_err());
        let lost = outbox::append(store, tx, &event("1")).await.unwrap_err();
        assert_eq!(lost.kind, StoreErrorKind::Unreachable);
        Ok(())
    });
    assert!(done.await.is_err());
}
