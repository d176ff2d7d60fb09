//! A crowd of failing events in front of good ones, in every system: the good ones do not wait for it.

#![allow(clippy::unwrap_used, reason = "what is not as documented fails the test")]

use std::time::Duration;

use postroom_e2e::within;
use postroom_presets::{Kafka, System};
use postroom_testbed::unique_name;

/// Failing events that are written first, unless a system needs more.
const BAD: usize = 300;
/// The same for a breaker that counts them: more than can be in flight before it has counted the first ten.
const BAD_FOR_BREAKER: usize = 900;
/// Good events that are written behind them.
const GOOD: usize = 50;

/// A system with a crowd of failing events in front of good ones.
struct Crowd {
    preset: &'static str,
    /// Makes the destinations; says what a good event's type and a failing one's are.
    prepare: fn(&mut System) -> [String; 2],
    /// Writes so many events of a type: `{n}` and `{type}` in it.
    insert: &'static str,
    /// Counts what is delivered of a type: `{type}` in it.
    delivered: &'static str,
    bad: usize,
    /// How long the good ones may take from the start of the relay.
    within: Duration,
}

/// Time in which a relay starts and delivers what nothing holds up.
const AT_ONCE: Duration = Duration::from_secs(30);

const SYSTEMS: [Crowd; 5] = [
    Crowd {
        preset: "m4",
        prepare: |system| handled(system, "M4"),
        insert: "insert into event_outbox (id, event_id, event_type, payload) \
                 select '{type}-' || n, '{type}-' || n, '{type}', '{\"payload\": {}}' from generate_series(1, {n}) n",
        delivered: "select count(*) from event_outbox where event_type = '{type}' and status = 'sent'",
        bad: BAD,
        within: AT_ONCE,
    },
    Crowd {
        preset: "corebilling",
        prepare: |system| {
            let kafka = Kafka::shared();
            let good = unique_name("invoice.created");
            kafka.create(&[&good], 1);
            system.set("KAFKA_BROKERS", &kafka.brokers);
            [good, "no.such.topic".to_owned()]
        },
        insert: "insert into billing_events (id, subject, tenant_id, payload) \
                 select case '{type}' when 'no.such.topic' then 'a' else 'b' end || n, '{type}', 't', \
                 '{\"outbox_status\": \"pending\", \"outbox_retry_count\": 0}' from generate_series(1, {n}) n",
        delivered: "select count(*) from billing_events where subject = '{type}' and payload->>'outbox_status' = 'dispatched'",
        bad: BAD,
        within: AT_ONCE,
    },
    Crowd {
        preset: "payments",
        prepare: |system| {
            let (kafka, prefix) = (Kafka::shared(), unique_name("payments"));
            kafka.create(&[&format!("{prefix}.good"), &format!("{prefix}.dlq")], 1);
            system.set("REDPANDA_BROKERS", &kafka.brokers);
            system.set("KAFKA_TOPIC_PREFIX", &prefix);
            system.set("OUTBOX_POLL_INTERVAL_SECONDS", "0.05");
            // After ten failures in a row its document stops processing: the pause, times a tenth of the crowd, is what it costs.
            system.set("POSTROOM_ROUTE__PAYMENTS__BREAKER__COOLDOWN", "100ms");
            ["Good".to_owned(), "Bad".to_owned()]
        },
        insert: "insert into outbox (id, aggregate_type, aggregate_id, event_type, payload, created_at) \
                 select '{type}-' || n, 'Payment', '{type}-' || n, '{type}', '{}', clock_timestamp() from generate_series(1, {n}) n",
        delivered: "select count(*) from outbox where event_type = '{type}' and published_at is not null",
        bad: BAD_FOR_BREAKER,
        within: Duration::from_mins(1),
    },
    Crowd {
        preset: "eventqueue",
        prepare: |system| handled(system, "EVENTQUEUE"),
        insert: "insert into event_queue (event_type, payload) select '{type}', '{}' from generate_series(1, {n}) n",
        delivered: "select count(*) from event_log where event_type = '{type}' and status = 'COMPLETED'",
        bad: BAD,
        within: AT_ONCE,
    },
    Crowd {
        preset: "holdco",
        prepare: |system| {
            let url = system.virtual_host();
            system.set("RABBITMQ_URL", &url);
            // What no queue takes is tried again: without the queue for everything, only orders have one.
            let orders = "[topology.queue.\"analytics.ingest\"]\nbind = [{ exchange = \"holdco.events\", routing_key = \"order.#\" }]\n";
            system.write("orders.toml", orders);
            system.set("POSTROOM_CONFIG", "orders.toml");
            ["order".to_owned(), "nobody".to_owned()]
        },
        insert: "insert into event_outbox (group_id, aggregate_type, aggregate_id, event_type, payload) \
                 select gen_random_uuid(), '{type}', gen_random_uuid(), 'placed', '{}' from generate_series(1, {n}) n",
        delivered: "select count(*) from event_outbox where aggregate_type = '{type}' and status = 'published'",
        bad: BAD,
        within: AT_ONCE,
    },
];

fn handled(system: &mut System, route: &str) -> [String; 2] {
    system.set(&format!("POSTROOM_ROUTE__{route}__TO__EXEC__COMMAND"), &postroom_presets::handler());
    system.refuse("Bad");
    ["Good".to_owned(), "Bad".to_owned()]
}

fn three_hundred_failing_events_do_not_hold_up_the_good_ones_behind_them(preset: &str) {
    let crowd = SYSTEMS.iter().find(|crowd| crowd.preset == preset).unwrap();
    let mut system = System::new(preset);
    let [good, bad] = (crowd.prepare)(&mut system);
    let text =
        |text: &str, event_type: &str, n: usize| text.replace("{type}", event_type).replace("{n}", &n.to_string());
    system.script(&text(crowd.insert, &bad, crowd.bad));
    system.script(&text(crowd.insert, &good, GOOD));
    let relay = system.relay("relay");
    let delivered = text(crowd.delivered, &good, 0);
    within(crowd.within, "the good ones are delivered", || {
        (system.query(&delivered) == [GOOD.to_string()]).then_some(())
    });
    relay.stop();
}

#[test]
fn in_m4_a_crowd_of_failing_events_holds_up_no_good_one() {
    three_hundred_failing_events_do_not_hold_up_the_good_ones_behind_them("m4");
}

#[test]
fn in_corebilling_a_crowd_of_failing_events_holds_up_no_good_one() {
    three_hundred_failing_events_do_not_hold_up_the_good_ones_behind_them("corebilling");
}

#[test]
fn in_payments_a_crowd_of_failing_events_costs_the_good_ones_the_pauses_of_its_breaker() {
    three_hundred_failing_events_do_not_hold_up_the_good_ones_behind_them("payments");
}

#[test]
fn in_eventqueue_a_crowd_of_failing_events_holds_up_no_good_one() {
    three_hundred_failing_events_do_not_hold_up_the_good_ones_behind_them("eventqueue");
}

#[test]
fn in_holdco_a_crowd_of_failing_events_holds_up_no_good_one() {
    three_hundred_failing_events_do_not_hold_up_the_good_ones_behind_them("holdco");
}
