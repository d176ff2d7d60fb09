//! Each system under load, written by its own SQL, while relays are killed and its destination goes away: its own queries
//! and an independent consumer find every event, none that was rolled back, and few twice. The long form is `cargo xtask faults`.

#![allow(clippy::unwrap_used, reason = "what is not as documented fails the test")]

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use postroom_e2e::{Relays, printed, scale, until, within};
use postroom_presets::{Kafka, System};
use postroom_testbed::{OwnServer, brokers};
use serde_json::Value;

/// Most that one fault repeats.
const IN_FLIGHT_MAX: usize = 200;
/// How far the application may be ahead of the relays.
const AHEAD_MAX: usize = 600;
/// What it writes in one transaction.
const CHUNK: usize = 100;
const PATIENCE: Duration = Duration::from_mins(3);

/// A system in a campaign.
struct Campaign<'a> {
    system: &'a System,
    /// Its route.
    route: &'a str,
    /// How it writes the events `{from}` to `{to}`, called `n`.
    insert: &'a str,
    /// How its people count what is done.
    done: &'a str,
    /// Its destination goes away, and is back when this ends; what is called meanwhile writes on.
    outage: &'a dyn Fn(&dyn Fn()),
    /// What has arrived: the key and the number of each, in the order of its key.
    arrived: &'a dyn Fn() -> Vec<(String, usize)>,
    /// Whether events of one key come in their order.
    ordered: bool,
    /// Whether relays share the table.
    shared: bool,
    /// How many transactions it has committed.
    chunks: Cell<usize>,
}

/// With what every campaign has in common.
fn system(preset: &str) -> System {
    let mut system = System::new(preset);
    system.set("POSTROOM_RELAY__LEASE", "2s");
    system.set("POSTROOM_RELAY__IN_FLIGHT_MAX", &IN_FLIGHT_MAX.to_string());
    system.set("POSTROOM_STORE__MAIN__POLL__MIN", "10ms");
    system.set("POSTROOM_STORE__MAIN__POLL__MAX", "50ms");
    system.set(&format!("POSTROOM_ROUTE__{}__BREAKER__COOLDOWN_MAX", preset.to_uppercase()), "1s");
    system
}

impl Campaign<'_> {
    #[expect(clippy::print_stdout, reason = "the figures of a long run")]
    fn run(&self) {
        let (events, kills, outages) = (2_000 * scale(), (2 * scale()).min(10), scale().min(2));
        let since = Instant::now();
        let mut relays = Relays::start(self.system, 2);
        let (chunks, faults) = (events / CHUNK, kills + outages);
        let (mut killed, mut away) = (0, 0);
        while self.chunks.get() < chunks {
            self.write();
            self.until_done((self.chunks.get() * CHUNK).saturating_sub(AHEAD_MAX));
            while killed + away < faults * self.chunks.get() / chunks {
                if away * kills < killed * outages {
                    (self.outage)(&|| self.write());
                    away += 1;
                    println!("{:6.1} s: the destination of {} was away", since.elapsed().as_secs_f64(), self.route);
                } else {
                    self.kill(&mut relays);
                    killed += 1;
                    println!("{:6.1} s: the relay of {} was killed", since.elapsed().as_secs_f64(), self.route);
                }
            }
        }
        let written = self.chunks.get() * CHUNK;
        self.until_done(written);
        println!("{:6.1} s: {} is done", since.elapsed().as_secs_f64(), self.route);
        let faults = relays.stop().values().sum::<usize>() + 2 * away;
        self.system.drain();
        let twice = self.compare(written);
        println!(
            "{}: {written} events, {killed} kills, {away} outages, {twice} of them twice, {:.0} s",
            self.route,
            since.elapsed().as_secs_f64()
        );
        assert_eq!((killed, away), (kills, outages), "it was a real run");
        assert!(twice <= faults * IN_FLIGHT_MAX, "{twice} came twice in {faults} faults");
    }

    /// Writes so many events in one transaction, after as many others that are rolled back.
    fn write(&self) {
        let chunk = self.chunks.get();
        let insert = |from: usize| {
            self.insert.replace("{from}", &from.to_string()).replace("{to}", &(from + CHUNK - 1).to_string())
        };
        let (ghosts, events) = (insert(1_000_000 + chunk * CHUNK), insert(chunk * CHUNK));
        self.system.script(&format!("begin; {ghosts}; rollback; {events}"));
        self.chunks.set(chunk + 1);
    }

    fn done(&self) -> usize {
        self.system.query(self.done)[0].parse().unwrap()
    }

    fn until_done(&self, count: usize) {
        within(PATIENCE, &format!("{count} are done"), || (self.done() >= count).then_some(()));
    }

    /// Kills the relay that has the table, in the middle of its work; any of those that share it.
    fn kill(&self, relays: &mut Relays<'_>) {
        if self.shared {
            return relays.kill(0);
        }
        let holder = within(PATIENCE, "a relay has the table", || {
            let shown = self.system.json(&["route", "show", self.route]);
            let holder = shown["lanes"][0]["holder"].as_str()?.split('/').next()?.to_owned();
            (0..relays.count()).find(|which| relays.who(*which).0 == holder)
        });
        relays.kill(holder.0);
    }

    /// Compares what was written with what arrived; how many came more than once.
    fn compare(&self, written: usize) -> usize {
        assert_eq!(self.done(), written, "all are marked");
        let arrived = (self.arrived)();
        let numbers: BTreeSet<usize> = arrived.iter().map(|(_, number)| *number).collect();
        let missing: Vec<usize> = (0..written).filter(|number| !numbers.contains(number)).collect();
        assert!(missing.is_empty(), "lost: {missing:?}");
        assert_eq!(numbers.len(), written, "nothing that was rolled back: {:?}", numbers.last());
        let mut firsts: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        let mut seen = BTreeSet::new();
        for (key, number) in &arrived {
            if seen.insert(number) {
                firsts.entry(key).or_default().push(*number);
            }
        }
        let swapped = firsts.values().filter(|numbers| !numbers.is_sorted()).count();
        assert!(!self.ordered || swapped == 0, "{swapped} keys are out of order");
        assert_eq!(self.system.json(&["dead", "ls"]), serde_json::json!([]), "nothing died of an outage");
        arrived.len() - written
    }
}

/// A broker goes down in good order, the breaker opens, and it comes back.
fn broker_restarts(server: &OwnServer, system: &System, route: &str, meanwhile: &dyn Fn()) {
    server.stop().unwrap();
    meanwhile();
    until("the breaker is open", || system.route(route)["state"] == "breaker_open");
    server.resume().unwrap();
}

/// The handlers' process is killed while it has something to do.
fn handler_dies(system: &System, meanwhile: &dyn Fn()) {
    let pid: i32 = std::fs::read_to_string(system.path("handler.pid")).unwrap().parse().unwrap();
    meanwhile();
    // It may have gone with its relay.
    let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
}

/// What the handlers were given.
fn in_handlers(system: &System) -> Vec<(String, usize)> {
    let number = |line: &Value| usize::try_from(line["envelope"]["payload"]["number"].as_u64().unwrap()).unwrap();
    system.received().iter().map(|line| (String::new(), number(line))).collect()
}

/// What is in topics, by a client that is not ours.
fn in_topics(kafka: &Kafka, topics: &[&str]) -> Vec<(String, usize)> {
    let lines = printed("topics", &[&[kafka.brokers.as_str()], topics].concat());
    let arrival = |line: &str| {
        let line: Value = serde_json::from_str(line).unwrap();
        let number = line["value"]["payload"]["number"].as_u64().unwrap();
        (line["key"].as_str().unwrap_or_default().to_owned(), usize::try_from(number).unwrap())
    };
    lines.lines().map(arrival).collect()
}

/// What is in a queue, by a client that is not ours.
fn in_queue(url: &str, queue: &str) -> Vec<(String, usize)> {
    let lines = printed("queues", &[&format!("{url}/%2F"), queue]);
    let arrival = |line: &str| {
        let line: Value = serde_json::from_str(line).unwrap();
        assert_eq!(line["id"], line["headers"]["x-event-id"]);
        (String::new(), usize::try_from(line["value"]["payload"]["number"].as_u64().unwrap()).unwrap())
    };
    lines.lines().map(arrival).collect()
}

#[test]
fn m4_loses_nothing_while_relays_and_handlers_are_killed() {
    let system = system("m4").handler("M4");
    let campaign = Campaign {
        system: &system,
        route: "m4",
        insert: "insert into event_outbox (id, event_id, event_type, payload, status, attempts) \
                 select 'row-' || n, 'e-' || n, 'StatisticCalculated', jsonb_build_object('event_id', 'e-' || n, \
                 'occurred_at', now(), 'payload', jsonb_build_object('number', n)), 'pending', 0 from generate_series({from}, {to}) n",
        done: "select count(*) from event_outbox where status = 'sent' and sent_at is not null and attempts = 0",
        outage: &|meanwhile| handler_dies(&system, meanwhile),
        arrived: &|| in_handlers(&system),
        ordered: false,
        shared: false,
        chunks: Cell::default(),
    };
    campaign.run();
    assert_eq!(system.query("select count(*) from dead_letter_events"), ["0"]);
}

#[test]
fn eventqueue_loses_nothing_while_processes_and_handlers_are_killed() {
    let mut system = system("eventqueue").handler("EVENTQUEUE");
    system.set("POSTROOM_STORE__MAIN__MAPPING__CLAIMED__LEASE", "3s");
    let campaign = Campaign {
        system: &system,
        route: "eventqueue",
        insert: "insert into event_queue (id, event_type, payload) \
                 select n, 'OrderPlaced', jsonb_build_object('number', n) from generate_series({from}, {to}) n",
        done: "select count(*) from event_log where status = 'COMPLETED'",
        outage: &|meanwhile| handler_dies(&system, meanwhile),
        arrived: &|| in_handlers(&system),
        ordered: false,
        shared: true,
        chunks: Cell::default(),
    };
    campaign.run();
    assert_eq!(system.query("select count(*) from event_queue"), ["0"]);
}

#[test]
fn corebilling_loses_nothing_while_relays_are_killed_and_kafka_restarts() {
    let server = OwnServer::start(&brokers::Kafka).unwrap();
    let kafka = Kafka::of(&server.site);
    kafka.create(&["invoice.created"], 3);
    let mut system = system("corebilling");
    system.set("KAFKA_BROKERS", &kafka.brokers);
    let campaign = Campaign {
        system: &system,
        route: "corebilling",
        insert: "insert into billing_events (id, subject, tenant_id, resource_id, payload) \
                 select '01J' || lpad(n::text, 23, '0'), 'invoice.created', 't-1', 'sub-' || n % 50, \
                 jsonb_build_object('number', n, 'outbox_status', 'pending', 'outbox_retry_count', 0) from generate_series({from}, {to}) n",
        done: "select count(*) from billing_events where payload->>'outbox_status' = 'dispatched' and payload->>'outbox_retry_count' = '0'",
        outage: &|meanwhile| broker_restarts(&server, &system, "corebilling", meanwhile),
        arrived: &|| in_topics(&kafka, &["invoice.created"]),
        ordered: false,
        shared: false,
        chunks: Cell::default(),
    };
    campaign.run();
}

#[test]
fn payments_lose_and_swap_nothing_while_relays_are_killed_and_kafka_restarts() {
    let server = OwnServer::start(&brokers::Kafka).unwrap();
    let kafka = Kafka::of(&server.site);
    let topics = ["payments.paymentauthorized", "payments.paymentdeclined"];
    kafka.create(&[topics[0], topics[1], "payments.dlq"], 3);
    let mut system = system("payments");
    system.set("REDPANDA_BROKERS", &kafka.brokers);
    let campaign = Campaign {
        system: &system,
        route: "payments",
        insert: "insert into outbox (id, aggregate_type, aggregate_id, event_type, payload, created_at) \
                 select '01J' || lpad(n::text, 23, '0'), 'Payment', 'p-' || n % 50, \
                 case n % 2 when 0 then 'PaymentAuthorized' else 'PaymentDeclined' end, jsonb_build_object('number', n), clock_timestamp() \
                 from generate_series({from}, {to}) n",
        done: "select count(*) from outbox where published_at is not null and retry_count = 0",
        outage: &|meanwhile| broker_restarts(&server, &system, "payments", meanwhile),
        arrived: &|| in_topics(&kafka, &topics),
        ordered: true,
        shared: false,
        chunks: Cell::default(),
    };
    campaign.run();
    assert_eq!(system.query("SELECT COUNT(*) FROM outbox WHERE published_at IS NULL;"), ["0"]);
    let by_count = "SELECT retry_count, COUNT(*) FROM outbox WHERE published_at IS NULL GROUP BY retry_count;";
    assert_eq!(system.query(by_count), [""; 0]);
    assert_eq!(in_topics(&kafka, &["payments.dlq"]), []);
}

#[test]
fn holdco_loses_nothing_while_relays_are_killed_and_rabbitmq_restarts() {
    let server = OwnServer::start(&brokers::RabbitMq).unwrap();
    let url = format!("amqp://guest:guest@127.0.0.1:{}", server.site.port);
    let mut system = system("holdco");
    system.set("RABBITMQ_URL", &url);
    let campaign = Campaign {
        system: &system,
        route: "holdco",
        insert: "insert into event_outbox (group_id, aggregate_type, aggregate_id, event_type, payload) \
                 select gen_random_uuid(), 'order', gen_random_uuid(), 'created', jsonb_build_object('number', n) \
                 from generate_series({from}, {to}) n",
        done: "select count(*) from event_outbox where status = 'published' and attempts = 0",
        outage: &|meanwhile| broker_restarts(&server, &system, "holdco", meanwhile),
        arrived: &|| in_queue(&url, "analytics.ingest"),
        ordered: false,
        shared: true,
        chunks: Cell::default(),
    };
    campaign.run();
    assert_eq!(system.query("select count(*) from event_outbox where status <> 'published'"), ["0"]);
    assert_eq!(in_queue(&url, "analytics.ingest.dlq"), []);
}
