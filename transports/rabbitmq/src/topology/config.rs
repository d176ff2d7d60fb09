//! `[topology]` of all routes that go to RabbitMQ.

use postroom_settings::{Entry, Key, Kind, Node, Place, Problems, Table, optional};

use super::{
    Binding, Exchange, ExchangeKind, Mode, Queue, QueueKind, Topology, TopologyError, check_binding_key, check_name,
};

/// Keys of `[topology]`.
pub static TOPOLOGY: &[Key] = &[
    optional(
        "mode",
        Kind::Word(&["declare", "check"]),
        r#""declare""#,
        "Handling of missing parts: declare creates them, check keeps their routes waiting; existing parts are never changed.",
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
    "Type of the exchange; by default topic.",
)];

static QUEUE: &[Key] = &[
    optional(
        "type",
        Kind::Word(&["quorum", "classic"]),
        r#""quorum""#,
        "Type of the queue: quorum, the default, on a majority of nodes, or classic, on one node.",
    ),
    optional(
        "bind",
        Kind::List(&Kind::Table(BINDING)),
        r#"[{ exchange = "shop.events", routing_key = "order.*" }]"#,
        "Bindings of the queue.",
    ),
    optional(
        "dlq",
        Kind::Flag,
        "true",
        "Whether messages that consumers reject go to a queue NAME.dlq, through an exchange EXCHANGE.dlx.",
    ),
    optional(
        "max_length",
        Kind::Count,
        "100000",
        "Maximum number of messages in the queue; further ones are rejected and retried.",
    ),
];

static BINDING: &[Key] = &[
    optional("exchange", Kind::Text, r#""shop.events""#, "Exchange of the binding."),
    optional(
        "routing_key",
        Kind::Text,
        r#""order.*""#,
        "Routing key of the binding; `*` matches one word or a part of one, `#` any number of words.",
    ),
];

/// What must be there; nothing when nothing is named.
pub(crate) fn read_topology(table: &Table, problems: &mut Problems) -> Option<Topology> {
    let entries = |name: &str| table.table(name).map(|table| table.0.as_slice()).unwrap_or_default();
    let mode = if table.text("mode") == Some("check") { Mode::Check } else { Mode::Declare };
    let exchanges: Vec<Exchange> = entries("exchange").iter().map(|entry| exchange(problems, entry)).collect();
    let queues: Vec<Queue> = entries("queue").iter().map(|entry| queue(problems, entry)).collect();
    let topology = Topology { mode, exchanges, queues };
    if let (Err(error @ TopologyError::NotDeclared(_)), Some(place)) = (topology.check(), table.get("mode")) {
        problems.at(&place.place, error.to_string(), None);
    }
    (!topology.exchanges.is_empty() || !topology.queues.is_empty()).then_some(topology)
}

fn exchange(problems: &mut Problems, entry: &Entry) -> Exchange {
    fits(problems, &entry.place, check_name(&entry.name));
    let kind = match entry.node.table().and_then(|table| table.text("type")) {
        Some("direct") => ExchangeKind::Direct,
        Some("fanout") => ExchangeKind::Fanout,
        Some("headers") => ExchangeKind::Headers,
        _ => ExchangeKind::Topic,
    };
    Exchange { name: entry.name.clone(), kind }
}

fn queue(problems: &mut Problems, entry: &Entry) -> Queue {
    let empty = Table::default();
    let table = entry.node.table().unwrap_or(&empty);
    let list = table.get("bind").and_then(Node::list).unwrap_or_default();
    let queue = Queue {
        name: entry.name.clone(),
        kind: if table.text("type") == Some("classic") { QueueKind::Classic } else { QueueKind::Quorum },
        bindings: list.iter().filter_map(|node| binding(problems, &entry.name, node)).collect(),
        dlq: table.flag("dlq"),
        max_length: table.get("max_length").and_then(Node::count).map(u64::from),
    };
    fits(problems, &entry.place, queue.check_names());
    queue
}

fn binding(problems: &mut Problems, queue: &str, node: &Node) -> Option<Binding> {
    let table = node.table()?;
    let mut text = |name: &str, example: &str| {
        let found = table.get(name);
        if found.is_none() {
            let message = format!("a binding of queue {queue:?} has no `{name}`");
            problems.at(&node.place, message, Some(format!("add for instance {name} = {example}")));
        }
        found
    };
    let exchange = text("exchange", r#""shop.events""#);
    let key = text("routing_key", r##""#""##)?;
    fits(problems, &key.place, check_binding_key(key.text().unwrap_or_default()));
    Some(Binding { exchange: exchange?.text()?.to_owned(), routing_key: key.text()?.to_owned() })
}

fn fits(problems: &mut Problems, place: &Place, checked: Result<(), TopologyError>) {
    if let Err(error) = checked {
        problems.at(place, error.to_string(), None);
    }
}
