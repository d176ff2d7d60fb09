//! What a subscription from Kafka is told, and what librdkafka is told of it.

use std::time::Duration;

use postroom_tls::TlsFiles;
use rdkafka::ClientConfig;

use crate::options::{MESSAGE_BYTES, Sasl, client};

/// Options of a subscription.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct KafkaSubscriptionOptions {
    /// Bootstrap brokers, as `host:port`.
    pub brokers: Vec<String>,
    /// Topics to read. A subscription never creates topics.
    pub topics: Vec<String>,
    /// Consumer group whose members share the partitions: one per service, the same for all its instances.
    ///
    /// Partitions are handed over one by one (`cooperative-sticky`), so a group that was begun by other means with another
    /// strategy must be empty before.
    pub group: String,
    /// Topic of dead messages, with the reason in headers. It must accept messages as large as the others.
    pub dead_topic: String,
    /// Start of a group that has no offsets yet.
    ///
    /// Defaults to the beginning.
    pub begin: Begin,
    /// TLS with these files.
    ///
    /// Defaults to none: everything is readable on the way.
    pub tls: Option<TlsFiles>,
    /// Login.
    ///
    /// Defaults to none: whoever the broker takes us for.
    pub sasl: Option<Sasl>,
    /// Maximum number of messages of one partition that the consumer holds, in the handler and behind it.
    ///
    /// Beyond it the partition is paused. Too few and each pause costs a fetch; too many and they fill memory.
    ///
    /// Defaults to 100.
    pub prefetch: u16,
    /// Time-out of the acknowledgement of a dead message.
    ///
    /// Defaults to 30 seconds.
    pub timeout: Duration,
    /// Time without heartbeats after which the partitions of a member go to others.
    ///
    /// Too short and a pause of the process hands them over; too long and those of a crashed one wait.
    ///
    /// Defaults to 45 seconds.
    pub session_timeout: Duration,
}

/// Start of a group that has no offsets yet.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Begin {
    /// With the oldest message there is.
    #[default]
    Earliest,
    /// With what comes from now on.
    Latest,
}

impl KafkaSubscriptionOptions {
    /// Creates options with the defaults.
    pub fn new(
        brokers: Vec<String>,
        topics: Vec<String>,
        group: impl Into<String>,
        dead_topic: impl Into<String>,
    ) -> Self {
        Self {
            brokers,
            topics,
            group: group.into(),
            dead_topic: dead_topic.into(),
            begin: Begin::default(),
            tls: None,
            sasl: None,
            prefetch: 100,
            timeout: Duration::from_secs(30),
            session_timeout: Duration::from_secs(45),
        }
    }

    /// For a member of the group.
    pub(super) fn consumer(&self) -> ClientConfig {
        let mut config = client(&self.brokers, self.tls.as_ref(), self.sasl.as_ref());
        config
            .set("group.id", &self.group)
            .set("partition.assignment.strategy", "cooperative-sticky")
            .set("session.timeout.ms", self.session_timeout.as_millis().to_string())
            .set("heartbeat.interval.ms", (self.session_timeout / 10).as_millis().max(1).to_string())
            .set("auto.offset.reset", if self.begin == Begin::Earliest { "earliest" } else { "latest" })
            // Committed in the background is what we said is done, never what was only handed over.
            .set("enable.auto.offset.store", "false")
            .set("enable.auto.commit", "true")
            .set("auto.commit.interval.ms", "1000")
            // What it reads ahead is in memory; we hold `prefetch` of each partition besides.
            .set("queued.max.messages.kbytes", "16384");
        config
    }

    /// For the one that writes dead letters.
    pub(super) fn producer(&self) -> ClientConfig {
        let mut config = client(&self.brokers, self.tls.as_ref(), self.sasl.as_ref());
        config
            .set("acks", "all")
            .set("enable.idempotence", "true")
            .set("message.timeout.ms", self.timeout.as_millis().to_string())
            .set("topic.metadata.propagation.max.ms", "1000")
            .set("partitioner", "murmur2_random")
            .set("message.max.bytes", MESSAGE_BYTES.to_string());
        config
    }
}
