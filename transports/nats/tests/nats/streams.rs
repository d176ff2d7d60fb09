//! Streams of a test's own, and transports to them.

use std::sync::Arc;
use std::time::Duration;

use async_nats::Client;
use async_nats::jetstream::stream::Config;
use async_nats::jetstream::{self, Context};
use percent_encoding::percent_decode_str;
use postroom_conformance::changed;
use postroom_conformance::transports::{Arrived, Post};
use postroom_core::envelope::{Binding, Encoder, Format};
use postroom_core::{Event, Failure, JSON, Outcome, SecretUrl, Template};
use postroom_nats::{Nats, NatsOptions};
use postroom_testbed::{Servers, unique_name};

/// Time enough for everything that is expected to be answered.
pub(crate) const LONG: Duration = Duration::from_secs(30);
/// So short that a test can wait for it, long enough for a busy machine to answer.
pub(crate) const SHORT: Duration = Duration::from_secs(1);

/// A name nobody else has: of a stream, and the first part of its subjects.
pub(crate) struct Stream {
    pub(crate) name: String,
    pub(crate) client: Client,
    jetstream: Context,
}

impl Stream {
    /// On the shared server.
    pub(crate) async fn new() -> Self {
        Self::on(Servers::find().port("nats"), |_| {}).await
    }

    /// On the shared server, with other settings.
    pub(crate) async fn with(change: impl FnOnce(&mut Config)) -> Self {
        Self::on(Servers::find().port("nats"), change).await
    }

    /// On the server of this port.
    pub(crate) async fn on(port: u16, change: impl FnOnce(&mut Config)) -> Self {
        let stream = Self::missing(port).await;
        stream.create(change).await;
        stream
    }

    /// Only the name.
    pub(crate) async fn missing(port: u16) -> Self {
        let client = async_nats::connect(format!("nats://127.0.0.1:{port}")).await.expect("the server is there");
        Self::seen_by(client)
    }

    /// Only the name, for whoever is connected so.
    pub(crate) fn seen_by(client: Client) -> Self {
        Self { name: unique_name("s"), jetstream: jetstream::new(client.clone()), client }
    }

    pub(crate) async fn create(&self, change: impl FnOnce(&mut Config)) {
        let mut config =
            Config { name: self.name.clone(), subjects: vec![format!("{}.>", self.name)], ..Config::default() };
        change(&mut config);
        self.jetstream.create_stream(config).await.expect("a stream");
    }

    pub(crate) async fn delete(&self) {
        self.jetstream.delete_stream(&self.name).await.expect("it is there");
    }

    /// How many messages it has.
    pub(crate) async fn messages(&self) -> u64 {
        self.info().await.state.messages
    }

    pub(crate) async fn info(&self) -> jetstream::stream::Info {
        self.jetstream.get_stream(&self.name).await.expect("it is there").cached_info().clone()
    }

    /// Options of a transport to it.
    pub(crate) fn options(&self, port: u16, timeout: Duration) -> NatsOptions {
        let subject = Template::parse(&format!("{}.{{type}}", self.name), &[]).expect("a template");
        let url = SecretUrl::new(format!("nats://127.0.0.1:{port}"));
        changed(NatsOptions::new(vec![url], subject), |o| {
            o.timeout = timeout;
            o.stream = Some(self.name.clone());
        })
    }

    /// What it has, in order.
    pub(crate) async fn arrived(&self) -> Vec<Arrived> {
        let stream = self.jetstream.get_stream(&self.name).await.expect("it is there");
        let mut arrived = Vec::new();
        for number in 1..=stream.cached_info().state.last_sequence {
            let message = stream.get_raw_message(number).await.expect("nothing is ever deleted");
            let header = |name: &str| {
                let value = message.headers.get(name).expect("a header").as_str();
                percent_decode_str(value).decode_utf8().expect("it is UTF-8").into_owned()
            };
            let payload = String::from_utf8(message.payload.to_vec()).expect("it is text");
            arrived.push(Arrived { id: header("ce-id"), event_type: header("ce-type"), payload });
        }
        arrived
    }

    /// Ids of what it has, in order.
    pub(crate) async fn ids(&self) -> Vec<String> {
        self.arrived().await.into_iter().map(|arrived| arrived.id).collect()
    }
}

pub(crate) fn nats(options: NatsOptions) -> Nats {
    Nats::new("shop", options, Encoder::new(Format::CloudEventsBinary, Binding::Nats, "/postroom/test"))
}

pub(crate) fn post(options: NatsOptions) -> Post {
    Post::new(Arc::new(nats(options)))
}

pub(crate) fn event(id: &str) -> Event {
    Event::new("parcel.sent").id(id).bytes(JSON, r#"{"secret":"canary"}"#)
}

pub(crate) fn events(prefix: &str, count: usize) -> Vec<Event> {
    (0..count).map(|n| event(&format!("{prefix}-{n}"))).collect()
}

/// Delivers one event.
pub(crate) async fn outcome(post: &mut Post, event: Event) -> Outcome {
    post.deliver(&[event]).await;
    post.outcome().await.1
}

/// Delivers one event, which must fail.
pub(crate) async fn failure(post: &mut Post, id: &str) -> Failure {
    outcome(post, event(id)).await.expect_err("it fails")
}

/// Delivers one event, which must get through; where it is.
pub(crate) async fn receipt(post: &mut Post, id: &str) -> String {
    let receipt = outcome(post, event(id)).await.expect("it gets through");
    receipt.place.expect("it says where").into()
}
