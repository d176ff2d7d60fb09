//! Webhooks beside the bus, from the same table: each route has a state of its own.

#![allow(clippy::disallowed_methods, reason = "the receiver takes its time")]

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use nix::sys::signal::Signal;
use postroom_e2e::{Running, World, until, within};
use serde_json::{Value, json};

use crate::corebilling::world::Billing;

/// Most that one kill repeats.
const IN_FLIGHT_MAX: usize = 100;
const PATIENCE: Duration = Duration::from_mins(3);

/// A receiver that can go away and come back. It keeps the id of each webhook that it answered.
struct Receiver {
    port: u16,
    received: Arc<Mutex<Vec<String>>>,
    up: Option<(Arc<AtomicBool>, JoinHandle<()>)>,
}

impl Receiver {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let mut receiver = Self { port, received: Arc::default(), up: None };
        receiver.listen(listener);
        receiver
    }

    fn listen(&mut self, listener: TcpListener) {
        let (closing, received) = (Arc::new(AtomicBool::new(false)), Arc::clone(&self.received));
        let flag = Arc::clone(&closing);
        let accepting = thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if flag.load(Ordering::SeqCst) {
                    return;
                }
                let (flag, received) = (Arc::clone(&flag), Arc::clone(&received));
                thread::spawn(move || serve(stream, &flag, &received));
            }
        });
        self.up = Some((closing, accepting));
    }

    /// From now on nobody listens there.
    fn goes_away(&mut self) {
        let (closing, accepting) = self.up.take().unwrap();
        closing.store(true, Ordering::SeqCst);
        // Wakes the one that accepts.
        drop(TcpStream::connect(("127.0.0.1", self.port)));
        accepting.join().unwrap();
    }

    fn comes_back(&mut self) {
        let bound = within(PATIENCE, "the port is free", || TcpListener::bind(("127.0.0.1", self.port)).ok());
        self.listen(bound.0);
    }

    /// How often each id came.
    fn received(&self) -> BTreeMap<String, usize> {
        counted(self.received.lock().unwrap().iter().cloned())
    }
}

/// Answers one connection, request by request, until its end or the receiver's.
fn serve(stream: TcpStream, closing: &AtomicBool, received: &Mutex<Vec<String>>) -> Option<()> {
    stream.set_nodelay(true).ok()?;
    let mut answers = stream.try_clone().ok()?;
    let mut requests = BufReader::new(stream);
    loop {
        let (mut id, mut length) = (String::new(), 0);
        loop {
            let mut line = String::new();
            requests.read_line(&mut line).ok().filter(|read| *read > 0)?;
            let line = line.trim_end();
            if line.is_empty() {
                break;
            }
            let (name, value) = line.split_once(": ").unwrap_or_default();
            match name.to_ascii_lowercase().as_str() {
                "webhook-id" => value.clone_into(&mut id),
                "content-length" => length = value.parse().unwrap(),
                _ => {}
            }
        }
        requests.read_exact(&mut vec![0; length]).ok()?;
        if closing.load(Ordering::SeqCst) {
            return None;
        }
        received.lock().unwrap().push(id);
        answers.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").ok()?;
    }
}

fn counted(ids: impl Iterator<Item = String>) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    ids.for_each(|id| *counts.entry(id).or_default() += 1);
    counts
}

/// The billing system that calls webhooks, too.
fn billing(receiver: &Receiver) -> Billing {
    let mut billing = Billing::new();
    billing.set("POSTROOM_RELAY__LEASE", "2s");
    billing.set("POSTROOM_RELAY__IN_FLIGHT_MAX", &IN_FLIGHT_MAX.to_string());
    billing.set("POSTROOM_CONFIG", "webhooks.toml");
    World::write(
        &billing,
        "webhooks.toml",
        &format!(
            "[[route]]\nname = \"webhooks\"\nstart = \"beginning\"\nbreaker = {{ cooldown_max = \"1s\" }}\n\
             to = {{ webhook = {{ url = \"http://127.0.0.1:{}/\", https_only = false, allow_networks = [\"127.0.0.0/8\"] }} }}\n",
            receiver.port
        ),
    );
    billing
}

/// Writes the events `from..to` in one transaction.
fn write(billing: &Billing, from: usize, to: usize) {
    billing.script(&format!(
        "insert into billing_events (id, subject, tenant_id, resource_id, payload) \
         select 'e-' || lpad(n::text, 6, '0'), '{}', 't-1', 'r-' || n % 20, \
         jsonb_build_object('number', n, 'outbox_status', 'pending', 'outbox_retry_count', 0) \
         from generate_series({from}, {to} - 1) n",
        billing.subject
    ));
}

fn delivered(billing: &Billing, route: &str) -> u64 {
    billing.route(route)["delivered"].as_u64().unwrap()
}

fn kill(relay: Running) {
    relay.signal(Signal::SIGKILL);
    assert_eq!(relay.end(), -9);
}

/// Compares what has come with what was written; how many came more than once.
fn twice(arrived: &BTreeMap<String, usize>, written: usize) -> usize {
    let all: BTreeSet<String> = (0..written).map(|n| format!("e-{n:06}")).collect();
    let missing: Vec<&String> = all.iter().filter(|id| !arrived.contains_key(*id)).collect();
    assert!(missing.is_empty(), "lost: {missing:?}");
    assert_eq!(arrived.len(), written, "nothing else");
    arrived.values().sum::<usize>() - written
}

#[test]
fn the_bus_goes_on_while_webhooks_are_away_and_each_gets_every_event_though_rows_are_deleted() {
    let mut receiver = Receiver::start();
    let billing = billing(&receiver);
    let relay = billing.relay("relay");
    write(&billing, 0, 300);
    until("both have the first", || receiver.received().len() == 300 && delivered(&billing, "corebilling") == 300);
    receiver.goes_away();
    write(&billing, 300, 1_300);
    within(PATIENCE, "the bus goes on", || (delivered(&billing, "corebilling") == 1_300).then_some(()));
    until("the breaker is open", || billing.route("webhooks")["state"] == "breaker_open");
    assert_eq!((receiver.received().len(), billing.route("webhooks")["due"].as_u64()), (300, Some(1_000)));
    assert_eq!(billing.route("corebilling")["due"], 0);
    // The application clears what its table says is done.
    billing.script("delete from billing_events where payload->>'outbox_status' = 'dispatched'");
    assert_eq!(billing.query("select count(*) from billing_events"), ["0"]);
    kill(relay);
    receiver.comes_back();
    let relay = billing.relay("relay");
    within(PATIENCE, "webhooks catch up", || (receiver.received().len() == 1_300).then_some(()));
    until("all is counted", || billing.route("webhooks")["due"] == 0);
    relay.stop();
    assert!(twice(&receiver.received(), 1_300) <= 2 * IN_FLIGHT_MAX);
    assert!(twice(&counted(billing.published_ids().into_iter()), 1_300) <= IN_FLIGHT_MAX);
    assert_eq!(billing.json(&["dead", "ls"]), json!([]));
    billing.ok(&["verify"]);
}

#[test]
fn relays_that_are_killed_between_the_settles_of_both_routes_lose_nothing_on_either() {
    const KILLS: usize = 6;
    let receiver = Receiver::start();
    let billing = billing(&receiver);
    let mut relays = vec![billing.relay("one"), billing.relay("two")];
    let mut written = 0;
    for round in 0..KILLS {
        write(&billing, written, written + 300);
        written += 300;
        let wanted = written - fastrand::usize(50..250);
        within(PATIENCE, "work goes on", || (receiver.received().len() >= wanted).then_some(()));
        kill(relays.remove(0));
        relays.push(billing.relay(&format!("again-{round}")));
    }
    let done = |route: &str| billing.route(route)["due"] == 0;
    within(PATIENCE, "all is done", || (done("corebilling") && done("webhooks")).then_some(()));
    relays.into_iter().for_each(Running::stop);
    let (hooks, bus) =
        (twice(&receiver.received(), written), twice(&counted(billing.published_ids().into_iter()), written));
    println!("{written} events, {KILLS} kills: {hooks} webhooks and {bus} messages came twice");
    assert!(hooks <= KILLS * IN_FLIGHT_MAX && bus <= KILLS * IN_FLIGHT_MAX, "{hooks} {bus}");
    assert_eq!(billing.query("select distinct payload->>'outbox_status' from billing_events"), ["dispatched"]);
    assert_eq!(billing.query("select count(*) from postroom.adopted_delivery"), ["0"], "nothing is left of them");
}

#[test]
fn webhooks_go_on_while_the_bus_is_paused_and_what_is_shown_replayed_and_set_back_is_a_routes_own() {
    let receiver = Receiver::start();
    let billing = billing(&receiver);
    let relay = billing.relay("relay");
    until("both are served", || {
        billing.route("webhooks")["state"] == "running" && billing.route("corebilling")["state"] == "running"
    });
    billing.ok(&["route", "pause", "corebilling"]);
    write(&billing, 0, 20);
    until("webhooks are called", || receiver.received().len() == 20);
    let shown = |id: &str| -> BTreeMap<String, String> {
        let routes = billing.json(&["event", "show", id])["routes"].as_array().unwrap().clone();
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        routes.iter().map(|route| (text(&route["route"]), text(&route["state"]))).collect()
    };
    until("it is settled", || shown("e-000007")["webhooks"] == "delivered");
    assert_eq!(shown("e-000007")["corebilling"], "due");
    billing.ok(&["route", "resume", "corebilling"]);
    until("the bus has them", || delivered(&billing, "corebilling") == 20);
    let unclear = billing.run(&["replay", "e-000007", "--yes"]);
    assert!(unclear.code != 0 && unclear.stderr.contains("--route"), "{}", unclear.stderr);
    billing.ok(&["replay", "e-000007", "--route", "webhooks", "--yes"]);
    until("the webhook is called again", || receiver.received()["e-000007"] == 2);
    billing.ok(&["replay", "e-000008", "--route", "corebilling", "--yes"]);
    until("it is published again", || delivered(&billing, "corebilling") == 21);
    billing.script(
        "update billing_events set payload = jsonb_set(payload, '{outbox_status}', '\"pending\"') where id = 'e-000009'",
    );
    until("both have it again", || receiver.received()["e-000009"] == 2 && delivered(&billing, "corebilling") == 22);
    relay.stop();
    assert_eq!(receiver.received()["e-000008"], 1, "a replay is of one route");
    assert_eq!(counted(billing.published_ids().into_iter())["e-000007"], 1);
}

#[test]
fn dead_letters_are_counted_listed_and_replayed_by_route() {
    let receiver = Receiver::start();
    let mut billing = billing(&receiver);
    billing.set("POSTROOM_ROUTE__COREBILLING__RETRY__ATTEMPTS", "1");
    billing.insert_failing("e-bad", 0);
    billing.drain();
    assert_eq!(billing.states(), ["e-bad dead_letter 1"]);
    assert_eq!(receiver.received()["e-bad"], 1, "the bus alone refused it");
    let dead = billing.json(&["dead", "ls"]);
    assert_eq!((dead.as_array().unwrap().len(), &dead[0]["route"]), (1, &json!("corebilling")));
    billing.script(&format!("update billing_events set subject = '{}'", billing.subject));
    billing.ok(&["dead", "replay", "--route", "corebilling", "--all", "--yes"]);
    billing.drain();
    assert_eq!((billing.published_ids().len(), receiver.received()["e-bad"]), (1, 1));
}
