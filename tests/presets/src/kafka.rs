//! A Kafka cluster as a system's team sees it: topics are made by hand and read with a client of their own.

use std::collections::BTreeMap;
use std::time::Duration;

use postroom_testbed::{Servers, Site};
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer as _};
use rdkafka::message::{BorrowedMessage, Message as _};
use rdkafka::{ClientConfig, Offset, TopicPartitionList};
use serde_json::Value;

/// How long a question to the cluster may take.
const PATIENCE: Duration = Duration::from_mins(2);

/// Where a cluster is.
#[derive(Debug, Clone)]
pub struct Kafka {
    /// For a variable of the system.
    pub brokers: String,
}

/// A message as it stands in a topic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// Which partition.
    pub partition: i32,
    /// Where in it.
    pub offset: i64,
    /// Its key.
    pub key: Option<String>,
    /// Its headers; of two with one name the first.
    pub headers: BTreeMap<String, String>,
    /// Its value, byte for byte.
    pub body: String,
}

impl Record {
    /// Its value as JSON.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).expect("JSON")
    }
}

impl Kafka {
    /// The one everybody uses.
    pub fn shared() -> Self {
        Self::of(Servers::find().site("kafka"))
    }

    /// The one that lives there.
    pub fn of(site: &Site) -> Self {
        Self { brokers: format!("127.0.0.1:{}", site.port) }
    }

    fn client(&self) -> ClientConfig {
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", &self.brokers);
        config
    }

    /// Makes topics.
    pub fn create(&self, topics: &[&str], partitions: i32) {
        let admin: AdminClient<DefaultClientContext> = self.client().create().expect("an admin client");
        let options = AdminOptions::new().operation_timeout(Some(PATIENCE)).request_timeout(Some(PATIENCE));
        let new: Vec<NewTopic<'_>> =
            topics.iter().map(|name| NewTopic::new(name, partitions, TopicReplication::Fixed(1))).collect();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let made = runtime.block_on(admin.create_topics(&new, &options)).expect("an answer");
        assert!(made.iter().all(Result::is_ok), "{made:?}");
    }

    /// A member of a group that begins with the first message of the topic, and commits only what it has worked on.
    pub fn join(&self, group: &str, topic: &str) -> Member {
        let mut config = self.client();
        config.set("group.id", group).set("enable.auto.commit", "false").set("auto.offset.reset", "earliest");
        let consumer: BaseConsumer = config.create().expect("a consumer");
        consumer.subscribe(&[topic]).expect("a subscription");
        Member(consumer)
    }

    /// Everything in a topic, partition by partition.
    pub fn read(&self, topic: &str) -> Vec<Record> {
        let mut config = self.client();
        config.set("group.id", "tests").set("enable.auto.commit", "false").set("fetch.wait.max.ms", "10");
        let consumer: BaseConsumer = config.create().expect("a consumer");
        let metadata = consumer.fetch_metadata(Some(topic), PATIENCE).expect("metadata");
        let (mut left, mut assignment) = (BTreeMap::new(), TopicPartitionList::new());
        for partition in metadata.topics()[0].partitions().iter().map(rdkafka::metadata::MetadataPartition::id) {
            let (_, end) = consumer.fetch_watermarks(topic, partition, PATIENCE).expect("watermarks");
            if end > 0 {
                left.insert(partition, end);
                assignment.add_partition_offset(topic, partition, Offset::Beginning).expect("an offset");
            }
        }
        consumer.assign(&assignment).expect("partitions");
        let mut records = Vec::new();
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
}

/// A member of a group; it leaves when it is dropped.
pub struct Member(BaseConsumer);

impl Member {
    /// Reads so many messages, and commits each.
    pub fn work(&self, messages: usize) {
        // A rebalance ends a poll without a message.
        let read = std::iter::repeat_with(|| self.0.poll(PATIENCE)).flatten();
        for message in read.take(messages) {
            self.0.commit_message(&message.expect("a message"), CommitMode::Sync).expect("a commit");
        }
    }
}

impl std::fmt::Debug for Member {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Member").finish_non_exhaustive()
    }
}

fn record(message: &BorrowedMessage<'_>) -> Record {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("it is text");
    let mut headers = BTreeMap::new();
    for header in message.headers().into_iter().flat_map(rdkafka::message::Headers::iter) {
        headers.entry(header.key.to_owned()).or_insert_with(|| text(header.value.unwrap_or_default()));
    }
    Record {
        partition: message.partition(),
        offset: message.offset(),
        key: message.key().map(text),
        headers,
        body: text(message.payload().unwrap_or_default()),
    }
}
