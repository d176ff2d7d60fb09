//! The suite every feed passes, on streams of the shared server.

#![allow(clippy::unwrap_used, reason = "a harness fails by panicking")]

use std::sync::Arc;
use std::time::Duration;

use async_nats::jetstream::consumer::{Info, PullConsumer};
use async_nats::jetstream::stream::Config;
use async_nats::jetstream::{self, Context};
use async_trait::async_trait;
use postroom_conformance::Log;
use postroom_conformance::feeds::{Behaviour, Bench, Dead, Harness, SqliteGround};
use postroom_conformance::servers::proxy::Mode;
use postroom_conformance::servers::{FaultProxy, Servers, unique_name};
use postroom_conformance::transports::until;
use postroom_consumer::Feed;
use postroom_core::envelope::{Binding, Encoder, Format};
use postroom_core::{SecretUrl, Template, Transport};
use postroom_nats::{Nats, NatsFeed, NatsFeedOptions, NatsOptions};
use tracing_subscriber::util::SubscriberInitExt;

const DURABLE: &str = "books";

/// A stream; its dead letters go into another one.
struct Shared {
    proxy: FaultProxy,
    name: String,
    prefetch: u16,
    port: u16,
    jetstream: Context,
}

impl Shared {
    fn options(&self) -> NatsFeedOptions {
        let url = SecretUrl::new(format!("nats://127.0.0.1:{}", self.proxy.port()));
        let dead = format!("dead.{}", self.name);
        NatsFeedOptions {
            prefetch: self.prefetch,
            ack_wait: Duration::from_secs(2),
            ..NatsFeedOptions::new(vec![url], &self.name, DURABLE, dead)
        }
    }

    async fn create(&self, name: &str, subject: String) {
        let config = Config { name: name.to_owned(), subjects: vec![subject], ..Config::default() };
        self.jetstream.create_stream(config).await.unwrap();
    }

    /// How the consumer is, if there is one.
    async fn consumer(&self) -> Option<Info> {
        let stream = self.jetstream.get_stream(&self.name).await.unwrap();
        let consumer: PullConsumer = stream.get_consumer(DURABLE).await.ok()?;
        Some(consumer.cached_info().clone())
    }
}

#[async_trait]
impl Harness for Shared {
    type Feed = NatsFeed;

    async fn start(prefetch: u16) -> Self {
        let port = Servers::find().port("nats");
        let client = async_nats::connect(format!("nats://127.0.0.1:{port}")).await.unwrap();
        let (proxy, name) = (FaultProxy::to(port).await, unique_name("books"));
        let shared = Self { proxy, name, prefetch, port, jetstream: jetstream::new(client) };
        shared.create(&shared.name, format!("{}.>", shared.name)).await;
        shared
    }

    async fn make_dead(&self) {
        self.create(&format!("{}_dead", self.name), format!("dead.{}", self.name)).await;
    }

    fn feed(&self) -> NatsFeed {
        NatsFeed::new(self.options()).unwrap()
    }

    fn transport(&self, format: Format) -> Arc<dyn Transport> {
        let subject = Template::parse(&format!("{}.{{type}}", self.name), &[]).unwrap();
        let url = SecretUrl::new(format!("nats://127.0.0.1:{}", self.port));
        // Ids carry the route, so what another route sends is no copy to the server.
        let stream = Some(self.name.clone());
        let options = NatsOptions { stream, stream_is_shared: true, ..NatsOptions::new(vec![url], subject) };
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

mod on_postgres {
    use postroom_conformance::feeds::PostgresGround;

    postroom_conformance::feed_suite!(
        super::Shared, PostgresGround: once, failing, stopping, outages, silence, cut, prefetch, aborting
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_in_our_hands_for_long_is_not_given_to_another() {
    let bench = Bench::<Shared, SqliteGround>::new().await;
    bench.script.behave("e-1", Behaviour::Hold);
    bench.send(&["e-1"]).await;
    let running = bench.run();
    until("the handler to run", || async { !bench.script.runs("e-1").is_empty() }).await;
    // Only by the server's clock can be told whether it still waits: more than twice as long as it would.
    tokio::time::sleep(Duration::from_secs(5)).await;
    let info = bench.harness.consumer().await.unwrap();
    assert_eq!((info.num_ack_pending, info.num_redelivered), (1, 0));
    bench.script.open_gate();
    bench.until_effects(&["e-1"]).await;
    bench.finish(running).await;
    assert_eq!(bench.script.begun()[0].deliveries, Some(1));
}

#[tokio::test]
async fn a_consumer_that_would_read_its_own_dead_is_refused() {
    let shared = Shared::start(1).await;
    let log = Log::default();
    let _heard = tracing_subscriber::fmt().with_writer(log.clone()).finish().set_default();
    let options = NatsFeedOptions { dead_subject: format!("{}.dead", shared.name), ..shared.options() };
    let feed = NatsFeed::new(options).unwrap();
    let reading = feed.next();
    let said = until("a refusal in the log", || async { log.text().contains("would come to it as") });
    tokio::select! { _ = reading => panic!("nothing can come"), () = said => {} }
}
