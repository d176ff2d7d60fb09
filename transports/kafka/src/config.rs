//! `to = { kafka = { … } }`.

use std::sync::Arc;

use postroom_core::envelope::Binding;
use postroom_core::{Transport, is_loopback};
use postroom_settings::{ANY, Key, Kind, Node, SOME, Table, key, optional, table};
use postroom_tls::TlsFiles;
use postroom_tls::config::{TLS, read_tls};
use postroom_transport_kit::{ALLOW_PLAIN_PASSWORD, Configured, Encoding, LAG_EVERY, TargetReader, TransportKind};

use crate::{Acks, CODES, Compression, Kafka, KafkaOptions, Mechanism, Sasl, UnknownTopic};

/// Kind of transport, for the configuration.
pub const KIND: TransportKind = TransportKind {
    name: "kafka",
    doc: "Kafka or Redpanda topic.",
    shared: Some("Defaults for routes to Kafka."),
    keys: KEYS,
    codes: CODES,
    headers: true,
    signed_by: &[],
    read: |reader, node| Some(Box::new(options(reader, node)?)),
    together: None,
};

static KEYS: &[Key] = &[
    optional(
        "brokers",
        Kind::List(&Kind::Text),
        r#"["kafka-1:9092", "kafka-2:9092"]"#,
        "Bootstrap brokers, as host:port.",
    ),
    optional(
        "topic",
        Kind::Text,
        r#""{prefix}.{type|lower}""#,
        "Topic, made from the event; Postroom never creates topics.",
    ),
    optional("prefix", Kind::Text, r#""shop""#, "Value of {prefix} in `topic` and `dlq_topic`."),
    optional(
        "dlq_topic",
        Kind::Text,
        r#""{prefix}.dlq""#,
        "Topic that dead letters are also published to, with the reason in headers.",
    ),
    key(
        "unknown_topic",
        Kind::Word(&["wait", "retry"]),
        r#""wait""#,
        "Handling of events whose topic does not exist: wait, or retry and count the attempt.",
    ),
    optional("tls", Kind::Either(&Kind::Flag, &Kind::Table(TLS)), "true", "TLS: true, or its certificates."),
    optional(
        "sasl",
        Kind::Table(SASL),
        r#"{ mechanism = "scram-sha-512", username = "relay", password_file = "password" }"#,
        "SASL login.",
    ),
    ALLOW_PLAIN_PASSWORD,
    key(
        "acks",
        Kind::Word(ACKS),
        r#""all""#,
        "Replicas that must acknowledge an event; values other than all require `allow_unsafe`.",
    ),
    optional("allow_unsafe", Kind::Flag, "false", "Whether `acks` may lose events when a broker dies."),
    key("compression", Kind::Word(COMPRESSION), r#""none""#, "Compression of batches."),
    key("linger", ANY, r#""1ms""#, "Time that an event may wait for others to share its batch."),
    key(
        "timeout",
        SOME,
        r#""30s""#,
        "Time-out of an acknowledgement, after which all events in flight are sent again.",
    ),
    table("consumers", CONSUMERS, "Lag of consumer groups."),
];

static CONSUMERS: &[Key] = &[
    LAG_EVERY,
    optional(
        "groups",
        Kind::List(&Kind::Text),
        r#"["billing", "search"]"#,
        "Consumer groups; by default those that read the topics of the route.",
    ),
];

static SASL: &[Key] = &[
    optional("mechanism", Kind::Word(MECHANISMS), r#""scram-sha-512""#, "SASL mechanism."),
    optional("username", Kind::Text, r#""relay""#, "User name."),
    optional("password", Kind::Password, r#""secret""#, "Password."),
    optional(
        "password_file",
        Kind::Path,
        r#""/run/credentials/kafka""#,
        "File with the password, instead of `password`.",
    ),
];

static ACKS: &[&str] = &["all", "leader", "none"];
static COMPRESSION: &[&str] = &["none", "gzip", "lz4", "snappy", "zstd"];
static MECHANISMS: &[&str] = &["plain", "scram-sha-256", "scram-sha-512"];

impl Configured for KafkaOptions {
    fn describe(&self) -> String {
        let broker = self.brokers.first().map_or("", String::as_str);
        format!("kafka {} at {broker}", self.topic.as_str())
    }

    fn destination(&self) -> Option<String> {
        Some(self.topic.as_str().to_owned())
    }

    fn build(&self, route: &str, encoding: Encoding<'_>) -> Arc<dyn Transport> {
        Arc::new(Kafka::new(route, self.clone(), encoding.encoder(Binding::Kafka)))
    }
}

fn options(reader: &mut TargetReader<'_>, node: &Node) -> Option<KafkaOptions> {
    let parts = node.table()?;
    let brokers = reader.required(node, "brokers", r#"["kafka:9092"]"#);
    let brokers = brokers.map(|node| broker_list(reader, node)).filter(|brokers| !brokers.is_empty());
    let prefix = parts.text("prefix").map(|prefix| ("prefix", prefix));
    let topic = reader.required(node, "topic", r#""orders.v1""#);
    let topic = topic.and_then(|node| reader.template(node, prefix.as_slice()));
    let dlq_topic = parts.get("dlq_topic").and_then(|node| reader.template(node, prefix.as_slice()));
    let acks = acks(reader, parts);
    let tls = tls(reader, parts);
    let sasl = parts.get("sasl").and_then(|node| sasl(reader, node));
    let plain = sasl.as_ref().is_some_and(|sasl| sasl.mechanism == Mechanism::Plain);
    if let (true, None, Some(brokers), Some(node)) = (plain, &tls, &brokers, parts.get("sasl")) {
        let host = |broker: &String| broker.rsplit_once(':').map(|(host, _)| host.to_owned()).unwrap_or_default();
        if let Some(host) = brokers.iter().map(host).find(|host| !is_loopback(host)) {
            reader.password_in_clear(parts, node, &host, "set tls = true or another mechanism");
        }
    }
    Some(KafkaOptions {
        dlq_topic,
        unknown_topic: match parts.text("unknown_topic") {
            Some("retry") => UnknownTopic::Retry,
            _ => UnknownTopic::Wait,
        },
        tls,
        sasl,
        acks,
        compression: match parts.text("compression") {
            Some("gzip") => Compression::Gzip,
            Some("lz4") => Compression::Lz4,
            Some("snappy") => Compression::Snappy,
            Some("zstd") => Compression::Zstd,
            _ => Compression::None,
        },
        linger: parts.duration("linger"),
        timeout: parts.duration("timeout"),
        consumers: reader.lag(parts, "groups"),
        ..KafkaOptions::new(brokers?, topic?)
    })
}

fn broker_list(reader: &mut TargetReader<'_>, node: &Node) -> Vec<String> {
    let mut brokers = Vec::new();
    // Variables have them with commas.
    let list = node.list().unwrap_or_default();
    let each = list.iter().flat_map(|node| node.text().unwrap_or_default().split(',').map(move |text| (node, text)));
    for (entry, text) in each.filter(|(_, text)| !text.is_empty()) {
        let port = text.rsplit_once(':').and_then(|(host, port)| (!host.is_empty()).then(|| port.parse::<u16>()));
        if !matches!(port, Some(Ok(1..))) || text.contains(['/', '@']) || text.contains(char::is_whitespace) {
            let hint = "write host:port, for instance \"kafka:9092\"".to_owned();
            reader.problems.at(&entry.place, format!("{text:?} is not a broker"), Some(hint));
            continue;
        }
        brokers.push(text.to_owned());
    }
    brokers
}

fn acks(reader: &mut TargetReader<'_>, parts: &Table) -> Acks {
    let route = reader.route;
    let acks = match parts.text("acks") {
        Some("leader") => Acks::Leader,
        Some("none") => Acks::None,
        _ => return Acks::All,
    };
    if let Some(node) = parts.get("acks")
        && !parts.flag("allow_unsafe")
    {
        let message = format!("`acks` = {} of route `{route}` loses events when a broker dies", node.data.describe());
        let hint = "leave it out, or say that you know with allow_unsafe = true".to_owned();
        reader.problems.at(&node.place, message, Some(hint));
    }
    acks
}

fn tls(reader: &mut TargetReader<'_>, parts: &Table) -> Option<TlsFiles> {
    let node = parts.get("tls")?;
    match node.flag() {
        Some(yes) => yes.then(TlsFiles::default),
        None => node.table().map(|_| read_tls(parts, reader.cwd, reader.problems)),
    }
}

fn sasl(reader: &mut TargetReader<'_>, node: &Node) -> Option<Sasl> {
    let parts = node.table()?;
    let username = reader.required(node, "username", r#""relay""#).and_then(Node::text);
    let password = reader.secret(parts, "password");
    if password.is_none() && parts.get("password").is_none() && parts.get("password_file").is_none() {
        reader.required(node, "password_file", r#""/run/credentials/kafka""#);
    }
    let mechanism = match parts.text("mechanism") {
        Some("plain") => Mechanism::Plain,
        Some("scram-sha-256") => Mechanism::ScramSha256,
        _ => Mechanism::ScramSha512,
    };
    Some(Sasl { mechanism, username: username?.to_owned(), password: password? })
}
