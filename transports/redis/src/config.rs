//! `to = { redis = { … } }`.

use std::sync::Arc;

use postroom_core::Transport;
use postroom_core::envelope::Binding;
use postroom_settings::{Key, Kind, Node, SOME, key, optional, table};
use postroom_tls::config::{TLS, read_tls};
use postroom_transport_kit::{ALLOW_PLAIN_PASSWORD, Configured, Encoding, LAG_EVERY, TargetReader, TransportKind};

use crate::{CODES, Redis, RedisOptions};

/// Kind of transport, for the configuration.
pub const KIND: TransportKind = TransportKind {
    name: "redis",
    doc: "Redis stream.",
    shared: Some("Defaults for routes to Redis."),
    keys: KEYS,
    codes: CODES,
    headers: true,
    signed_by: &[],
    read: |reader, node| Some(Box::new(options(reader, node)?)),
    together: None,
};

static KEYS: &[Key] = &[
    optional(
        "url",
        Kind::Secret,
        r#""redis://localhost:6379/0""#,
        "URL of the server, redis:// or rediss:// with TLS; may contain user, password and database.",
    ),
    optional("url_file", Kind::Path, r#""/run/credentials/redis-url""#, "File with the URL, instead of `url`."),
    table("tls", TLS, "TLS certificates for rediss://."),
    ALLOW_PLAIN_PASSWORD,
    optional("stream", Kind::Text, r#""orders""#, "Stream of each event; {type}, {tenant}, … are fields of the event."),
    optional(
        "maxlen",
        Kind::Count,
        "1000000",
        "Approximate maximum length of the stream; older entries are trimmed, read or not; by default none are.",
    ),
    optional("wait_replicas", Kind::Count, "1", "Number of replicas that must have an event; by default none."),
    key("timeout", SOME, r#""5s""#, "Time-out of a response, and of connecting."),
    table("consumers", CONSUMERS, "Lag of consumer groups."),
];

static CONSUMERS: &[Key] = &[
    LAG_EVERY,
    optional(
        "groups",
        Kind::List(&Kind::Text),
        r#"["billing", "search"]"#,
        "Consumer groups; by default all groups of the stream.",
    ),
];

impl Configured for RedisOptions {
    fn describe(&self) -> String {
        format!("redis {} at {}", self.stream.as_str(), self.url)
    }

    fn destination(&self) -> Option<String> {
        Some(self.stream.as_str().to_owned())
    }

    fn build(&self, route: &str, encoding: Encoding<'_>) -> Arc<dyn Transport> {
        Arc::new(Redis::new(route, self.clone(), encoding.encoder(Binding::Redis)))
    }
}

fn options(reader: &mut TargetReader<'_>, redis: &Node) -> Option<RedisOptions> {
    let route = reader.route;
    let table = redis.table()?;
    let urls = reader.broker_urls(redis, &["redis", "rediss"], r#""redis://localhost:6379""#);
    let stream = reader.required(redis, "stream", r#""orders""#).and_then(|node| reader.template(node, &[]));
    let tls = read_tls(table, reader.cwd, reader.problems);
    let url = urls.into_iter().next()?;
    if let Some(node) = table.get("tls").filter(|_| url.scheme() == "redis") {
        let message = format!("route `{route}` has certificates, but its url begins with redis://");
        reader.problems.at(&node.place, message, Some("write rediss:// to talk in private".to_owned()));
    }
    let number = |name: &str| table.get(name).and_then(Node::count);
    Some(RedisOptions {
        tls,
        maxlen: number("maxlen").map(u64::from),
        wait_replicas: number("wait_replicas"),
        timeout: table.duration("timeout"),
        consumers: reader.lag(table, "groups"),
        ..RedisOptions::new(url, stream?)
    })
}
