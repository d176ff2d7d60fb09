//! `to = { kafka = { … } }`.

use postroom_kafka::{Acks, Compression, KafkaOptions, Mechanism, Sasl, UnknownTopic};
use postroom_tls::TlsFiles;

use super::super::keys::{ANY, Key, Kind, SOME, key, optional};
use super::super::read::Read;
use super::super::tree::{Node, Table};
use super::parts::TLS;

pub(super) static KEYS: &[Key] = &[
    optional(
        "brokers",
        Kind::List(&Kind::Text),
        r#"["kafka-1:9092", "kafka-2:9092"]"#,
        "Brokers to ask for the cluster, as host:port.",
    ),
    optional("topic", Kind::Text, r#""{prefix}.{type|lower}""#, "The topic, made from the event; never created here."),
    optional("prefix", Kind::Text, r#""shop""#, "What {prefix} stands for in `topic` and `dlq_topic`."),
    optional("dlq_topic", Kind::Text, r#""{prefix}.dlq""#, "Where dead events go too, with the reason in headers."),
    key(
        "unknown_topic",
        Kind::Word(&["wait", "retry"]),
        r#""wait""#,
        "What becomes of an event whose topic is not there.",
    ),
    optional("tls", Kind::Either(&Kind::Flag, &Kind::Table(TLS)), "true", "TLS: true, or certificates for it."),
    optional(
        "sasl",
        Kind::Table(SASL),
        r#"{ mechanism = "scram-sha-512", username = "relay", password_file = "password" }"#,
        "How to log in.",
    ),
    key("acks", Kind::Word(ACKS), r#""all""#, "Who must have an event; less than all also needs `allow_unsafe`."),
    optional("allow_unsafe", Kind::Flag, "false", "Allows `acks` that lose events when a broker dies."),
    key("compression", Kind::Word(COMPRESSION), r#""none""#, "How batches are compressed."),
    key("linger", ANY, r#""1ms""#, "How long an event may wait for others to share its batch."),
    key("timeout", SOME, r#""30s""#, "How long an acknowledgement may take before all in flight is sent anew."),
];

static SASL: &[Key] = &[
    optional("mechanism", Kind::Word(MECHANISMS), r#""scram-sha-512""#, "How the password is proven."),
    optional("username", Kind::Text, r#""relay""#, "Who."),
    optional("password", Kind::Password, r#""secret""#, "The password."),
    optional("password_file", Kind::Path, r#""/run/credentials/kafka""#, "A file with it, instead of `password`."),
];

static ACKS: &[&str] = &["all", "leader", "none"];
static COMPRESSION: &[&str] = &["none", "gzip", "lz4", "snappy", "zstd"];
static MECHANISMS: &[&str] = &["plain", "scram-sha-256", "scram-sha-512"];

/// Where it goes, for people.
pub(super) fn describe(options: &KafkaOptions) -> String {
    format!("kafka {} at {}", options.topic.as_str(), options.brokers.first().map_or("", String::as_str))
}

impl Read<'_> {
    pub(super) fn kafka(&mut self, route: &str, node: &Node) -> Option<KafkaOptions> {
        let parts = node.table()?;
        let brokers = self.required(route, node, "brokers", r#"["kafka:9092"]"#);
        let brokers = brokers.map(|node| self.brokers(node)).filter(|brokers| !brokers.is_empty());
        let prefix = parts.text("prefix").map(|prefix| ("prefix", prefix));
        let topic = self.required(route, node, "topic", r#""orders.v1""#);
        let topic = topic.and_then(|node| self.template(node, prefix.as_slice()));
        let dlq_topic = parts.get("dlq_topic").and_then(|node| self.template(node, prefix.as_slice()));
        let acks = self.acks(route, parts);
        let tls = self.kafka_tls(parts);
        let sasl = parts.get("sasl").and_then(|node| self.sasl(route, node));
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
            ..KafkaOptions::new(brokers?, topic?)
        })
    }

    fn brokers(&mut self, node: &Node) -> Vec<String> {
        let mut brokers = Vec::new();
        // Variables have them with commas.
        let list = node.list().unwrap_or_default();
        let each =
            list.iter().flat_map(|node| node.text().unwrap_or_default().split(',').map(move |text| (node, text)));
        for (entry, text) in each.filter(|(_, text)| !text.is_empty()) {
            let port = text.rsplit_once(':').and_then(|(host, port)| (!host.is_empty()).then(|| port.parse::<u16>()));
            if !matches!(port, Some(Ok(1..))) || text.contains(['/', '@']) || text.contains(char::is_whitespace) {
                let hint = "write host:port, for instance \"kafka:9092\"".to_owned();
                self.problems.at(&entry.place, format!("{text:?} is no broker"), Some(hint));
                continue;
            }
            brokers.push(text.to_owned());
        }
        brokers
    }

    fn acks(&mut self, route: &str, parts: &Table) -> Acks {
        let acks = match parts.text("acks") {
            Some("leader") => Acks::Leader,
            Some("none") => Acks::None,
            _ => return Acks::All,
        };
        if let Some(node) = parts.get("acks")
            && !parts.flag("allow_unsafe")
        {
            let message =
                format!("`acks` = {} of route `{route}` loses events when a broker dies", node.data.describe());
            let hint = "leave it out, or say that you know with allow_unsafe = true".to_owned();
            self.problems.at(&node.place, message, Some(hint));
        }
        acks
    }

    fn kafka_tls(&mut self, parts: &Table) -> Option<TlsFiles> {
        let node = parts.get("tls")?;
        match node.flag() {
            Some(yes) => yes.then(TlsFiles::default),
            None => node.table().map(|_| self.tls(parts)),
        }
    }

    fn sasl(&mut self, route: &str, node: &Node) -> Option<Sasl> {
        let parts = node.table()?;
        let username = self.required(route, node, "username", r#""relay""#).and_then(Node::text);
        let password = self.secret(route, parts, "password");
        if password.is_none() && parts.get("password").is_none() && parts.get("password_file").is_none() {
            self.required(route, node, "password_file", r#""/run/credentials/kafka""#);
        }
        let mechanism = match parts.text("mechanism") {
            Some("plain") => Mechanism::Plain,
            Some("scram-sha-256") => Mechanism::ScramSha256,
            _ => Mechanism::ScramSha512,
        };
        Some(Sasl { mechanism, username: username?.to_owned(), password: password? })
    }
}
