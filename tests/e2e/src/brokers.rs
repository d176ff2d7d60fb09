//! Servers of all five kinds that events can be sent to, a route to each of them, and what arrived there.
//!
//! What is read back is read by consumers in another language, with clients that are not ours.

use postroom_testbed::brokers::{Kafka, Nats, RabbitMq, RedisWith};
use postroom_testbed::{OwnServer, run};

use crate::consumers::{Receiver, consume};
use crate::world::World;

/// One server of each kind, nobody else's.
#[derive(Debug)]
pub struct Brokers<'w> {
    kafka: OwnServer,
    rabbitmq: OwnServer,
    nats: OwnServer,
    redis: OwnServer,
    receiver: Receiver<'w>,
}

impl<'w> Brokers<'w> {
    /// The routes, named after where they go.
    pub const ROUTES: [&'static str; 5] = ["kafka", "rabbitmq", "nats", "redis", "webhook"];

    /// Starts them all.
    pub fn start(world: &'w World) -> Self {
        let kafka = OwnServer::start(&Kafka).unwrap();
        let mut topic = Kafka::tool("org.apache.kafka.tools.TopicCommand").unwrap();
        let server = format!("127.0.0.1:{}", kafka.site.port);
        topic.args(["--bootstrap-server", &server, "--create", "--topic", "accounts", "--partitions", "6"]);
        run(&mut topic).unwrap();
        Self {
            kafka,
            rabbitmq: OwnServer::start(&RabbitMq).unwrap(),
            nats: OwnServer::start(&Nats).unwrap(),
            // By default it answers before it has written while its disk is slow, and is crashed here.
            redis: OwnServer::start(RedisWith::lines("appendfsync always")).unwrap(),
            receiver: Receiver::start(world),
        }
    }

    /// The part of a configuration that sends every event to all of them.
    pub fn routes(&self) -> String {
        format!(
            r#"[transport.webhook]
https_only = false
allow_networks = ["127.0.0.0/8"]
[topology.exchange.accounts]
type = "topic"
[topology.queue.accounts]
type = "classic"
bind = [{{ exchange = "accounts", routing_key = "account.*" }}]
[[route]]
name = "kafka"
breaker = {{ cooldown_max = "2s" }}
to = {{ kafka = {{ brokers = ["127.0.0.1:{kafka}"], topic = "accounts" }} }}
[[route]]
name = "rabbitmq"
breaker = {{ cooldown_max = "2s" }}
to = {{ rabbitmq = {{ url = "amqp://guest:guest@127.0.0.1:{rabbitmq}", exchange = "accounts", routing_key = "{{type}}" }} }}
[[route]]
name = "nats"
breaker = {{ cooldown_max = "2s" }}
to = {{ nats = {{ url = "nats://127.0.0.1:{nats}", subject = "accounts.{{type}}", stream = "ACCOUNTS", create = {{ subjects = ["accounts.>"] }} }} }}
[[route]]
name = "redis"
breaker = {{ cooldown_max = "2s" }}
to = {{ redis = {{ url = "redis://127.0.0.1:{redis}", stream = "accounts" }} }}
[[route]]
name = "webhook"
breaker = {{ cooldown_max = "2s" }}
to = {{ webhook = {{ url = "http://127.0.0.1:{webhook}/hook", secret = "{secret}", concurrency = 32 }} }}
"#,
            kafka = self.kafka.site.port,
            rabbitmq = self.rabbitmq.site.port,
            nats = self.nats.site.port,
            redis = self.redis.site.port,
            webhook = self.receiver.port,
            secret = Receiver::SECRET,
        )
    }

    /// Ends where a route goes, in good order or not.
    pub fn stop(&mut self, route: &str, crash: bool) {
        let server = match route {
            "kafka" => &self.kafka,
            "rabbitmq" => &self.rabbitmq,
            "nats" => &self.nats,
            "redis" => &self.redis,
            _ => return self.receiver.stop(),
        };
        if crash { server.crash().unwrap() } else { server.stop().unwrap() }
    }

    /// Starts it again with what it had.
    pub fn resume(&mut self, route: &str) {
        match route {
            "kafka" => self.kafka.resume().unwrap(),
            "rabbitmq" => self.rabbitmq.resume().unwrap(),
            "nats" => self.nats.resume().unwrap(),
            "redis" => self.redis.resume().unwrap(),
            _ => self.receiver.resume(),
        }
    }

    /// Everything that is there, into the journal.
    pub fn read(&self, world: &World) {
        consume(world, "kafka", &[&format!("127.0.0.1:{}", self.kafka.site.port), "accounts", "kafka"]);
        let url = format!("amqp://guest:guest@127.0.0.1:{}/%2F", self.rabbitmq.site.port);
        consume(world, "rabbitmq", &[&url, "accounts", "rabbitmq"]);
        consume(world, "nats", &[&format!("nats://127.0.0.1:{}", self.nats.site.port), "ACCOUNTS", "nats"]);
        consume(world, "redis", &[&format!("redis://127.0.0.1:{}", self.redis.site.port), "accounts", "redis"]);
    }
}
