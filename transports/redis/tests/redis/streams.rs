//! Streams of a test's own, and transports to them.

use std::sync::Arc;
use std::time::Duration;

use postroom_conformance::changed;
use postroom_conformance::transports::{Arrived, Post};
use postroom_core::envelope::{Binding, Encoder, Format};
use postroom_core::{Event, Failure, JSON, Outcome, SecretUrl, Template};
use postroom_redis::{Redis, RedisOptions};
use postroom_testbed::{Servers, unique_name};
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, FromRedisValue};

/// Time enough for everything that is expected to be answered.
pub(crate) const LONG: Duration = Duration::from_secs(30);
/// So short that a test can wait for it, long enough for a busy machine to answer.
pub(crate) const SHORT: Duration = Duration::from_secs(1);

/// A name nobody else has, and whoever looks what is there.
pub(crate) struct Stream {
    pub(crate) name: String,
    pub(crate) port: u16,
}

impl Stream {
    /// On the shared server.
    pub(crate) fn new() -> Self {
        Self::on(Servers::find().port("redis"))
    }

    /// On the server of this port.
    pub(crate) fn on(port: u16) -> Self {
        Self { name: unique_name("s"), port }
    }

    /// Options of a transport to it through this port.
    pub(crate) fn options(&self, port: u16, timeout: Duration) -> RedisOptions {
        changed(RedisOptions::new(SecretUrl::new(format!("redis://127.0.0.1:{port}")), fixed(&self.name)), |o| {
            o.timeout = timeout;
        })
    }

    /// Answers a command, in words: `XLEN name`.
    pub(crate) async fn ask<T: FromRedisValue>(&self, words: &str) -> T {
        ask(self.port, words).await
    }

    /// How many entries it has.
    pub(crate) async fn length(&self) -> u64 {
        self.ask(&format!("XLEN {}", self.name)).await
    }

    /// What it has, in order.
    pub(crate) async fn arrived(&self) -> Vec<Arrived> {
        type Entry = (String, Vec<(String, String)>);
        let entries: Vec<Entry> = self.ask(&format!("XRANGE {} - +", self.name)).await;
        let arrived = |(_, fields): Entry| {
            let field = |name: &str| {
                let mut found = fields.iter().filter(|(field, _)| field == name).map(|(_, value)| value.clone());
                let value = found.next().expect("the field is there");
                assert_eq!(found.next(), None, "{name} stands twice");
                value
            };
            Arrived { id: field("ce_id"), event_type: field("ce_type"), payload: field("data") }
        };
        entries.into_iter().map(arrived).collect()
    }

    /// Ids of what it has, in order.
    pub(crate) async fn ids(&self) -> Vec<String> {
        self.arrived().await.into_iter().map(|arrived| arrived.id).collect()
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        if std::thread::panicking() {
            return;
        }
        // The shared server keeps everything in memory; one that has been stopped has nothing to tidy.
        let script = "for _, key in ipairs(redis.call('KEYS', ARGV[1])) do redis.call('DEL', key) end";
        if let Ok(mut connection) = Client::open(("127.0.0.1", self.port)).and_then(|client| client.get_connection()) {
            let _ = redis::cmd("EVAL").arg(script).arg(0).arg(format!("{}*", self.name)).exec(&mut connection);
        }
    }
}

pub(crate) fn fixed(text: &str) -> Template {
    Template::parse(text, &[]).expect("a template")
}

pub(crate) async fn connected(port: u16) -> MultiplexedConnection {
    let client = Client::open(("127.0.0.1", port)).expect("an address");
    let config = AsyncConnectionConfig::new().set_response_timeout(Some(LONG)).set_connection_timeout(Some(LONG));
    client.get_multiplexed_async_connection_with_config(&config).await.expect("the server is there")
}

/// The answer to a command in words.
pub(crate) async fn ask<T: FromRedisValue>(port: u16, words: &str) -> T {
    let mut command = redis::Cmd::new();
    for word in words.split(' ') {
        command.arg(word);
    }
    command.query_async(&mut connected(port).await).await.expect("an answer")
}

pub(crate) fn redis(options: RedisOptions) -> Redis {
    Redis::new("shop", options, Encoder::new(Format::CloudEventsBinary, Binding::Redis, "/postroom/test"))
}

pub(crate) fn post(options: RedisOptions) -> Post {
    Post::new(Arc::new(redis(options)))
}

pub(crate) fn event(id: &str) -> Event {
    Event::new("parcel.sent").id(id).bytes(JSON, r#"{"secret":"canary"}"#)
}

pub(crate) fn events(prefix: &str, count: usize) -> Vec<Event> {
    (0..count).map(|n| event(&format!("{prefix}-{n}"))).collect()
}

/// Delivers one event.
pub(crate) async fn outcome(post: &mut Post, event: Event) -> Outcome {
    post.deliver(&[event]).await;
    post.outcome().await.1
}

/// Delivers one event, which must fail.
pub(crate) async fn failure(post: &mut Post, id: &str) -> Failure {
    outcome(post, event(id)).await.expect_err("it fails")
}
