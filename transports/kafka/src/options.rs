//! What a Kafka transport is told, and what librdkafka is told of it.

use std::time::Duration;

use postroom_core::{Failure, LagOptions, Outbound, Secret, Template};
use postroom_tls::TlsFiles;
use rdkafka::ClientConfig;
use rdkafka::config::RDKafkaLogLevel;

/// Most messages we have on their way; also what the relay is told to stay below.
///
/// Enough to fill any link at these latencies; what is more waits in our hands, in order.
pub(crate) const IN_FLIGHT_MAX: usize = 10_000;
/// Largest batch we let librdkafka make, if the topics allow it.
pub(crate) const BATCH_BYTES: usize = 1_000_000;
/// Largest message librdkafka can be told to take. The topic's own limit counts, and that is smaller.
pub(crate) const MESSAGE_BYTES: usize = 1_000_000_000;

/// Options of a Kafka transport.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct KafkaOptions {
    /// Bootstrap brokers, as `host:port`. The others are learned from the first that answers.
    ///
    /// With one only, the relay cannot start while that one is down.
    pub brokers: Vec<String>,
    /// Topic of each event. Postroom never creates topics.
    ///
    /// Two topics for one key cost a round trip at each change, because the first must be acknowledged before the second.
    pub topic: Template,
    /// Topic of dead letters, with the reason in headers.
    ///
    /// Defaults to none: dead letters are only in the store.
    pub dlq_topic: Option<Template>,
    /// Handling of events whose topic does not exist.
    ///
    /// Defaults to waiting.
    pub unknown_topic: UnknownTopic,
    /// TLS with these files, which librdkafka reads each time it connects.
    ///
    /// Defaults to none: everything is readable on the way.
    pub tls: Option<TlsFiles>,
    /// Login.
    ///
    /// Defaults to none: whoever the broker takes us for.
    pub sasl: Option<Sasl>,
    /// Replicas that must have an event before it counts as delivered.
    ///
    /// Anything but [`Acks::All`] loses events when a broker dies, and is for those who have said that they know.
    ///
    /// Defaults to all.
    pub acks: Acks,
    /// Compression of batches.
    ///
    /// Saves network and the broker's disk for CPU here; what a topic allows is counted after compression.
    ///
    /// Defaults to none.
    pub compression: Compression,
    /// Time that a message may wait for others to share its batch.
    ///
    /// Zero makes many small requests; more than a few milliseconds is felt by every event.
    ///
    /// Defaults to 1 ms.
    pub linger: Duration,
    /// Time-out of an acknowledgement, after which all events in flight are sent again.
    ///
    /// Too short and an election of leaders makes duplicates; too long and a silent broker holds its route.
    ///
    /// Defaults to 30 seconds.
    pub timeout: Duration,
    /// Reading of the lag of consumer groups; [`LagOptions::names`] are groups, by default those that read the topics. `None` reads
    /// none.
    pub consumers: Option<LagOptions>,
}

impl KafkaOptions {
    /// Whether the next of a key may be sent before one is acknowledged. Without sequence numbers nobody keeps a later one from
    /// being written when an earlier one was not; where a missing topic is one event's failure, the next of its key must not be
    /// on its way already.
    pub(crate) fn pipelines_key(&self) -> bool {
        self.acks == Acks::All && self.unknown_topic == UnknownTopic::Wait
    }

    /// What it means for this event that its topic is not there.
    pub(crate) fn missing(&self, failure: Failure, outbound: &Outbound) -> Failure {
        let counts = self.unknown_topic == UnknownTopic::Retry && outbound.dead_letter.is_none();
        if counts && failure.code == "kafka.unknown_topic" {
            return Failure::transient("kafka.unknown_topic", failure.error);
        }
        failure
    }

    /// Creates options with the defaults.
    pub fn new(brokers: Vec<String>, topic: Template) -> Self {
        Self {
            brokers,
            topic,
            dlq_topic: None,
            unknown_topic: UnknownTopic::default(),
            tls: None,
            sasl: None,
            acks: Acks::default(),
            compression: Compression::default(),
            linger: Duration::from_millis(1),
            timeout: Duration::from_secs(30),
            consumers: Some(LagOptions::default()),
        }
    }
}

/// SASL login.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sasl {
    /// SASL mechanism.
    pub mechanism: Mechanism,
    /// Who.
    pub username: String,
    /// The password.
    pub password: Secret,
}

/// SASL mechanism.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Mechanism {
    /// By saying it: only over TLS.
    Plain,
    /// SCRAM with SHA-256.
    ScramSha256,
    /// SCRAM with SHA-512.
    ScramSha512,
}

impl Mechanism {
    /// Returns the name of the mechanism in Kafka.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Plain => "PLAIN",
            Self::ScramSha256 => "SCRAM-SHA-256",
            Self::ScramSha512 => "SCRAM-SHA-512",
        }
    }
}

/// Handling of events whose topic does not exist.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum UnknownTopic {
    /// It waits until somebody makes the topic; no attempt is counted.
    #[default]
    Wait,
    /// It is tried again as often as any that fails, and then dead. A place for dead letters is waited for all the same.
    /// Keys are not pipelined.
    Retry,
}

/// Replicas that must have an event before it counts as delivered.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Acks {
    /// All replicas in sync, at least the topic's `min.insync.replicas`.
    #[default]
    All,
    /// The leader of the partition; what it has not passed on dies with it.
    Leader,
    /// Nobody: what was written to the connection counts as delivered.
    None,
}

impl Acks {
    fn as_str(self) -> &'static str {
        match self {
            Self::All => "all",
            Self::Leader => "1",
            Self::None => "0",
        }
    }
}

/// Compression of batches.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "each is the name of a codec")]
#[non_exhaustive]
pub enum Compression {
    #[default]
    None,
    Gzip,
    Lz4,
    Snappy,
    Zstd,
}

impl Compression {
    fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Gzip => "gzip",
            Self::Lz4 => "lz4",
            Self::Snappy => "snappy",
            Self::Zstd => "zstd",
        }
    }
}

/// How large batches may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Batches {
    /// Up to so many bytes.
    Bytes(usize),
    /// Every message alone, so that a refusal has one address.
    Single,
}

impl KafkaOptions {
    /// For a client that only asks.
    pub(crate) fn client(&self) -> ClientConfig {
        client(&self.brokers, self.tls.as_ref(), self.sasl.as_ref())
    }

    /// For a producer that never drops a message from the middle of a key.
    pub(crate) fn producer(&self, batches: Batches) -> ClientConfig {
        let safe = self.acks == Acks::All;
        let mut config = self.client();
        config
            .set("acks", self.acks.as_str())
            .set("enable.idempotence", safe.to_string())
            // A batch that fails for good ends the producer, before the next one of its partition is written.
            .set("enable.gapless.guarantee", safe.to_string())
            // Without sequence numbers, order is only kept by one request at a time.
            .set("max.in.flight.requests.per.connection", if safe { "5" } else { "1" })
            // No message ever expires by itself: the driver gives everything up, or nothing.
            .set("message.timeout.ms", "0")
            // Topics are looked up before: one that is unknown afterwards was deleted.
            .set("topic.metadata.propagation.max.ms", "1000")
            .set("linger.ms", format!("{:.3}", self.linger.as_secs_f64() * 1000.0))
            .set("compression.type", self.compression.as_str())
            // Where Java's clients put a key.
            .set("partitioner", "murmur2_random")
            .set("message.max.bytes", MESSAGE_BYTES.to_string())
            // It counts acknowledged ones until all of their batch were looked at.
            .set("queue.buffering.max.messages", (IN_FLIGHT_MAX * 2).to_string());
        match batches {
            Batches::Bytes(bytes) => config.set("batch.size", bytes.to_string()),
            Batches::Single => config.set("batch.num.messages", "1"),
        };
        config
    }
}

/// For a client that only asks.
pub(crate) fn client(brokers: &[String], tls: Option<&TlsFiles>, sasl: Option<&Sasl>) -> ClientConfig {
    let protocol = match (tls, sasl) {
        (None, None) => "plaintext",
        (Some(_), None) => "ssl",
        (None, Some(_)) => "sasl_plaintext",
        (Some(_), Some(_)) => "sasl_ssl",
    };
    let mut config = ClientConfig::new();
    config
        .set("bootstrap.servers", brokers.join(","))
        .set("client.id", "postroom")
        .set("security.protocol", protocol)
        .set("socket.keepalive.enable", "true")
        .set("socket.nagle.disable", "true")
        // Names are made from events: topics must come from people, with the partitions and replicas they want.
        .set("allow.auto.create.topics", "false")
        .set("enable.metrics.push", "false")
        .set_log_level(RDKafkaLogLevel::Info);
    if let Some(TlsFiles { ca_file, cert_file, key_file }) = tls {
        config.set("ssl.endpoint.identification.algorithm", "https");
        let files =
            [("ssl.ca.location", ca_file), ("ssl.certificate.location", cert_file), ("ssl.key.location", key_file)];
        for (name, file) in files {
            if let Some(file) = file {
                config.set(name, file.to_string_lossy());
            }
        }
    }
    if let Some(Sasl { mechanism, username, password }) = sasl {
        config
            .set("sasl.mechanism", mechanism.as_str())
            .set("sasl.username", username)
            .set("sasl.password", password.expose());
    }
    config
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options() -> KafkaOptions {
        KafkaOptions::new(vec!["a:1".to_owned(), "b:2".to_owned()], Template::parse("t", &[]).unwrap())
    }

    #[test]
    fn a_producer_is_idempotent_and_waits_for_all_replicas_unless_somebody_gave_that_up() {
        let safe = options().producer(Batches::Bytes(BATCH_BYTES));
        for (name, value) in [
            ("bootstrap.servers", "a:1,b:2"),
            ("acks", "all"),
            ("enable.idempotence", "true"),
            ("message.timeout.ms", "0"),
            ("linger.ms", "1.000"),
        ] {
            assert_eq!(safe.get(name), Some(value), "{name}");
        }
        let unsafe_one = KafkaOptions { acks: Acks::Leader, ..options() }.producer(Batches::Single);
        for (name, value) in [
            ("acks", "1"),
            ("enable.idempotence", "false"),
            ("max.in.flight.requests.per.connection", "1"),
            ("batch.num.messages", "1"),
        ] {
            assert_eq!(unsafe_one.get(name), Some(value), "{name}");
        }
    }

    #[test]
    fn a_password_is_in_no_debug_output() {
        let sasl = Sasl { mechanism: Mechanism::Plain, username: "u".into(), password: Secret::new("canary") };
        let options = KafkaOptions { sasl: Some(sasl), ..options() };
        assert!(!format!("{options:?}").contains("canary"));
        assert!(!format!("{:?}", options.client()).contains("canary"));
    }
}
