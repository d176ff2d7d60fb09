//! Where a route goes: one file per transport, with its keys and what they mean.
//!
//! To add one: a file here, a line in [`TO`] and [`SHARED`], an arm in [`Read::target`] and [`Target`], a line in
//! `crate::transports`. What several transports read alike is in [`parts`].

#[cfg(feature = "exec")]
mod exec;
#[cfg(feature = "kafka")]
mod kafka;
#[cfg(feature = "nats")]
pub(super) mod nats;
#[cfg(any(feature = "kafka", feature = "rabbitmq", feature = "nats", feature = "redis", feature = "webhook"))]
#[cfg_attr(
    not(all(feature = "kafka", feature = "rabbitmq", feature = "nats", feature = "redis", feature = "webhook")),
    allow(dead_code, reason = "what one transport does not read another does")
)]
mod parts;
#[cfg(feature = "http")]
mod pull;
#[cfg(feature = "rabbitmq")]
pub(super) mod rabbitmq;
#[cfg(feature = "redis")]
mod redis;
#[cfg(feature = "webhook")]
mod webhook;

#[cfg(feature = "exec")]
pub use exec::{ExecPeer, ExecTarget};

use super::keys::{Key, table};
use super::read::Read;
use super::tree::Node;

/// `to = { … }`: the transports of this build.
pub(crate) static TO: &[Key] = &[
    #[cfg(feature = "exec")]
    table("exec", exec::KEYS, "A child process that speaks JSON lines."),
    #[cfg(feature = "kafka")]
    table("kafka", kafka::KEYS, "A Kafka or Redpanda topic."),
    #[cfg(feature = "rabbitmq")]
    table("rabbitmq", rabbitmq::KEYS, "A RabbitMQ exchange."),
    #[cfg(feature = "nats")]
    table("nats", nats::KEYS, "NATS JetStream."),
    #[cfg(feature = "redis")]
    table("redis", redis::KEYS, "Redis streams."),
    #[cfg(feature = "webhook")]
    table("webhook", webhook::KEYS, "A URL that gets a signed POST per event."),
    #[cfg(feature = "http")]
    table("pull", pull::KEYS, "Workers in any language, which ask for events over HTTP."),
    table("stdout", &[], "One envelope per line."),
    table("noop", &[], "Nowhere; delivered at once."),
];

/// `[transport.X]`: those that several routes may have in common.
pub(crate) static SHARED: &[Key] = &[
    #[cfg(feature = "kafka")]
    table("kafka", kafka::KEYS, "What Kafka topics have in common."),
    #[cfg(feature = "rabbitmq")]
    table("rabbitmq", rabbitmq::KEYS, "What RabbitMQ exchanges have in common."),
    #[cfg(feature = "nats")]
    table("nats", nats::KEYS, "NATS JetStream."),
    #[cfg(feature = "redis")]
    table("redis", redis::KEYS, "Redis streams."),
    #[cfg(feature = "webhook")]
    table("webhook", webhook::KEYS, "What webhooks have in common."),
];

/// Transports whose envelopes are all there is: they need a format that says everything.
pub(crate) static WITHOUT_HEADERS: &[&str] = &["exec", "pull", "stdout", "noop"];

/// Where a route goes.
#[derive(Debug, Clone, PartialEq)]
pub enum Target {
    /// A child process, or a unix socket, that speaks JSON lines.
    #[cfg(feature = "exec")]
    Exec(ExecTarget),
    /// A Kafka topic.
    #[cfg(feature = "kafka")]
    Kafka(Box<postroom_kafka::KafkaOptions>),
    /// A RabbitMQ exchange.
    #[cfg(feature = "rabbitmq")]
    RabbitMq(Box<postroom_rabbitmq::RabbitMqOptions>),
    /// A JetStream stream.
    #[cfg(feature = "nats")]
    Nats(Box<postroom_nats::NatsOptions>),
    /// A Redis stream.
    #[cfg(feature = "redis")]
    Redis(Box<postroom_redis::RedisOptions>),
    /// A URL.
    #[cfg(feature = "webhook")]
    Webhook(Box<postroom_webhook::WebhookOptions>),
    /// Whoever asks over HTTP.
    #[cfg(feature = "http")]
    Pull(postroom_pull::PullOptions),
    /// One envelope per line.
    Stdout,
    /// Nowhere.
    Noop,
}

impl Target {
    /// The word in the configuration.
    pub fn name(&self) -> &'static str {
        match self {
            #[cfg(feature = "exec")]
            Self::Exec(_) => "exec",
            #[cfg(feature = "kafka")]
            Self::Kafka(_) => "kafka",
            #[cfg(feature = "rabbitmq")]
            Self::RabbitMq(_) => "rabbitmq",
            #[cfg(feature = "nats")]
            Self::Nats(_) => "nats",
            #[cfg(feature = "redis")]
            Self::Redis(_) => "redis",
            #[cfg(feature = "webhook")]
            Self::Webhook(_) => "webhook",
            #[cfg(feature = "http")]
            Self::Pull(_) => "pull",
            Self::Stdout => "stdout",
            Self::Noop => "noop",
        }
    }

    /// The topic, exchange, subject, stream or receiver it goes to, as it is configured; nothing where there is only one.
    #[cfg(feature = "otlp")]
    pub(crate) fn destination(&self) -> Option<String> {
        match self {
            #[cfg(feature = "kafka")]
            Self::Kafka(options) => Some(options.topic.as_str().to_owned()),
            #[cfg(feature = "rabbitmq")]
            Self::RabbitMq(options) => Some(options.exchange_name().to_owned()),
            #[cfg(feature = "nats")]
            Self::Nats(options) => Some(options.subject.as_str().to_owned()),
            #[cfg(feature = "redis")]
            Self::Redis(options) => Some(options.stream.as_str().to_owned()),
            #[cfg(feature = "webhook")]
            Self::Webhook(options) => Some(options.receiver()),
            _ => None,
        }
    }

    /// Where it goes, for people; nothing that could be a password.
    pub fn describe(&self) -> String {
        match self {
            #[cfg(feature = "exec")]
            Self::Exec(exec) => format!("exec {}", exec.describe()),
            #[cfg(feature = "kafka")]
            Self::Kafka(options) => kafka::describe(options),
            #[cfg(feature = "rabbitmq")]
            Self::RabbitMq(options) => format!("rabbitmq {}", options.exchange_name()),
            #[cfg(feature = "nats")]
            Self::Nats(options) => nats::describe(options),
            #[cfg(feature = "redis")]
            Self::Redis(options) => redis::describe(options),
            #[cfg(feature = "webhook")]
            Self::Webhook(options) => format!("webhook {}", options.receiver()),
            _ => self.name().to_owned(),
        }
    }
}

impl Read<'_> {
    /// What `to` means; nothing when that has been reported.
    #[cfg_attr(
        not(any(
            feature = "exec",
            feature = "kafka",
            feature = "rabbitmq",
            feature = "nats",
            feature = "redis",
            feature = "webhook"
        )),
        expect(unused_variables, clippy::unused_self, reason = "what is left has no problems of its own to tell")
    )]
    pub(super) fn target(&mut self, route: &str, to: &Node) -> Option<Target> {
        let entry = to.table()?.0.first()?;
        match entry.name.as_str() {
            #[cfg(feature = "exec")]
            "exec" => self.exec(route, &entry.node).map(Target::Exec),
            #[cfg(feature = "kafka")]
            "kafka" => self.kafka(route, &entry.node).map(Box::new).map(Target::Kafka),
            #[cfg(feature = "rabbitmq")]
            "rabbitmq" => self.rabbitmq(route, &entry.node).map(|options| Target::RabbitMq(Box::new(options))),
            #[cfg(feature = "nats")]
            "nats" => self.nats(route, &entry.node).map(Box::new).map(Target::Nats),
            #[cfg(feature = "redis")]
            "redis" => self.redis(route, &entry.node).map(Box::new).map(Target::Redis),
            #[cfg(feature = "webhook")]
            "webhook" => self.webhook(route, &entry.node).map(|options| Target::Webhook(Box::new(options))),
            #[cfg(feature = "http")]
            "pull" => pull::pull(&entry.node).map(Target::Pull),
            "stdout" => Some(Target::Stdout),
            "noop" => Some(Target::Noop),
            _ => None,
        }
    }
}
