//! `to = { redis = { … } }`.

use postroom_redis::RedisOptions;

use super::super::keys::{Key, Kind, SOME, key, optional, table};
use super::super::read::Read;
use super::super::tree::Node;
use super::parts::TLS;

pub(super) static KEYS: &[Key] = &[
    optional(
        "url",
        Kind::Secret,
        r#""redis://localhost:6379/0""#,
        "The server, redis:// or rediss:// with TLS; user, password and database may stand in it.",
    ),
    optional("url_file", Kind::Path, r#""/run/credentials/redis-url""#, "A file with the URL, instead of `url`."),
    table("tls", TLS, "Certificates, for rediss://."),
    optional("stream", Kind::Text, r#""orders""#, "The stream of each event; {type}, {tenant}, … are its parts."),
    optional("maxlen", Kind::Count, "1000000", "About how many entries a stream keeps, read or not; by default all."),
    optional("wait_replicas", Kind::Count, "1", "How many replicas must have an event; by default none."),
    key("timeout", SOME, r#""5s""#, "How long the server may take to answer, and to be connected to."),
];

/// Where it goes, for people.
pub(super) fn describe(options: &RedisOptions) -> String {
    format!("redis {} at {}", options.stream.as_str(), options.url)
}

impl Read<'_> {
    pub(super) fn redis(&mut self, route: &str, redis: &Node) -> Option<RedisOptions> {
        let table = redis.table()?;
        let urls = self.broker_urls(route, redis, &["redis", "rediss"], r#""redis://localhost:6379""#);
        let stream = self.required(route, redis, "stream", r#""orders""#).and_then(|node| self.template(node, &[]));
        let tls = self.tls(table);
        let url = urls.into_iter().next()?;
        if let Some(node) = table.get("tls").filter(|_| url.scheme() == "redis") {
            let message = format!("route `{route}` has certificates, but its url begins with redis://");
            self.problems.at(&node.place, message, Some("write rediss:// to talk in private".to_owned()));
        }
        let number = |name: &str| table.get(name).and_then(Node::count);
        Some(RedisOptions {
            tls,
            maxlen: number("maxlen").map(u64::from),
            wait_replicas: number("wait_replicas"),
            timeout: table.duration("timeout"),
            ..RedisOptions::new(url, stream?)
        })
    }
}
