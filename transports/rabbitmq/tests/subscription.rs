//! The suite every subscription passes, on queues of the shared broker.

#![allow(clippy::unwrap_used, reason = "a harness fails by panicking")]

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use lapin::message::Delivery;
use lapin::options::{BasicGetOptions, BasicPublishOptions, QueueDeclareOptions};
use lapin::types::{AMQPValue, FieldTable, ShortString};
use lapin::{BasicProperties, Channel, Connection, ConnectionProperties};
use postroom_conformance::changed;
use postroom_conformance::subscriptions::{Behaviour, Bench, Dead, Harness, SqliteEffects};
use postroom_conformance::transports::until;
use postroom_consumer::{Arrival, Revoked, Subscription};
use postroom_core::envelope::{Binding, Encoder, Format};
use postroom_core::{DeadLetterCause, Failure, SecretUrl, Template, Timestamp, Transport};
use postroom_rabbitmq::{DeadLetters, RabbitMq, RabbitMqOptions, RabbitMqSubscription, RabbitMqSubscriptionOptions};
use postroom_testbed::brokers::{PASSWORD, USER};
use postroom_testbed::proxy::Mode;
use postroom_testbed::{FaultProxy, Servers, unique_name};
use tokio::sync::Mutex;

/// A queue; its dead letters go into another one, by a publish or by the queue's own exchange for them.
struct Shared<const BY_EXCHANGE: bool> {
    proxy: FaultProxy,
    queue: String,
    prefetch: u16,
    port: u16,
    channel: Channel,
    _connection: Connection,
    dead: Mutex<Vec<Dead>>,
}

impl<const BY_EXCHANGE: bool> Shared<BY_EXCHANGE> {
    fn dead_queue(&self) -> String {
        format!("{}.dead", self.queue)
    }

    async fn declare(&self, queue: &str, arguments: &[(&str, AMQPValue)]) {
        let mut table = FieldTable::default();
        table.insert("x-expires".into(), AMQPValue::LongInt(300_000));
        for (name, value) in arguments {
            table.insert((*name).into(), value.clone());
        }
        let options = QueueDeclareOptions { durable: true, ..QueueDeclareOptions::default() };
        self.channel.queue_declare(queue.into(), options, table).await.unwrap();
    }

    fn options(&self, dead: DeadLetters) -> RabbitMqSubscriptionOptions {
        let url = SecretUrl::new(url(self.proxy.port()));
        changed(RabbitMqSubscriptionOptions::new(url, &self.queue, dead), |o| o.prefetch = self.prefetch)
    }
}

fn url(port: u16) -> String {
    format!("amqp://{USER}:{PASSWORD}@127.0.0.1:{port}/%2f")
}

fn dead(delivery: &Delivery) -> Dead {
    let table = delivery.properties.headers().clone().unwrap_or_default();
    let text = |value: &AMQPValue| match value {
        AMQPValue::LongString(text) => String::from_utf8(text.as_bytes().to_vec()).unwrap(),
        other => format!("{other:?}"),
    };
    let headers: BTreeMap<_, _> = table.inner().iter().map(|(name, value)| (name.to_string(), text(value))).collect();
    Dead { headers, body: String::from_utf8(delivery.data.clone()).unwrap() }
}

#[async_trait]
impl<const BY_EXCHANGE: bool> Harness for Shared<BY_EXCHANGE> {
    type Subscription = RabbitMqSubscription;

    async fn start(prefetch: u16) -> Self {
        let port = Servers::find().port("rabbitmq");
        let connection = Connection::connect(&url(port), ConnectionProperties::default()).await.unwrap();
        let channel = connection.create_channel().await.unwrap();
        let (proxy, queue) = (FaultProxy::to(port).await, unique_name("books"));
        let shared = Self { proxy, queue, prefetch, port, channel, _connection: connection, dead: Mutex::default() };
        let dead = [
            ("x-dead-letter-exchange", AMQPValue::LongString("".into())),
            ("x-dead-letter-routing-key", AMQPValue::LongString(shared.dead_queue().into())),
        ];
        shared.declare(&shared.queue, if BY_EXCHANGE { &dead } else { &[] }).await;
        shared
    }

    async fn make_dead(&self) {
        self.declare(&self.dead_queue(), &[]).await;
    }

    fn subscription(&self) -> RabbitMqSubscription {
        let dead = if BY_EXCHANGE { DeadLetters::Exchange } else { DeadLetters::Queue(self.dead_queue()) };
        RabbitMqSubscription::new(self.options(dead)).unwrap()
    }

    fn transport(&self, format: Format) -> Arc<dyn Transport> {
        let key = Template::parse(&self.queue, &[]).unwrap();
        let options = RabbitMqOptions::new(SecretUrl::new(url(self.port)), "", key);
        Arc::new(RabbitMq::new("books", options, Encoder::new(format, Binding::Amqp, "/postroom/test")))
    }

    async fn send_nameless(&self, body: &str) {
        let (options, none) = (BasicPublishOptions::default(), BasicProperties::default());
        let sent = self.channel.basic_publish("".into(), self.queue.as_str().into(), options, body.as_bytes(), none);
        sent.await.unwrap().await.unwrap();
    }

    async fn dead(&self) -> Vec<Dead> {
        let mut all = self.dead.lock().await;
        let queue = self.dead_queue();
        // A queue that is not there would end the channel.
        self.declare(&queue, &[]).await;
        while let Some(got) =
            self.channel.basic_get(queue.as_str().into(), BasicGetOptions { no_ack: true }).await.unwrap()
        {
            all.push(dead(&got.delivery));
        }
        all.clone()
    }

    async fn left(&self) -> usize {
        let options = QueueDeclareOptions { passive: true, ..QueueDeclareOptions::default() };
        let queue = self.channel.queue_declare(self.queue.as_str().into(), options, FieldTable::default()).await;
        usize::try_from(queue.unwrap().message_count()).unwrap()
    }

    async fn waiting(&self) -> usize {
        self.left().await
    }

    async fn cut(&self) {
        self.proxy.set(Mode::Refuse).await;
        self.proxy.set(Mode::Pass).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_queue_with_an_exchange_for_its_dead_gets_them_rejected() {
    let bench = Bench::<Shared<true>, SqliteEffects>::new().await;
    bench.script.behave("e-bad", Behaviour::Refuse);
    bench.send(&["e-bad", "e-1"]).await;
    let running = bench.run();
    bench.until_effects(&["e-1"]).await;
    bench.until_seen("the rejection", |seen| &seen.dead_lettered, 1).await;
    until("the dead letter", || async { bench.harness.dead().await.len() == 1 }).await;
    bench.finish(running).await;
    assert_eq!(bench.harness.dead().await[0].body, r#"{"parcel":"e-bad"}"#);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rejection_that_is_not_sent_is_no_dead_letter() {
    let shared = Shared::<true>::start(1).await;
    shared.send_nameless("{}").await;
    let subscription = shared.subscription();
    let Arrival::Message(delivered) = subscription.next().await else { panic!("a message is there") };
    shared.proxy.set(Mode::Refuse).await;
    assert!(matches!(subscription.next().await, Arrival::Revoked(Revoked::All)), "the channel is lost");
    let failure = Failure::permanent("test.refused", "it is refused on purpose");
    let dead_letter = DeadLetterCause { failure, attempts: 1, at: Timestamp::now() };
    let failure = subscription.publish_dead_letter(&delivered.ticket, "books", &dead_letter).await.unwrap_err();
    assert_eq!(failure.code, "rabbitmq.unreachable");
    until("the message to be where it was", || async { shared.left().await == 1 }).await;
}

/// It names its sender, expires, and goes to another queue as well: none of that is for its dead letter.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dead_letter_keeps_what_its_message_says_and_not_what_steers_the_broker() {
    let bench = Bench::<Shared<false>, SqliteEffects>::new().await;
    let Shared { channel, queue, .. } = &bench.harness;
    let copies = format!("{queue}.copies");
    bench.harness.declare(&copies, &[]).await;
    let mut headers = FieldTable::default();
    headers.insert("CC".into(), AMQPValue::FieldArray(vec![AMQPValue::LongString(copies.as_str().into())].into()));
    headers.insert("x-shop".into(), AMQPValue::LongString("north".into()));
    let properties = BasicProperties::default()
        .with_message_id("e-bad".into())
        .with_content_type("application/json".into())
        .with_content_encoding("identity".into())
        .with_correlation_id("c-1".into())
        .with_reply_to("answers".into())
        .with_type("parcel.sent".into())
        .with_app_id("shop".into())
        .with_priority(3)
        .with_timestamp(1_700_000_000)
        .with_headers(headers);
    let steering = properties.clone().with_user_id(USER.into()).with_expiration("600000".into());
    bench.script.behave("e-bad", Behaviour::Refuse);
    let options = BasicPublishOptions::default();
    let sent = channel.basic_publish("".into(), queue.as_str().into(), options, b"{}", steering).await.unwrap();
    sent.await.unwrap();
    let running = bench.run();
    bench.until_seen("the dead_letter", |seen| &seen.dead_lettered, 1).await;
    bench.finish(running).await;
    let got = channel.basic_get(bench.harness.dead_queue().into(), BasicGetOptions { no_ack: true }).await.unwrap();
    let dead = got.unwrap().delivery.properties;
    let table = dead.headers().clone().unwrap();
    let names: Vec<&str> =
        table.inner().keys().map(ShortString::as_str).filter(|n| !n.starts_with("postroom-")).collect();
    assert_eq!(names, ["x-shop"]);
    assert_eq!(
        dead.with_headers(FieldTable::default()),
        properties.with_headers(FieldTable::default()).with_delivery_mode(2)
    );
    let copied = channel.queue_declare(
        copies.into(),
        QueueDeclareOptions { passive: true, ..QueueDeclareOptions::default() },
        FieldTable::default(),
    );
    assert_eq!(copied.await.unwrap().message_count(), 1, "the copy of the message itself");
}

#[test]
fn a_queue_is_not_its_own_dead_letter_queue() {
    let url = SecretUrl::new("amqp://localhost");
    let options = RabbitMqSubscriptionOptions::new(url, "orders", DeadLetters::Queue("orders".into()));
    let error = RabbitMqSubscription::new(options).unwrap_err().to_string();
    assert_eq!(error, "queue orders cannot be the one for its own dead letters");
}

mod on_postgres {
    use postroom_conformance::subscriptions::PostgresEffects;

    postroom_conformance::subscription_suite!(
        super::Shared<false>, PostgresEffects: once, failing, stopping, outages, silence, cut, prefetch, aborting
    );
}

mod on_sqlite {
    use postroom_conformance::subscriptions::SqliteEffects;

    postroom_conformance::subscription_suite!(super::Shared<false>, SqliteEffects: once, failing, stopping, outages);
}
