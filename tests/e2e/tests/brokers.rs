//! One PostgreSQL, routes to Kafka, RabbitMQ, NATS, Redis and a webhook at once, under load, while every one of them is
//! stopped or crashed and relays are killed: nothing is lost, nothing invented, order holds on every route, nothing dies.
//!
//! What arrived is read by consumers in another language, with clients that are not ours. The long form is `cargo xtask
//! faults`.

#![allow(clippy::unwrap_used, reason = "what is not as documented fails the test")]

use std::time::{Duration, Instant};

use postroom_conformance::servers::brokers::{Kafka, Nats, RabbitMq, RedisWith};
use postroom_conformance::servers::{Database, OwnServer, Servers, run};
use postroom_e2e::{Producers, Receiver, Relays, Terms, World, consume, scale, within};

const IN_FLIGHT_MAX: usize = 256;
const ROUTES: [&str; 5] = ["kafka", "rabbitmq", "nats", "redis", "webhook"];
const TERMS: Terms<'_> = Terms { routes: &ROUTES, in_flight_max: IN_FLIGHT_MAX };
const RELAYS: usize = 3;
/// How far producers may be ahead of the relays, so that both are at work until the end.
const AHEAD_MAX: usize = 4_000;
/// How many events the other routes deliver while a destination is down.
const MEANWHILE: u64 = 300;
/// How long the relays may take to get anywhere: a crashed one's lanes are free after its lease.
const PATIENCE: Duration = Duration::from_mins(3);

struct Brokers<'w> {
    kafka: OwnServer,
    rabbitmq: OwnServer,
    nats: OwnServer,
    redis: OwnServer,
    receiver: Receiver<'w>,
}

impl<'w> Brokers<'w> {
    fn start(world: &'w World) -> Self {
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

    fn config(&self, url: &str) -> String {
        format!(
            r#"[store.main]
url = "{url}"
[relay]
lease = "3s"
in_flight_max = {IN_FLIGHT_MAX}
[retry]
base = "100ms"
[transport.webhook]
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

    fn stop(&mut self, route: &str, crash: bool) {
        let server = match route {
            "kafka" => &self.kafka,
            "rabbitmq" => &self.rabbitmq,
            "nats" => &self.nats,
            "redis" => &self.redis,
            _ => return self.receiver.stop(),
        };
        if crash { server.crash().unwrap() } else { server.stop().unwrap() }
    }

    fn resume(&mut self, route: &str) {
        match route {
            "kafka" => self.kafka.resume().unwrap(),
            "rabbitmq" => self.rabbitmq.resume().unwrap(),
            "nats" => self.nats.resume().unwrap(),
            "redis" => self.redis.resume().unwrap(),
            _ => self.receiver.resume(),
        }
    }

    /// Everything that is there, into the journal.
    fn read(&self, world: &World) {
        consume(world, "kafka", &[&format!("127.0.0.1:{}", self.kafka.site.port), "accounts", "kafka"]);
        let url = format!("amqp://guest:guest@127.0.0.1:{}/%2F", self.rabbitmq.site.port);
        consume(world, "rabbitmq", &[&url, "accounts", "rabbitmq"]);
        consume(world, "nats", &[&format!("nats://127.0.0.1:{}", self.nats.site.port), "ACCOUNTS", "nats"]);
        consume(world, "redis", &[&format!("redis://127.0.0.1:{}", self.redis.site.port), "accounts", "redis"]);
    }
}

/// How many each route has delivered, in the order of [`ROUTES`].
fn delivered(world: &World) -> [u64; 5] {
    let status = world.json(&["status"]);
    let routes = status["routes"].as_array().unwrap();
    ROUTES.map(|name| routes.iter().find(|r| r["route"] == name).map_or(0, |r| r["delivered"].as_u64().unwrap()))
}

/// Waits until the routes have delivered as wanted; producers hear meanwhile how far the fastest is.
fn until_delivered(what: &str, world: &World, producers: &Producers, mut so: impl FnMut([u64; 5]) -> bool) {
    within(PATIENCE, what, || {
        let now = delivered(world);
        producers.delivered(usize::try_from(now.into_iter().max().unwrap_or(0)).unwrap());
        so(now).then_some(())
    });
}

#[test]
fn five_destinations_that_go_down_and_relays_that_die_lose_swap_and_kill_nothing() {
    let (events, kills, stops) = (10_000 * scale(), 4 * scale(), 2.min(scale()));
    let since = Instant::now();
    let world = World::new(env!("CARGO_BIN_EXE_e2e-child"));
    let mut brokers = Brokers::start(&world);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let database = runtime.block_on(Database::create(&Servers::find()));
    world.configure(&brokers.config(&database.url()));
    world.ok(&["store", "migrate", "up"]);
    println!("{:6.1} s: all are up", since.elapsed().as_secs_f64());
    let producers = Producers::start(&database.url(), events, AHEAD_MAX);
    let mut relays = Relays::start(&world, RELAYS);

    let (mut outages, mut killed) = (0, 0);
    for round in 0..stops {
        for (place, route) in ROUTES.into_iter().enumerate() {
            let goal = (events * (outages + 1) / (stops * ROUTES.len() + 1)) as u64;
            until_delivered("the next moment", &world, &producers, |now| now.into_iter().max() >= Some(goal));
            brokers.stop(route, round % 2 == 1);
            outages += 1;
            let before = delivered(&world);
            until_delivered("the others go on", &world, &producers, |now| {
                let others = (0..ROUTES.len()).filter(|other| *other != place);
                others.into_iter().all(|other| now[other] >= before[other] + MEANWHILE || now[other] >= events as u64)
            });
            while killed < kills * outages / (stops * ROUTES.len()) {
                relays.kill(killed % RELAYS);
                killed += 1;
            }
            brokers.resume(route);
            println!("{:6.1} s: {route} was away, {:?}", since.elapsed().as_secs_f64(), delivered(&world));
        }
    }
    until_delivered("everything is delivered", &world, &producers, |now| {
        producers.have_finished() && now.into_iter().all(|n| n >= producers.committed() as u64)
    });
    let ledger = producers.stop();
    let mut suffered = relays.stop();
    // A destination that goes down has up to a window of every relay on its way, and consumers cannot tell relays apart.
    let faults = suffered.values().sum::<usize>() + outages * RELAYS;
    suffered.clear();
    suffered.insert(0, faults);
    brokers.read(&world);
    let findings = TERMS.compare(&world, &ledger, &suffered);
    println!(
        "{} events on {} routes, {RELAYS} relays, {killed} kills, {outages} outages, {findings}, {:.0} s",
        ledger.committed.len(),
        ROUTES.len(),
        since.elapsed().as_secs_f64()
    );
    assert_eq!(killed, kills);
}
