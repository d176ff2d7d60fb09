//! Which client wrote an event cannot be told afterwards.

use diesel_async::AsyncConnection;
use postroom_adapters::Shop;
use postroom_clients as adapters;
use postroom_core::{Event, Outbox, StoreError};
use postroom_postgres::PostgresStore;
use sea_orm::TransactionTrait;
use serde_json::{Value, json};

/// An event with something in every field, and what quoting could spoil in many.
fn everything() -> Event {
    let at = |text: &str| text.parse().unwrap();
    let cause = Event::new("order.placed").id("the cause").key("k");
    let mut event = Event::new("order.paid")
        .id(r#"an "id" {with}, \ and ,"#)
        .key("null")
        .aggregate("order's", r"\N")
        .tenant("Ÿ 𝄞")
        .bytes("application/vnd.shop+json", r#"{"total":  4200, "of": "\u00e4\\"}"#)
        .header("traceparent", "00-aa'\"\\-01")
        .attribute("station_id", json!({ "a": [1, null, "{}"] }))
        .caused_by(&cause)
        .available_at(at("2030-01-02T03:04:05.678901Z"));
    event.schema_version = 3;
    event.occurred_at = at("2026-01-02T03:04:05.000006Z");
    event
}

/// One with nothing but what must be.
fn little() -> Event {
    Event { occurred_at: "2026-01-02T03:04:05Z".parse().unwrap(), ..Event::new("order.paid").id("little") }
}

/// Appends both in every way with every client; how many rows that makes.
async fn append_by_all(shop: &Shop, store: &PostgresStore, word: &str) -> Result<usize, StoreError> {
    let (events, plain) = ([everything(), little()], Event { content_type: "application/json".into(), ..everything() });

    let mut tx = store.begin().await?;
    let _ = store.append(&mut tx, &events[0]).await?;
    let _ = store.append_many(&mut tx, &events).await?;
    let _ = store.append_once(&mut tx, &format!("{word} sqlx"), &plain).await?;
    tx.commit().await.unwrap();

    let mut client = crate::clients::tokio_postgres::connect(shop).await;
    let tx = client.transaction().await.unwrap();
    let _ = adapters::tokio_postgres::append(store, &tx, &events[0]).await?;
    let _ = adapters::tokio_postgres::append_many(store, &tx, &events).await?;
    let _ = adapters::tokio_postgres::append_once(store, &tx, &format!("{word} tokio-postgres"), &plain).await?;
    tx.commit().await.unwrap();

    let mut connection = crate::clients::diesel_async::connect(shop).await;
    let done = connection.transaction::<_, Box<dyn std::error::Error + Send + Sync>, _>(async |tx| {
        let _ = adapters::diesel_async::append(store, tx, &events[0]).await?;
        let _ = adapters::diesel_async::append_many(store, tx, &events).await?;
        let _ = adapters::diesel_async::append_once(store, tx, &format!("{word} diesel-async"), &plain).await?;
        Ok(())
    });
    done.await.unwrap();

    let tx = crate::clients::sea_orm::connect(shop).await.begin().await.unwrap();
    let _ = adapters::sea_orm::append(store, &tx, &events[0]).await?;
    let _ = adapters::sea_orm::append_many(store, &tx, &events).await?;
    let _ = adapters::sea_orm::append_once(store, &tx, &format!("{word} sea-orm"), &plain).await?;
    tx.commit().await.unwrap();
    Ok(16)
}

#[tokio::test]
async fn all_clients_write_the_same_rows_by_statement_and_by_function() {
    let shop = Shop::open().await;
    let by_statement = append_by_all(&shop, &shop.store, "by statement").await.unwrap();
    let appender = shop.as_appender().await.unwrap();
    let by_function = append_by_all(&shop, &appender, "by function").await.unwrap();

    let rows: Vec<(Value, i64)> = sqlx::query_as(
        "select written, count(*) from (\
           select to_jsonb(l) - '{partition,tx,seq,appended_at}'::text[] as written from postroom.log l) w \
         group by written order by written ->> 'id' desc, written ->> 'content_type' nulls last",
    )
    .fetch_all(shop.pool())
    .await
    .unwrap();
    let count = |n: usize| i64::try_from((by_statement + by_function) * n / 4).unwrap();
    assert_eq!(rows.iter().map(|(_, n)| *n).collect::<Vec<_>>(), [count(1), count(2), count(1)], "{rows:#?}");
    assert_eq!(rows[0].0["id"], "little");
    assert_eq!(rows[1].0["content_type"], "application/vnd.shop+json");
    assert_eq!(rows[2].0["content_type"], Value::Null);

    // And what comes out is what went in.
    let expected = [little(), everything()];
    for event in shop.taken().await {
        assert!(expected.contains(&Event { content_type: expected_type(&event), ..(*event).clone() }), "{event:?}");
    }
}

/// `append_once` has the plain content type.
fn expected_type(event: &Event) -> String {
    if event.id == "little" { "application/json".to_owned() } else { "application/vnd.shop+json".to_owned() }
}
