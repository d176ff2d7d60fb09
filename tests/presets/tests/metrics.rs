//! What the systems' documents ask to be measured, on their own tables: depth, latency, tries and what is given up.

#![allow(clippy::unwrap_used, reason = "what is not as documented fails the test")]

use std::net::TcpListener;

use postroom_e2e::until;
use postroom_presets::{System, get};

use crate::payments::world::Payments;

/// The metrics of a relay: the sum of a name's samples whose labels have all of these.
struct Metrics {
    address: String,
    route: &'static str,
}

impl Metrics {
    /// The next relay of the system serves them.
    fn of(system: &mut System, route: &'static str) -> Self {
        let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
        system.set("POSTROOM_HTTP__LISTEN", &address);
        Self { address, route }
    }

    fn sum(&self, name: &str, labels: &[&str]) -> f64 {
        let route = format!("route=\"{}\"", self.route);
        let (_, page) = get(&self.address, "/metrics", "accept: text/plain");
        let meant = |line: &&str| {
            let (found, of) = line.split_once('{').unwrap_or_default();
            found == name && of.contains(&route) && labels.iter().all(|label| of.contains(label))
        };
        page.lines().filter(meant).filter_map(|line| line.rsplit_once(' ')?.1.parse::<f64>().ok()).sum()
    }

    fn are(&self, what: &str, expected: &[(&str, &[&str], f64)]) {
        until(what, || expected.iter().all(|(name, labels, value)| (self.sum(name, labels) - value).abs() < 0.1));
    }
}

const DEPTH: &str = "postroom_deliveries_open";
const DONE: &str = "postroom_deliveries_total";
const TRIES: &str = "postroom_attempts_total";
const DUE: &[&str] = &["state=\"due\""];
const RETRYING: &[&str] = &["state=\"retrying\""];
const DELIVERED: &[&str] = &["result=\"delivered\""];
const DEAD: &[&str] = &["result=\"dead\""];
const FAILED: &[&str] = &["outcome=\"transient\""];

#[test]
fn payments_are_measured_by_depth_latency_retries_and_dead_letters_on_their_own_table() {
    let mut payments = Payments::new();
    payments.set("OUTBOX_BASE_DELAY_SECONDS", "600");
    payments.set("OUTBOX_MAX_DELAY_SECONDS", "600");
    let metrics = Metrics::of(&mut payments, "payments");
    let pending = "SELECT COUNT(*) FROM outbox WHERE published_at IS NULL;";
    payments.drain();
    payments.ok(&["route", "pause", "payments"]);
    payments.insert("e-1", "a-1");
    payments.insert("e-2", "a-2");
    payments.insert_failing("e-3", "a-3");
    let relay = payments.relay("first");
    metrics.are("the depth of the queue", &[(DEPTH, DUE, 3.0)]);
    assert_eq!(payments.query(pending), ["3"], "as the team's own query counts it");
    payments.ok(&["route", "resume", "payments"]);
    metrics.are(
        "two published and one that waits",
        &[
            (DEPTH, DUE, 0.0),
            (DEPTH, RETRYING, 1.0),
            (DONE, DELIVERED, 2.0),
            (TRIES, FAILED, 1.0),
            ("postroom_delivery_latency_seconds_count", &[], 2.0),
        ],
    );
    assert!(metrics.sum("postroom_delivery_latency_seconds_sum", &[]) > 0.0, "from the append to the settle");
    assert_eq!(payments.query(pending), ["1"]);
    relay.stop();

    payments.set("OUTBOX_MAX_RETRIES", "2");
    let metrics = Metrics::of(&mut payments, "payments");
    payments.be_due();
    let relay = payments.relay("second");
    metrics.are("the dead letter", &[(DONE, DEAD, 1.0), (DEPTH, RETRYING, 0.0)]);
    relay.stop();
    assert_eq!(payments.ids("dlq"), ["e-3"]);
}

#[test]
fn a_queue_is_measured_by_depth_attempts_latency_and_failures_on_its_own_tables() {
    let mut system = System::new("eventqueue").handler("EVENTQUEUE");
    let metrics = Metrics::of(&mut system, "eventqueue");
    system.refuse("Bad");
    system.drain();
    system.ok(&["route", "pause", "eventqueue"]);
    system.script(
        "insert into event_queue (event_type, payload) select t, '{}' from unnest(array['Good', 'Bad', 'Good']) t",
    );
    let relay = system.relay("ours");
    metrics.are("the depth of the queue", &[(DEPTH, DUE, 3.0)]);
    system.ok(&["route", "resume", "eventqueue"]);
    let took = "postroom_attempt_duration_seconds_count";
    metrics.are(
        "attempts, their duration and failures",
        &[
            (DEPTH, DUE, 0.0),
            (DONE, DELIVERED, 2.0),
            (DONE, DEAD, 1.0),
            (TRIES, &["outcome=\"delivered\""], 2.0),
            (TRIES, FAILED, 1.0),
            (took, &["outcome=\"delivered\""], 2.0),
            (took, FAILED, 1.0),
        ],
    );
    assert_eq!(
        system.query("select status, attempts, count(*) from event_log group by 1, 2 order by 1"),
        ["COMPLETED 1 2", "COMPLETED_WITH_ERRORS 1 1"]
    );
    relay.stop();
}
