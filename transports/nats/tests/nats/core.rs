//! Core NATS, without JetStream: what counts as delivered, and what does not.

use std::time::Duration;

use futures_util::StreamExt as _;
use postroom_conformance::changed;
use postroom_core::{FailureKind, SecretUrl, Template, Transport as _};
use postroom_nats::NatsOptions;
use postroom_testbed::{OwnServer, brokers};

use crate::nats::streams::{LONG, SHORT, events, nats, outcome, post};

/// A server that lets nobody publish below `secret`.
static SERVER: brokers::NatsPlain = brokers::NatsPlain(
    "authorization { users: [ { user: relay, password: relay, permissions: { publish: { deny: \"secret.>\" } } } ] }\n",
);

fn options(port: u16, subject: &str, timeout: Duration) -> NatsOptions {
    let url = SecretUrl::new(format!("nats://relay:relay@127.0.0.1:{port}"));
    changed(NatsOptions::new(vec![url], Template::parse(subject, &[]).expect("a template")), |o| {
        o.jetstream = false;
        o.timeout = timeout;
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_jetstream_events_reach_who_listens_and_receipts_say_that_nobody_acknowledged() {
    let server = OwnServer::start(&SERVER).expect("a server");
    let login = async_nats::ConnectOptions::with_user_and_password("relay".to_owned(), "relay".to_owned());
    let client = login.connect(format!("nats://127.0.0.1:{}", server.site.port)).await.expect("the server is there");
    let mut heard = client.subscribe("orders.>").await.expect("a subscription");
    client.flush().await.expect("it is there");
    let options = options(server.site.port, "orders.{type}", LONG);
    let findings = nats(options.clone()).check().await;
    assert!(format!("{findings:?}").contains("nats.core"), "{findings:?}");
    let mut post = post(options);
    let events = events("e", 3000);
    post.deliver(&events).await;
    for (id, outcome) in post.outcomes().await {
        let receipt = outcome.expect("it is taken");
        assert_eq!(receipt.code, "nats.core");
        assert!(receipt.place.expect("it says so").contains("not acknowledged"), "{id}");
    }
    for event in &events {
        let message = heard.next().await.expect("a message");
        let headers = message.headers.expect("headers");
        assert_eq!(headers.get("ce-id").map(async_nats::HeaderValue::as_str), Some(event.id.as_str()));
    }
    post.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_server_does_not_let_us_publish_is_not_delivered() {
    let server = OwnServer::start(&SERVER).expect("a server");
    for n in 0..50 {
        let mut post = post(options(server.site.port, "secret.{type}", LONG));
        let failure = outcome(&mut post, events("e", 1).remove(0)).await.expect_err("it fails");
        assert_eq!((failure.kind, &*failure.code), (FailureKind::Unavailable, "nats.permission"), "try {n}");
        post.close().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_away_is_unavailable_and_what_was_in_doubt_is_sent_again() {
    let server = OwnServer::start(&SERVER).expect("a server");
    let mut post = post(options(server.site.port, "orders.{type}", SHORT));
    post.deliver_until_ok(&events("early", 10)).await;
    server.crash().expect("it ends");
    let failure = outcome(&mut post, events("late", 1).remove(0)).await.expect_err("it fails");
    assert_eq!(failure.kind, FailureKind::Unavailable, "{failure:?}");
    server.resume().expect("it is back");
    post.deliver_until_ok(&events("late", 10)).await;
    post.close().await;
}
