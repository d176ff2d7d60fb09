//! Topics of one case's own: two partitions, and one for the dead.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use nix::sys::signal::Signal;
use postroom_conformance::changed;
use postroom_conformance::subscriptions::{Dead, Harness};
use postroom_core::envelope::{Binding, Encoder, Format};
use postroom_core::{Template, Transport};
use postroom_kafka::{Kafka, KafkaOptions, KafkaSubscription, KafkaSubscriptionOptions};
use postroom_testbed::{OwnServer, brokers, unique_name};
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::producer::{FutureProducer, FutureRecord};
use rdkafka::{ClientConfig, Offset, TopicPartitionList};
use tokio::task::spawn_blocking;

use crate::cluster::Cluster;

pub(crate) const PARTITIONS: i32 = 2;
const PATIENCE: Duration = Duration::from_mins(2);

/// On the shared broker.
pub(crate) struct Shared {
    pub(crate) cluster: Cluster,
    pub(crate) topic: String,
    group: String,
    prefetch: u16,
}

impl Shared {
    async fn on(cluster: Cluster, prefetch: u16) -> Self {
        let topic = cluster.topic(PARTITIONS, &[]).await;
        Self { cluster, topic, group: unique_name("books"), prefetch }
    }

    pub(crate) fn options(&self) -> KafkaSubscriptionOptions {
        let (brokers, topics) = (vec![self.cluster.brokers.clone()], vec![self.topic.clone()]);
        changed(KafkaSubscriptionOptions::new(brokers, topics, &self.group, self.dead_topic()), |o| {
            o.prefetch = self.prefetch;
            o.timeout = Duration::from_secs(5);
            o.session_timeout = Duration::from_secs(6);
        })
    }

    fn dead_topic(&self) -> String {
        format!("{}.dead", self.topic)
    }

    /// A place for the dead that takes messages up to this size.
    pub(crate) async fn make_dead_for(&self, bytes_max: usize) {
        let limit = bytes_max.to_string();
        self.cluster.create(&self.dead_topic(), 1, &[("max.message.bytes", &limit)]).await;
    }

    /// Up to where the group has said that all is done.
    pub(crate) async fn committed(&self) -> Vec<i64> {
        let (brokers, topic, group) = (self.cluster.brokers.clone(), self.topic.clone(), self.group.clone());
        let ask = move || {
            let mut config = ClientConfig::new();
            config.set("bootstrap.servers", brokers).set("group.id", group);
            let consumer: BaseConsumer = config.create().expect("a consumer");
            let mut list = TopicPartitionList::new();
            list.add_partition_range(&topic, 0, PARTITIONS - 1);
            let list = consumer.committed_offsets(list, PATIENCE).expect("offsets");
            let offset = |offset: Offset| if let Offset::Offset(n) = offset { n } else { 0 };
            list.elements().iter().map(|element| offset(element.offset())).collect()
        };
        spawn_blocking(ask).await.expect("no panic")
    }
}

#[async_trait]
impl Harness for Shared {
    type Subscription = KafkaSubscription;

    // Of two partitions, these go to the first and to the second.
    const KEYS: [&'static str; 2] = ["bad", "d"];

    async fn start(prefetch: u16) -> Self {
        Self::on(Cluster::shared(), prefetch).await
    }

    async fn make_dead(&self) {
        self.cluster.create(&self.dead_topic(), 1, &[]).await;
    }

    fn subscription(&self) -> KafkaSubscription {
        KafkaSubscription::new(self.options()).unwrap()
    }

    fn transport(&self, format: Format) -> Arc<dyn Transport> {
        let topic = Template::parse(&self.topic, &[]).unwrap();
        let options = KafkaOptions::new(vec![self.cluster.brokers.clone()], topic);
        Arc::new(Kafka::new("books", options, Encoder::new(format, Binding::Kafka, "/postroom/test")))
    }

    async fn send_nameless(&self, body: &str) {
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", &self.cluster.brokers);
        let producer: FutureProducer = config.create().expect("a producer");
        producer.send(FutureRecord::<(), _>::to(&self.topic).payload(body), PATIENCE).await.expect("it is sent");
    }

    async fn dead(&self) -> Vec<Dead> {
        let dead = self.dead_topic();
        let records = self.cluster.read(&dead).await;
        records.into_iter().map(|record| Dead { headers: record.headers, body: record.payload }).collect()
    }

    async fn left(&self) -> usize {
        let sent = self.cluster.read(&self.topic).await.len();
        let committed: i64 = self.committed().await.iter().sum();
        sent - usize::try_from(committed).unwrap()
    }

    async fn waiting(&self) -> usize {
        unreachable!("it is asked of brokers that count over all keys")
    }

    async fn cut(&self) {
        unreachable!("it is asked of a broker of one's own")
    }
}

/// On a broker of its own, which can be restarted.
pub(crate) struct Own {
    server: Arc<OwnServer>,
    shared: Shared,
}

impl Own {
    pub(crate) async fn signal(&self, signal: Signal) {
        let server = Arc::clone(&self.server);
        spawn_blocking(move || server.signal(signal).expect("it is there")).await.expect("no panic");
    }
}

#[async_trait]
impl Harness for Own {
    type Subscription = KafkaSubscription;

    async fn start(prefetch: u16) -> Self {
        let server = spawn_blocking(|| OwnServer::start(&brokers::Kafka).expect("a broker")).await.expect("no panic");
        let shared = Shared::on(Cluster::of(&server.site), prefetch).await;
        Self { server: Arc::new(server), shared }
    }

    async fn make_dead(&self) {
        self.shared.make_dead().await;
    }

    fn subscription(&self) -> KafkaSubscription {
        self.shared.subscription()
    }

    fn transport(&self, format: Format) -> Arc<dyn Transport> {
        self.shared.transport(format)
    }

    async fn send_nameless(&self, body: &str) {
        self.shared.send_nameless(body).await;
    }

    async fn dead(&self) -> Vec<Dead> {
        self.shared.dead().await
    }

    async fn left(&self) -> usize {
        self.shared.left().await
    }

    async fn waiting(&self) -> usize {
        self.shared.waiting().await
    }

    async fn cut(&self) {
        let server = Arc::clone(&self.server);
        let restart = move || {
            server.crash().expect("it ends");
            server.resume().expect("it starts");
        };
        spawn_blocking(restart).await.expect("no panic");
    }
}
