//! The suite over plain HTTP, through a proxy that cuts the way; and what a request looks like.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use postroom_conformance::transports::{Arrived, Behaviour, Breakable, Harness, Observed, Scripted};
use postroom_core::Transport;
use postroom_testbed::FaultProxy;
use postroom_testbed::proxy::Mode;
use postroom_webhook::signature::SigningKey;

use crate::receiver::{self, LONG, Receiver, event, post};

struct Plain {
    receiver: Receiver,
    way: FaultProxy,
    timeout: Duration,
}

#[async_trait]
impl Harness for Plain {
    async fn start(timeout: Duration) -> Self {
        let receiver = Receiver::start().await;
        let way = FaultProxy::to(receiver.port()).await;
        Self { receiver, way, timeout }
    }

    fn transport(&self) -> Arc<dyn Transport> {
        Arc::new(receiver::webhook(receiver::http(self.way.port(), self.timeout)))
    }

    async fn running(&self) -> usize {
        self.way.counts().open()
    }
}

#[async_trait]
impl Observed for Plain {
    async fn arrived(&self) -> Vec<Arrived> {
        self.receiver.arrived()
    }
}

#[async_trait]
impl Scripted for Plain {
    async fn behave(&self, id: &str, behaviour: Behaviour) {
        self.receiver.rule(id, behaviour.into());
    }
}

#[async_trait]
impl Breakable for Plain {
    async fn stop(&self) {
        self.way.set(Mode::Refuse).await;
    }

    async fn resume(&self) {
        self.way.set(Mode::Pass).await;
    }
}

postroom_conformance::transport_suite!(Plain: reports, arrives, answers, goes_down);

#[tokio::test]
async fn a_request_is_a_post_with_our_headers_and_the_events_own() {
    let receiver = Receiver::start().await;
    let mut options = receiver::http(receiver.port(), LONG);
    options.url.set_path("/deep/hook");
    options.url.set_query(Some("a=b&c=d"));
    let mut post = post(options);
    post.deliver_until_ok(&[event("e-1").header("x-shop", "7").header("authorization", "Bearer canary")]).await;
    let got = &receiver.got()[0];
    assert_eq!(got.header("user-agent"), concat!("postroom/", env!("CARGO_PKG_VERSION")));
    assert_eq!((got.header("x-shop"), got.header("authorization")), ("7", ""));
    assert_eq!((got.header("content-type"), got.header("ce-source")), ("application/json", "/postroom/test"));
    assert_eq!((got.header("webhook-id"), got.header("ce-id")), ("e-1", "e-1"));
    assert_eq!(got.header("accept-encoding"), "", "nothing asks for packed answers");
    post.close().await;
}

#[tokio::test]
async fn a_receiver_that_knows_either_of_two_keys_accepts_during_a_rotation() {
    let receiver = Receiver::start().await;
    let fresh = postroom_webhook::signature::new_secret().expect("random bytes");
    let mut options = receiver::http(receiver.port(), LONG);
    options.keys.insert(0, SigningKey::parse(fresh.expose()).expect("a secret"));
    let mut rotating = post(options.clone());
    rotating.deliver_until_ok(&[event("e-1")]).await;
    assert_eq!(receiver.got()[0].header("webhook-signature").split(' ').count(), 2);
    options.keys.pop();
    let mut other = post(options);
    let failure = receiver::failure(&mut other, "e-2").await;
    assert_eq!(failure.code, "webhook.status_401");
    assert!(failure.error.contains("no signature fits"), "{}", failure.error);
}
