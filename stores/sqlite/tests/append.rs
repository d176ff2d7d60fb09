//! Appending in the caller's transaction.

use postroom_core::{Event, Outbox, StoreErrorKind};
use sqlx::sqlite::SqlitePoolOptions;

use crate::common::*;

#[tokio::test]
async fn an_event_comes_back_byte_for_byte() {
    let shop = Shop::open().await;
    let source = shop.all().await;
    let mut event = Event::new("order.placed")
        .id("e-1")
        .key("k")
        .aggregate("order", "7")
        .tenant("acme")
        .bytes("application/octet-stream", vec![0, 159, 146, 150])
        .header("traceparent", "00-a-b-01")
        .attribute("station_id", 9);
    event.correlation_id = Some("c".into());
    event.causation_id = Some("cause".into());
    event.schema_version = 3;
    event.occurred_at = "2026-01-02T03:04:05.000006Z".parse().unwrap();
    event.available_at = Some("2020-01-01T00:00:00Z".parse().unwrap());
    shop.append(std::slice::from_ref(&event)).await;
    assert_eq!(*take(&source).await[0].event, event);
}

#[tokio::test]
async fn a_rolled_back_event_is_never_seen_and_its_number_is_no_loss() {
    let shop = Shop::open().await;
    let source = shop.all().await;
    let mut tx = shop.store.begin().await.unwrap();
    let _ = shop.store.append(&mut tx, &Event::new("t").id("ghost")).await.unwrap();
    tx.rollback().await.unwrap();
    shop.append(&[Event::new("t").id("real")]).await;
    let taken = take(&source).await;
    assert_eq!(ids(&taken), ["real"]);
    settle(&source, &[delivered(&taken[0])]).await;
    shop.verify().await;
}

#[tokio::test]
async fn append_many_is_all_or_none_and_leaves_the_transaction_usable() {
    let shop = Shop::open().await;
    let mut tx = shop.store.begin().await.unwrap();
    let events = [Event::new("t").id("good"), Event::new("")];
    assert_eq!(shop.store.append_many(&mut tx, &events).await.unwrap_err().kind, StoreErrorKind::Invalid);
    let _ = shop.store.append(&mut tx, &Event::new("t").id("after")).await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(shop.number("select count(*) from postroom_log where id = 'after'").await, 1);
    assert_eq!(shop.number("select count(*) from postroom_log").await, 1);
}

#[tokio::test]
async fn append_once_skips_the_second_of_two_committed_calls() {
    let shop = Shop::open().await;
    let once = async |id: &str, commit: bool| {
        let mut tx = shop.store.begin().await.unwrap();
        let appended = shop.store.append_once(&mut tx, "request-1", &Event::new("t").id(id)).await.unwrap();
        if commit {
            tx.commit().await.unwrap();
        } else {
            tx.rollback().await.unwrap();
        }
        appended.ids().len()
    };
    assert_eq!(once("a", false).await, 1);
    assert_eq!(once("b", true).await, 1);
    assert_eq!(once("c", true).await, 0);
    assert_eq!(shop.number("select count(*) from postroom_log").await, 1);
}

#[tokio::test]
async fn a_transaction_that_began_with_a_read_gets_a_clear_error() {
    let shop = Shop::open().await;
    let pool = SqlitePoolOptions::new()
        .connect_with(sqlx::sqlite::SqliteConnectOptions::new().filename(shop.path()))
        .await
        .unwrap();
    let mut tx = pool.begin_with("begin deferred").await.unwrap();
    let _: i64 = sqlx::query_scalar("select count(*) from postroom_log").fetch_one(&mut *tx).await.unwrap();
    shop.append(&[Event::new("t")]).await;
    let error = shop.store.append(&mut tx, &Event::new("t")).await.unwrap_err();
    assert_eq!(error.kind, StoreErrorKind::ReadBeforeWrite);
    assert!(error.hint.contains("begin immediate") && error.hint.contains("store.begin()"));
    // And the same user's own pool works when it begins as a writer.
    tx.rollback().await.unwrap();
    let mut tx = pool.begin_with("begin immediate").await.unwrap();
    let _: i64 = sqlx::query_scalar("select count(*) from postroom_log").fetch_one(&mut *tx).await.unwrap();
    let _ = shop.store.append(&mut tx, &Event::new("t")).await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(shop.number("select count(*) from postroom_log").await, 2);
}

#[tokio::test]
async fn other_languages_append_with_a_plain_insert() {
    let shop = Shop::open().await;
    let source = shop.all().await;
    sqlx::query("insert into postroom_log (type, key, payload) values ('order.placed', 'k', '{\"n\": 1}')")
        .execute(shop.store.pool())
        .await
        .unwrap();
    let taken = take(&source).await;
    assert_eq!(taken[0].event.payload_as::<serde_json::Value>().unwrap()["n"], 1);
    assert_eq!(taken[0].event.id.len(), 32);
}

#[tokio::test]
async fn h07_begin_dropped_a_thousand_times_leaves_every_connection_clean() {
    let shop = Shop::open().await;
    sqlx::query("create table orders (n integer)").execute(shop.store.pool()).await.unwrap();
    let other = SqlitePoolOptions::new()
        .connect_with(sqlx::sqlite::SqliteConnectOptions::new().filename(shop.path()))
        .await
        .unwrap();
    for n in 0..1_000_i64 {
        let mut begin = Box::pin(shop.store.begin());
        let _ = std::future::poll_fn(|cx| std::task::Poll::Ready(begin.as_mut().poll(cx))).await;
        drop(begin);
        if n % 20 == 0 {
            sqlx::query("insert into orders values (?1)").bind(n).execute(shop.store.pool()).await.unwrap();
            let seen: i64 =
                sqlx::query_scalar("select count(*) from orders where n = ?1").bind(n).fetch_one(&other).await.unwrap();
            assert_eq!(seen, 1, "insert {n} reported success and is not there");
        }
    }
}
