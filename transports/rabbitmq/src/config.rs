//! `to = { rabbitmq = { … } }`.

use std::any::Any;
use std::sync::Arc;

use postroom_core::Transport;
use postroom_core::envelope::Binding;
use postroom_settings::{Key, Kind, Node, Problems, SOME, Table, key, optional, table};
use postroom_tls::config::{TLS, read_tls};
use postroom_transport_kit::{ALLOW_PLAIN_PASSWORD, Configured, Encoding, LAG_EVERY, TargetReader, TransportKind};

use crate::topology::config::read_topology;
use crate::{CODES, RabbitMq, RabbitMqOptions, Unroutable};

/// Kind of transport, for the configuration.
pub const KIND: TransportKind = TransportKind {
    name: "rabbitmq",
    doc: "RabbitMQ exchange.",
    shared: Some("Defaults for routes to RabbitMQ."),
    keys: KEYS,
    codes: CODES,
    headers: true,
    signed_by: &[],
    read: |reader, node| Some(Box::new(options(reader, node)?)),
    together: Some(share_topology),
};

const EXAMPLE: &str = r#""amqps://relay:password@rabbit.example/shop""#;

static KEYS: &[Key] = &[
    optional(
        "url",
        Kind::Secret,
        EXAMPLE,
        "URL of the broker, with the virtual host as path; ?auth_mechanism=external logs in with the client certificate.",
    ),
    optional("url_file", Kind::Path, r#""/run/credentials/amqp-url""#, "File with the URL, instead of `url`."),
    table("tls", TLS, "TLS certificates for amqps://."),
    ALLOW_PLAIN_PASSWORD,
    optional(
        "exchange",
        Kind::Text,
        r#""shop.events""#,
        "Exchange; by default the default exchange, where the routing key is the name of a queue.",
    ),
    key("routing_key", Kind::Text, r#""{type}""#, "Routing key, made from the event."),
    key("unroutable", Kind::Word(UNROUTABLE), r#""retry""#, "Handling of events that no queue is bound for."),
    key(
        "heartbeat",
        Kind::Duration(std::time::Duration::from_secs(1)),
        r#""10s""#,
        "Interval of heartbeats; the connection is closed after two missing heartbeats.",
    ),
    key("timeout", SOME, r#""30s""#, "Time-out of a confirm, and of connecting."),
    table("consumers", CONSUMERS, "Messages and consumers of queues."),
];

static CONSUMERS: &[Key] = &[
    LAG_EVERY,
    optional(
        "queues",
        Kind::List(&Kind::Text),
        r#"["billing", "search"]"#,
        "Queues, beside those that [topology] binds to the exchange.",
    ),
];

static UNROUTABLE: &[&str] = &["retry", "dead", "accept"];

impl Configured for RabbitMqOptions {
    fn describe(&self) -> String {
        format!("rabbitmq {}", self.exchange_name())
    }

    fn destination(&self) -> Option<String> {
        Some(self.exchange_name().to_owned())
    }

    fn build(&self, route: &str, encoding: Encoding<'_>) -> Arc<dyn Transport> {
        Arc::new(RabbitMq::new(route, self.clone(), encoding.encoder(Binding::Amqp)))
    }
}

/// Gives every route the topology.
fn share_topology(root: &Table, routes: &mut [&mut dyn Configured], problems: &mut Problems) {
    let Some(topology) = root.table("topology").and_then(|table| read_topology(table, problems)) else { return };
    for route in routes {
        if let Some(options) = (&mut **route as &mut dyn Any).downcast_mut::<RabbitMqOptions>() {
            options.topology = Some(topology.clone());
        }
    }
}

fn options(reader: &mut TargetReader<'_>, node: &Node) -> Option<RabbitMqOptions> {
    let route = reader.route;
    let parts = node.table()?;
    let urls = reader.broker_urls(node, &["amqp", "amqps"], EXAMPLE);
    let routing_key = parts.get("routing_key").and_then(|node| reader.template(node, &[]));
    let tls = read_tls(parts, reader.cwd, reader.problems);
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
        consumers: reader.lag(parts, "queues"),
        ..RabbitMqOptions::new(url, parts.text("exchange").unwrap_or_default(), routing_key?)
    };
    if let Err(error) = options.check() {
        let given = parts.get("url").or_else(|| parts.get("url_file")).unwrap_or(node);
        reader.problems.at(&given.place, format!("route `{route}`: {error}"), None);
        return None;
    }
    Some(options)
}
