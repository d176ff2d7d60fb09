//! A cluster as a test sees it: makes topics, and reads what is in them with a client of its own.
#![allow(clippy::expect_used, reason = "helpers of tests")]

use std::collections::BTreeMap;
use std::time::Duration;

use postroom_testbed::{Servers, Site, unique_name};
use rdkafka::admin::{AdminClient, AdminOptions, AlterConfig, NewTopic, ResourceSpecifier, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::message::{Headers, Message};
use rdkafka::{ClientConfig, Offset, TopicPartitionList};
use tokio::task::spawn_blocking;

/// How long a question to the cluster may take.
const PATIENCE: Duration = Duration::from_mins(2);

/// Where a cluster is.
#[derive(Debug, Clone)]
pub(crate) struct Cluster {
    pub(crate) brokers: String,
}

/// A message as it stands in a topic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) partition: i32,
    pub(crate) offset: i64,
    pub(crate) key: Option<String>,
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) payload: String,
}

impl Record {
    pub(crate) fn id(&self) -> &str {
        &self.headers["ce_id"]
    }
}

impl Cluster {
    /// The one everybody uses.
    pub(crate) fn shared() -> Self {
        Self::of(Servers::find().site("kafka"))
    }

    /// The one that lives there, by its plain listener.
    pub(crate) fn of(site: &Site) -> Self {
        Self { brokers: format!("127.0.0.1:{}", site.port) }
    }

    fn client(&self) -> ClientConfig {
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", &self.brokers);
        config
    }

    /// Asks the cluster for a change and waits until it is made.
    pub(crate) async fn change<R, F>(
        &self,
        ask: impl FnOnce(AdminClient<DefaultClientContext>) -> F + Send + 'static,
    ) -> R
    where
        F: Future<Output = (AdminClient<DefaultClientContext>, R)> + Send,
        R: Send + 'static,
    {
        let admin: AdminClient<DefaultClientContext> = self.client().create().expect("an admin client");
        let handle = tokio::runtime::Handle::current();
        // Its end waits for its threads.
        let work = spawn_blocking(move || {
            let (admin, done) = handle.block_on(ask(admin));
            drop(admin);
            done
        });
        work.await.expect("no panic")
    }

    /// A topic nobody else uses.
    pub(crate) async fn topic(&self, partitions: i32, settings: &[(&'static str, &str)]) -> String {
        let name = unique_name("t");
        self.create(&name, partitions, settings).await;
        name
    }

    /// A topic of this name.
    pub(crate) async fn create(&self, name: &str, partitions: i32, settings: &[(&'static str, &str)]) {
        let (name, settings) =
            (name.to_owned(), settings.iter().map(|(n, v)| (*n, (*v).to_owned())).collect::<Vec<_>>());
        self.change(async move |admin| {
            let mut topic = NewTopic::new(&name, partitions, TopicReplication::Fixed(1));
            for (setting, value) in &settings {
                topic = topic.set(setting, value);
            }
            let made = admin.create_topics([&topic], &options()).await.expect("an answer");
            assert!(made.iter().all(Result::is_ok), "{made:?}");
            drop(topic);
            (admin, ())
        })
        .await;
    }

    pub(crate) async fn delete(&self, name: &str) {
        let name = name.to_owned();
        self.change(async move |admin| {
            let gone = admin.delete_topics(&[&name], &options()).await.expect("an answer");
            assert!(gone.iter().all(Result::is_ok), "{gone:?}");
            (admin, ())
        })
        .await;
    }

    /// Changes one setting of a topic; the others go back to their defaults.
    pub(crate) async fn set(&self, name: &str, setting: &'static str, value: &str) {
        let (name, value) = (name.to_owned(), value.to_owned());
        self.change(async move |admin| {
            let change = AlterConfig::new(ResourceSpecifier::Topic(&name)).set(setting, &value);
            let made = admin.alter_configs([&change], &options()).await.expect("an answer");
            assert!(made.iter().all(Result::is_ok), "{made:?}");
            drop(change);
            (admin, ())
        })
        .await;
    }

    /// Everything in a topic, partition by partition.
    pub(crate) async fn read(&self, topic: &str) -> Vec<Record> {
        let (mut config, topic) = (self.client(), topic.to_owned());
        spawn_blocking(move || {
            config.set("group.id", "tests").set("enable.auto.commit", "false").set("fetch.wait.max.ms", "10");
            let consumer: BaseConsumer = config.create().expect("a consumer");
            read(&consumer, &topic)
        })
        .await
        .expect("no panic")
    }
}

fn options() -> AdminOptions {
    AdminOptions::new().operation_timeout(Some(PATIENCE)).request_timeout(Some(PATIENCE))
}

fn read(consumer: &BaseConsumer, topic: &str) -> Vec<Record> {
    let metadata = consumer.fetch_metadata(Some(topic), PATIENCE).expect("metadata");
    let mut left = BTreeMap::new();
    let mut assignment = TopicPartitionList::new();
    for partition in metadata.topics()[0].partitions() {
        let partition = partition.id();
        let (_, end) = consumer.fetch_watermarks(topic, partition, PATIENCE).expect("watermarks");
        if end > 0 {
            left.insert(partition, end);
            assignment.add_partition_offset(topic, partition, Offset::Beginning).expect("an offset");
        }
    }
    consumer.assign(&assignment).expect("partitions");
    let mut records: Vec<Record> = Vec::new();
    while !left.is_empty() {
        let message = consumer.poll(PATIENCE).expect("the rest of the topic").expect("a message");
        records.push(record(&message));
        if left.get(&message.partition()).is_some_and(|end| message.offset() + 1 >= *end) {
            left.remove(&message.partition());
        }
    }
    records.sort_by_key(|record| (record.partition, record.offset));
    records
}

fn record(message: &impl Message) -> Record {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("it is text");
    let mut headers = BTreeMap::new();
    for header in message.headers().into_iter().flat_map(|headers| headers.iter().collect::<Vec<_>>()) {
        headers.entry(header.key.to_owned()).or_insert_with(|| text(header.value.unwrap_or_default()));
    }
    Record {
        partition: message.partition(),
        offset: message.offset(),
        key: message.key().map(text),
        headers,
        payload: text(message.payload().unwrap_or_default()),
    }
}
