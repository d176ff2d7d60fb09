//! What reaches the log, and what never does. In a process of its own: whoever comes to a line of log first decides for
//! the whole process whether anybody listens.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

use std::sync::Arc;
use std::time::Duration;

use postroom_conformance::Log;
use postroom_conformance::changed;
use postroom_conformance::transports::Post;
use postroom_core::envelope::{Binding, Encoder, Format};
use postroom_core::{Event, JSON, SecretUrl, Template, Transport as _};
use postroom_rabbitmq::{RabbitMq, RabbitMqOptions};
use postroom_testbed::brokers::{PASSWORD, USER};
use postroom_testbed::proxy::Mode;
use postroom_testbed::{FaultProxy, Servers};

/// To the default exchange, where no queue has the name of a type.
fn transport(port: u16, password: &str) -> Arc<RabbitMq> {
    let url = SecretUrl::new(format!("amqp://{USER}:{password}@127.0.0.1:{port}/%2f"));
    let options = changed(RabbitMqOptions::new(url, "", Template::parse("{type}", &[]).unwrap()), |o| {
        o.timeout = Duration::from_secs(1);
    });
    let encoder = Encoder::new(Format::CloudEventsBinary, Binding::Amqp, "/postroom/test");
    Arc::new(RabbitMq::new("parcels", options, encoder))
}

async fn failure(post: &mut Post) -> String {
    let event = Event::new("no.such.queue").id("e-1").header("shop", "canary-header");
    post.deliver(&[event.bytes(JSON, r#"{"secret":"canary-payload"}"#)]).await;
    format!("{:?}", post.outcome().await.1.expect_err("it fails"))
}

#[tokio::test(flavor = "multi_thread")]
async fn passwords_and_payloads_are_neither_logged_nor_reported_nor_shown() {
    let log = Log::default();
    let lines = tracing_subscriber::fmt().with_writer(log.clone()).with_ansi(false);
    lines.with_max_level(tracing::Level::TRACE).init();
    let proxy = FaultProxy::to(Servers::find().port("rabbitmq")).await;
    let mut said = Vec::new();
    let mut parcels = Post::new(transport(proxy.port(), PASSWORD));
    said.push(failure(&mut parcels).await);
    for mode in [Mode::Forget, Mode::Refuse] {
        proxy.set(mode).await;
        said.push(failure(&mut parcels).await);
    }
    proxy.set(Mode::Pass).await;
    parcels.close().await;
    let stranger = transport(proxy.port(), &format!("{PASSWORD}-wrong"));
    said.push(format!("{stranger:?} {:?}", stranger.check().await));
    let mut parcels = Post::new(stranger);
    said.push(failure(&mut parcels).await);
    parcels.close().await;
    let log = log.text();
    assert!(log.contains("postroom::rabbitmq") && log.contains("parcels"), "{log}");
    let said = said.join("\n");
    for code in ["rabbitmq.timeout", "rabbitmq.unreachable", "rabbitmq.login"] {
        assert!(said.contains(code) && log.contains(code), "{code} is missing in {said} or in {log}");
    }
    assert!(said.contains("rabbitmq.unroutable"), "{said}");
    for secret in [PASSWORD, "canary"] {
        assert!(!said.contains(secret) && !log.contains(secret), "{said}\n{log}");
    }
}
