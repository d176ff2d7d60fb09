//! An order that is posted is mailed about once.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use axum_postgres::Shop;
use postroom::RelayOptions;
use postroom::postgres::sqlx::PgPool;
use postroom_testbed::{Database, Servers};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

/// Posts a body; the answer's first line.
async fn post(to: &str, body: &str) -> String {
    let mut stream = TcpStream::connect(to).await.unwrap();
    let request = format!(
        "POST /orders HTTP/1.1\r\nhost: shop\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer.lines().next().unwrap_or_default().to_owned()
}

#[tokio::test]
async fn an_order_that_is_posted_is_mailed_about_once() {
    let database = Database::create(&Servers::find()).await;
    let shop = Shop::open(PgPool::connect(&database.url()).await.unwrap()).await.unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let serving = tokio::spawn(axum::serve(listener, shop.clone().router()).into_future());

    assert_eq!(post(&address, r#"{"number": "order-7", "pieces": 2}"#).await, "HTTP/1.1 201 Created");
    assert!(post(&address, r#"{"number": 7}"#).await.contains("422"), "no order, no event");

    let drain = RelayOptions::default().drain(true);
    shop.relay().options(drain).run(std::future::pending()).await.unwrap();
    assert_eq!(shop.mails().await.unwrap(), 1);
    serving.abort();
}
