//! A stream of one case's own, reached through a proxy.

use std::sync::Arc;
use std::time::Duration;

use async_nats::jetstream::consumer::{Info, PullConsumer};
use async_nats::jetstream::stream::Config;
use async_nats::jetstream::{self, Context};
use async_trait::async_trait;
use postroom_conformance::changed;
use postroom_conformance::subscriptions::{Dead, Harness};
use postroom_core::envelope::{Binding, Encoder, Format};
use postroom_core::{SecretUrl, Template, Transport};
use postroom_nats::{Nats, NatsOptions, NatsSubscription, NatsSubscriptionOptions};
use postroom_testbed::proxy::Mode;
use postroom_testbed::{FaultProxy, Servers, unique_name};

pub(crate) const DURABLE: &str = "books";
pub(crate) const UNLIMITED: i32 = -1;

/// A stream; its dead letters go into another one.
pub(crate) struct Shared {
    pub(crate) proxy: FaultProxy,
    pub(crate) name: String,
    prefetch: u16,
    pub(crate) timeout: Duration,
    port: u16,
    pub(crate) jetstream: Context,
}

impl Shared {
    pub(crate) fn options(&self) -> NatsSubscriptionOptions {
        let url = SecretUrl::new(format!("nats://127.0.0.1:{}", self.proxy.port()));
        let dead = format!("dead.{}", self.name);
        changed(NatsSubscriptionOptions::new(vec![url], &self.name, DURABLE, dead), |o| {
            o.prefetch = self.prefetch;
            o.ack_wait = Duration::from_secs(2);
            o.timeout = self.timeout;
        })
    }

    /// A place for the dead that takes messages up to this size.
    pub(crate) async fn make_dead_for(&self, bytes_max: i32) {
        self.create(&format!("{}_dead", self.name), format!("dead.{}", self.name), bytes_max).await;
    }

    async fn create(&self, name: &str, subject: String, max_message_size: i32) {
        let config = Config { name: name.to_owned(), subjects: vec![subject], max_message_size, ..Config::default() };
        self.jetstream.create_stream(config).await.unwrap();
    }

    /// How the consumer is, if there is one.
    pub(crate) async fn consumer(&self) -> Option<Info> {
        let stream = self.jetstream.get_stream(&self.name).await.unwrap();
        let consumer: PullConsumer = stream.get_consumer(DURABLE).await.ok()?;
        Some(consumer.cached_info().clone())
    }
}

#[async_trait]
impl Harness for Shared {
    type Subscription = NatsSubscription;

    async fn start(prefetch: u16) -> Self {
        let port = Servers::find().port("nats");
        let client = async_nats::connect(format!("nats://127.0.0.1:{port}")).await.unwrap();
        let (proxy, name) = (FaultProxy::to(port).await, unique_name("books"));
        let timeout = Duration::from_secs(5);
        let shared = Self { proxy, name, prefetch, timeout, port, jetstream: jetstream::new(client) };
        shared.create(&shared.name, format!("{}.>", shared.name), UNLIMITED).await;
        shared
    }

    async fn make_dead(&self) {
        self.make_dead_for(UNLIMITED).await;
    }

    fn subscription(&self) -> NatsSubscription {
        NatsSubscription::new(self.options()).unwrap()
    }

    fn transport(&self, format: Format) -> Arc<dyn Transport> {
        let subject = Template::parse(&format!("{}.{{type}}", self.name), &[]).unwrap();
        let url = SecretUrl::new(format!("nats://127.0.0.1:{}", self.port));
        // Ids carry the route, so what another route sends is no copy to the server.
        let stream = Some(self.name.clone());
        let options = changed(NatsOptions::new(vec![url], subject), |o| {
            o.stream = stream;
            o.stream_is_shared = true;
        });
        let encoder = Encoder::new(format, Binding::Nats, "/postroom/test");
        Arc::new(Nats::new(unique_name("route").as_str(), options, encoder))
    }

    async fn send_nameless(&self, body: &str) {
        let sent = self.jetstream.publish(format!("{}.x", self.name), body.to_owned().into()).await.unwrap();
        sent.await.unwrap();
    }

    async fn dead(&self) -> Vec<Dead> {
        let stream = self.jetstream.get_stream(format!("{}_dead", self.name)).await.unwrap();
        let mut all = Vec::new();
        for number in 1..=stream.cached_info().state.last_sequence {
            let message = stream.get_raw_message(number).await.unwrap();
            let headers = message.headers.iter().map(|(name, values)| (name.to_string(), values[0].to_string()));
            let body = String::from_utf8(message.payload.to_vec()).unwrap();
            all.push(Dead { headers: headers.collect(), body });
        }
        all
    }

    async fn left(&self) -> usize {
        match self.consumer().await {
            // What was given back counts as both.
            Some(info) => usize::try_from(info.num_pending).unwrap().max(info.num_ack_pending),
            None => usize::MAX,
        }
    }

    async fn waiting(&self) -> usize {
        self.consumer().await.map_or(usize::MAX, |info| usize::try_from(info.num_pending).unwrap())
    }

    async fn cut(&self) {
        self.proxy.set(Mode::Refuse).await;
        self.proxy.set(Mode::Pass).await;
    }
}
