//! Every way to append takes its transaction id before it draws a number.
//!
//! Whoever alters the sequence locks it: a producer that waits for a number can be looked at.

use postroom_core::{Event, Outbox as _};
use sqlx::Connection as _;

use crate::position::shop::Shop;

/// Whether a producer that was stopped at its number has an id by then.
async fn has_its_id_at_the_number(shop: &Shop, append: &'static str) -> bool {
    let (mut guard, mut producer) = (shop.session().await, shop.session().await);
    let pid = producer.pid().await;
    guard.run("begin").await.run("alter sequence log_seq owned by none").await;
    let appending = tokio::spawn(async move {
        producer.run("begin").await.run(append).await.run("rollback").await;
    });
    let has = shop.session().await.sees_waiting(pid).await;
    guard.run("rollback").await;
    appending.await.unwrap();
    has
}

#[tokio::test]
async fn every_function_takes_the_id_first() {
    let shop = Shop::open().await;
    for append in [
        "select append('order.changed', 'k')",
        "select append_bytes('order.changed', 'k', '', 'text/plain')",
        "select append_many('[{\"type\": \"order.changed\"}, {\"type\": \"order.changed\"}]')",
        "select append_once('word', 'order.changed', 'k')",
        "select append_ordered('order.changed', 'k')",
        "select append_rows(array['e'], array['t'], array['k'], array[null], array[null], array[null], array[null], array[null], \
         array[null], array[null], array[null], array[1], array[null], array[null], array['1'::bytea])",
    ] {
        assert!(has_its_id_at_the_number(&shop, append).await, "{append}");
    }
}

#[tokio::test]
async fn a_number_drawn_by_hand_comes_without_an_id() {
    let shop = Shop::open().await;
    assert!(!has_its_id_at_the_number(&shop, "select nextval('log_seq')").await);
}

#[tokio::test]
async fn the_librarys_own_statements_take_the_id_first() {
    let shop = Shop::open().await;
    for way in 0..3 {
        let (mut guard, mut producer) = (shop.session().await, shop.session().await);
        let pid = producer.pid().await;
        guard.run("begin").await.run("alter sequence log_seq owned by none").await;
        let store = shop.store.clone();
        let appending = tokio::spawn(async move {
            let event = Event::new("order.changed").key("k");
            let mut tx = producer.conn.begin().await.unwrap();
            let appended = match way {
                0 => store.append(&mut tx, &event).await,
                1 => store.append_many(&mut tx, &[event.clone(), event]).await,
                _ => store.append_once(&mut tx, "word", &event).await,
            };
            drop(appended.unwrap());
            tx.rollback().await.unwrap();
        });
        assert!(shop.session().await.sees_waiting(pid).await, "way {way}");
        guard.run("rollback").await;
        appending.await.unwrap();
    }
}
