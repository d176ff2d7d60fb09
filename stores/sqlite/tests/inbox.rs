//! Accepting once per consumer, in the transaction of the effect.
#![allow(clippy::unwrap_used, reason = "helpers are part of the tests")]

use postroom_admin::ManagedStore as _;
use postroom_core::{Acceptance, Inbox, StoreErrorKind};

use crate::common::*;

async fn effect_table(shop: &Shop) {
    sqlx::query("create table effect (id text)").execute(shop.store.pool()).await.unwrap();
}

/// H-77: the same event many times at once.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn h77_of_32_parallel_accepts_of_one_event_exactly_one_is_new() {
    let shop = Shop::open().await;
    effect_table(&shop).await;
    let mut consumers = Vec::new();
    for _ in 0..32 {
        let store = shop.store.clone();
        consumers.push(tokio::spawn(async move {
            let mut new = 0;
            for n in 0..20 {
                let mut tx = store.begin().await.unwrap();
                let id = format!("e-{n}");
                if store.accept(&mut tx, "mailer", &id).await.unwrap().is_new() {
                    sqlx::query("insert into effect values (?1)").bind(&id).execute(&mut *tx).await.unwrap();
                    new += 1;
                }
                tx.commit().await.unwrap();
            }
            new
        }));
    }
    let mut new = 0;
    for consumer in consumers {
        new += consumer.await.unwrap();
    }
    assert_eq!(new, 20);
    assert_eq!(shop.number("select count(*) from effect").await, 20);
    assert_eq!(shop.number("select count(distinct id) from effect").await, 20);
}

/// H-78: the acceptance committed, the acknowledgement was lost, the event comes again.
#[tokio::test]
async fn h78_an_event_accepted_and_committed_before_is_a_duplicate_and_a_rolled_back_one_is_new() {
    let shop = Shop::open().await;
    for (commit, expected) in [(false, Acceptance::New), (true, Acceptance::New), (true, Acceptance::Duplicate)] {
        let mut tx = shop.store.begin().await.unwrap();
        assert_eq!(shop.store.accept(&mut tx, "mailer", "e-1").await.unwrap(), expected);
        if commit {
            tx.commit().await.unwrap();
        } else {
            tx.rollback().await.unwrap();
        }
    }
    let mut tx = shop.store.begin().await.unwrap();
    assert!(shop.store.accept(&mut tx, "other", "e-1").await.unwrap().is_new(), "consumers share nothing");
    tx.commit().await.unwrap();
    let rows = shop.store.admin().inbox(None, Some("e-1"), None, 9).await.unwrap();
    assert_eq!(rows.iter().map(|r| r.consumer.as_str()).collect::<Vec<_>>(), ["mailer", "other"]);
    assert_eq!(shop.store.admin().inbox(Some("other"), None, None, 9).await.unwrap().len(), 1);
}

/// H-83: a duplicate must not abort the transaction around it.
#[tokio::test]
async fn h83_a_duplicate_leaves_the_wider_transaction_usable() {
    let shop = Shop::open().await;
    effect_table(&shop).await;
    let mut tx = shop.store.begin().await.unwrap();
    sqlx::query("insert into effect values ('before')").execute(&mut *tx).await.unwrap();
    let _ = shop.store.accept(&mut tx, "mailer", "e-1").await.unwrap();
    assert_eq!(shop.store.accept(&mut tx, "mailer", "e-1").await.unwrap(), Acceptance::Duplicate);
    sqlx::query("insert into effect values ('after')").execute(&mut *tx).await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(shop.number("select count(*) from effect").await, 2);
}

#[tokio::test]
async fn a_consumer_without_a_name_is_refused() {
    let shop = Shop::open().await;
    let mut tx = shop.store.begin().await.unwrap();
    for (consumer, id) in [("", "e"), ("c", ""), (&*"c".repeat(256), "e")] {
        assert_eq!(shop.store.accept(&mut tx, consumer, id).await.unwrap_err().kind, StoreErrorKind::Invalid);
    }
}
