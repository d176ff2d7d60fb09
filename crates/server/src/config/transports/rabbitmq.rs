//! `to = { rabbitmq = { … } }`, and the `[topology]` of all routes that go there.

use postroom_rabbitmq::{
    Binding, Exchange, ExchangeKind, Mode, Queue, QueueKind, RabbitMqOptions, Topology, TopologyError, Unroutable,
    check_binding_key, check_name,
};

use super::super::keys::{Key, Kind, SOME, key, optional, table};
use super::super::read::Read;
use super::super::tree::{Entry, Node, Place, Table};
use super::parts::TLS;

const EXAMPLE: &str = r#""amqps://relay:password@rabbit.example/shop""#;

pub(super) static KEYS: &[Key] = &[
    optional(
        "url",
        Kind::Secret,
        EXAMPLE,
        "Where the broker is, the virtual host as path; ?auth_mechanism=external logs in with the certificate.",
    ),
    optional("url_file", Kind::Path, r#""/run/credentials/amqp-url""#, "A file with the URL, instead of `url`."),
    table("tls", TLS, "Certificates for amqps://."),
    optional(
        "exchange",
        Kind::Text,
        r#""shop.events""#,
        "The exchange; without it the default one, where the routing key is a queue's name.",
    ),
    key("routing_key", Kind::Text, r#""{type}""#, "The routing key, made from the event."),
    key("unroutable", Kind::Word(UNROUTABLE), r#""retry""#, "What becomes of an event that no queue takes."),
    key(
        "heartbeat",
        Kind::Duration(std::time::Duration::from_secs(1)),
        r#""10s""#,
        "How often both sides show that they are there; silence of twice as long ends the connection.",
    ),
    key("timeout", SOME, r#""30s""#, "How long a confirm may take, and getting in."),
];

static UNROUTABLE: &[&str] = &["retry", "dead", "accept"];

/// `[topology]`.
pub(crate) static TOPOLOGY: &[Key] = &[
    optional(
        "mode",
        Kind::Word(&["declare", "check"]),
        r#""declare""#,
        "Whether what is missing is made, the default, or keeps its routes waiting; what exists is left as it is.",
    ),
    optional(
        "exchange",
        Kind::Open(&Kind::Table(EXCHANGE)),
        r#"{ "shop.events" = { type = "topic" } }"#,
        "Durable exchanges: [topology.exchange.NAME].",
    ),
    optional(
        "queue",
        Kind::Open(&Kind::Table(QUEUE)),
        r#"{ mails = { bind = [{ exchange = "shop.events", routing_key = "order.*" }], dlq = true } }"#,
        "Durable queues: [topology.queue.NAME].",
    ),
];

static EXCHANGE: &[Key] = &[optional(
    "type",
    Kind::Word(&["topic", "direct", "fanout", "headers"]),
    r#""topic""#,
    "How it chooses queues; by default by patterns of words.",
)];

static QUEUE: &[Key] = &[
    optional(
        "type",
        Kind::Word(&["quorum", "classic"]),
        r#""quorum""#,
        "On a majority of nodes, the default, or on one.",
    ),
    optional(
        "bind",
        Kind::List(&Kind::Table(BINDING)),
        r#"[{ exchange = "shop.events", routing_key = "order.*" }]"#,
        "What it takes.",
    ),
    optional(
        "dlq",
        Kind::Flag,
        "true",
        "Whether what consumers reject goes to a queue NAME.dlq, through an exchange EXCHANGE.dlx.",
    ),
    optional("max_length", Kind::Count, "100000", "Most messages in it; further ones are refused and tried again."),
];

static BINDING: &[Key] = &[
    optional("exchange", Kind::Text, r#""shop.events""#, "Of which exchange."),
    optional("routing_key", Kind::Text, r#""order.*""#, "Which; `*` is one word, `#` any number of words."),
];

impl Read<'_> {
    pub(super) fn rabbitmq(&mut self, route: &str, node: &Node) -> Option<RabbitMqOptions> {
        let parts = node.table()?;
        let urls = self.broker_urls(route, node, &["amqp", "amqps"], EXAMPLE);
        let routing_key = parts.get("routing_key").and_then(|node| self.template(node, &[]));
        let tls = self.tls(parts);
        let unroutable = match parts.text("unroutable") {
            Some("dead") => Unroutable::Dead,
            Some("accept") => Unroutable::Accept,
            _ => Unroutable::Retry,
        };
        let url = urls.into_iter().next()?;
        let options = RabbitMqOptions {
            tls,
            unroutable,
            heartbeat: parts.duration("heartbeat"),
            timeout: parts.duration("timeout"),
            ..RabbitMqOptions::new(url, parts.text("exchange").unwrap_or_default(), routing_key?)
        };
        if let Err(error) = options.check() {
            let given = parts.get("url").or_else(|| parts.get("url_file")).unwrap_or(node);
            self.problems.at(&given.place, format!("route `{route}`: {error}"), None);
            return None;
        }
        Some(options)
    }

    /// What must be there; nothing when nothing is named.
    pub(in super::super) fn topology(&mut self, table: &Table) -> Option<Topology> {
        let entries = |name: &str| table.table(name).map(|table| table.0.as_slice()).unwrap_or_default();
        let mode = if table.text("mode") == Some("check") { Mode::Check } else { Mode::Declare };
        let exchanges: Vec<Exchange> = entries("exchange").iter().map(|entry| self.exchange(entry)).collect();
        let queues: Vec<Queue> = entries("queue").iter().map(|entry| self.queue(entry)).collect();
        (!exchanges.is_empty() || !queues.is_empty()).then_some(Topology { mode, exchanges, queues })
    }

    fn exchange(&mut self, entry: &Entry) -> Exchange {
        self.fits(&entry.place, check_name(&entry.name));
        let kind = match entry.node.table().and_then(|table| table.text("type")) {
            Some("direct") => ExchangeKind::Direct,
            Some("fanout") => ExchangeKind::Fanout,
            Some("headers") => ExchangeKind::Headers,
            _ => ExchangeKind::Topic,
        };
        Exchange { name: entry.name.clone(), kind }
    }

    fn queue(&mut self, entry: &Entry) -> Queue {
        let empty = Table::default();
        let table = entry.node.table().unwrap_or(&empty);
        let list = table.get("bind").and_then(Node::list).unwrap_or_default();
        let queue = Queue {
            name: entry.name.clone(),
            kind: if table.text("type") == Some("classic") { QueueKind::Classic } else { QueueKind::Quorum },
            bindings: list.iter().filter_map(|node| self.binding(&entry.name, node)).collect(),
            dlq: table.flag("dlq"),
            max_length: table.get("max_length").and_then(Node::count).map(u64::from),
        };
        self.fits(&entry.place, queue.check_names());
        queue
    }

    fn binding(&mut self, queue: &str, node: &Node) -> Option<Binding> {
        let table = node.table()?;
        let mut text = |name: &str, example: &str| {
            let found = table.get(name);
            if found.is_none() {
                let message = format!("a binding of queue {queue:?} has no `{name}`");
                self.problems.at(&node.place, message, Some(format!("add for instance {name} = {example}")));
            }
            found
        };
        let exchange = text("exchange", r#""shop.events""#);
        let key = text("routing_key", r##""#""##)?;
        self.fits(&key.place, check_binding_key(key.text().unwrap_or_default()));
        Some(Binding { exchange: exchange?.text()?.to_owned(), routing_key: key.text()?.to_owned() })
    }

    fn fits(&mut self, place: &Place, checked: Result<(), TopologyError>) {
        if let Err(error) = checked {
            self.problems.at(place, error.to_string(), None);
        }
    }
}
