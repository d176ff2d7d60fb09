//! psql: the producer and the consumer, all forms of append, and what is refused.

use std::process::Command;

use postroom_adapters::Shop;
use postroom_core::Event;
use serde_json::json;
use sqlx::{Connection, Executor, PgConnection};

use crate::languages::{folder, page, programs, run};

/// Runs a file of the page, as its first line says.
fn psql(shop: &Shop, file: &str) -> String {
    let mut psql = Command::new("psql");
    psql.args(["--no-psqlrc", "-qAt", "-v", "ON_ERROR_STOP=1"]).arg(shop.url()).arg("-f").arg(folder().join(file));
    run(&mut psql)
}

#[tokio::test]
async fn psql_appends_and_accepts() {
    let shop = Shop::open().await;
    psql(&shop, "psql.sql");
    programs::check(&shop).await;
}

#[tokio::test]
async fn every_form_of_append_does_what_its_comment_says() {
    let shop = Shop::open().await;
    let said = psql(&shop, "forms.sql");

    let taken = shop.taken().await;
    let types: Vec<_> = taken.iter().map(|event| &*event.event_type).collect();
    let expected = ["order.paid", "label.printed", "order.packed", "order.shipped", "order.cancelled", "order.noted"];
    assert_eq!(types, expected);
    assert!(taken.iter().all(|event| event.ordering_key() == Some("order-7")));

    let traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let mut paid = Event::new("order.paid")
        .id(&*taken[0].id)
        .aggregate("order", "order-7")
        .bytes("application/json", r#"{"total": 4200}"#)
        .tenant("acme")
        .header("traceparent", traceparent)
        .attribute("station_id", 12);
    paid.correlation_id = Some("request-31".to_owned());
    paid.schema_version = 2;
    paid.occurred_at = "2026-11-01T09:30:00Z".parse().unwrap();
    assert_eq!(*taken[0], paid);
    assert_eq!((&*taken[1].content_type, &*taken[1].payload), ("application/pdf", &b"%PDF-1.7"[..]));
    assert_eq!(taken[2].payload_as::<serde_json::Value>().unwrap(), json!({ "boxes": 2 }));
    assert_eq!((&*taken[3].id, taken[3].causation_id.as_deref()), ("shipment-7", Some("request-31")));

    // Each printed its id, the held-back one too; the repeated one nothing.
    let printed: Vec<_> = said.lines().collect();
    let mut ids: Vec<_> = taken.iter().map(|event| &*event.id).collect();
    ids.insert(5, "");
    assert_eq!(printed[..7], ids);
    let held: String = sqlx::query_scalar("select id from postroom.log where available_at > now()")
        .fetch_one(shop.pool())
        .await
        .unwrap();
    assert_eq!(printed[7..], [held]);
}

#[tokio::test]
async fn what_is_refused_has_the_state_and_the_words_of_the_page() {
    let shop = Shop::open().await;
    let refusals = page::refusals();
    assert!(refusals.len() > 10, "{refusals:?}");
    for [call, state, message] in refusals {
        // A connection each: one of them changes its role.
        let mut connection = PgConnection::connect(&shop.url()).await.unwrap();
        let error = connection.execute(sqlx::AssertSqlSafe(&*call)).await.expect_err(&call);
        let error = error.into_database_error().unwrap();
        assert_eq!((error.code().as_deref(), error.message()), (Some(&*state), &*message), "{call}");
    }
    assert_eq!(shop.taken_ids().await, [""; 0]);
}
