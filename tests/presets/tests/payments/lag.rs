//! How far the service's consumers are behind, whatever they are written in: read from the cluster, with nothing configured.

use std::net::TcpListener;

use postroom_e2e::until;
use postroom_presets::get;
use postroom_testbed::unique_name;
use serde_json::{Value, json};

use crate::payments::world::Payments;

/// What the commands say of the consumers of the route.
fn consumers(payments: &Payments) -> Value {
    let status = payments.route("payments")["consumers"].clone();
    let shown = payments.json(&["route", "show", "payments"])["consumers"].clone();
    // Another heartbeat may lie between them.
    if status == shown { status } else { Value::Null }
}

#[test]
fn a_group_in_any_client_is_behind_by_what_it_has_not_committed_in_metrics_status_and_route_show() {
    let mut payments = Payments::new();
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    payments.set("POSTROOM_HTTP__LISTEN", &address);
    payments.set("POSTROOM_ROUTE__PAYMENTS__TO__KAFKA__CONSUMERS__EVERY", "1s");
    // A status is as old as a heartbeat.
    payments.set("POSTROOM_RELAY__LEASE", "3s");
    let (topic, group) = (payments.topic("paymentauthorized"), unique_name("ledger"));
    for n in 0..4 {
        payments.insert(&format!("p-{n}"), "a-1");
    }
    let relay = payments.relay("processor");
    let ledger = payments.kafka.join(&group, &topic);
    ledger.work(1);

    let metric = |name: &str, value: u32| {
        format!(
            "postroom_consumer_{name}{{store=\"main\",route=\"payments\",destination=\"{topic}\",consumer=\"{group}\"}} {value}\n"
        )
    };
    let metrics = || get(&address, "/metrics", "x: y").1;
    let of_group = |messages: u32| json!({ "consumers": [{ "destination": topic, "consumer": group, "messages": messages, "members": 1 }], "message": "" });
    until("the metrics to say 3", || metrics().contains(&metric("lag_messages", 3)));
    assert!(metrics().contains(&metric("members", 1)));
    until("the commands to say 3", || consumers(&payments) == of_group(3));
    let table = payments.ok(&["route", "show", "payments"]);
    let line = table.lines().find(|line| line.contains(&group)).unwrap();
    assert_eq!(line.split_whitespace().collect::<Vec<_>>(), [group.as_str(), &topic, "3", "1"], "{table}");

    ledger.work(3);
    until("the metrics to say 0", || metrics().contains(&metric("lag_messages", 0)));
    until("the commands to say 0", || consumers(&payments) == of_group(0));
    drop(ledger);
    payments.insert("p-4", "a-1");
    until("nobody to be in the group", || metrics().contains(&metric("members", 0)));
    until("the group to be behind all the same", || metrics().contains(&metric("lag_messages", 1)));
    relay.stop();
}

#[test]
fn a_cluster_that_is_down_makes_the_lag_unknown_says_so_once_and_stops_nothing_else() {
    let mut payments = Payments::new();
    payments.set("REDPANDA_BROKERS", "127.0.0.1:1");
    payments.set("POSTROOM_ROUTE__PAYMENTS__TO__KAFKA__CONSUMERS__EVERY", "1s");
    payments.set("POSTROOM_RELAY__LEASE", "3s");
    let relay = payments.relay("processor");
    let reason = |payments: &Payments| payments.route("payments")["consumers"]["message"].to_string();
    until("the reason to be there", || reason(&payments).contains("kafka.unreachable: 127.0.0.1:1"));
    let route = payments.route("payments");
    assert_eq!((&route["state"], &route["consumers"]["consumers"]), (&json!("running"), &json!([])));
    let (beats, log) =
        (|| payments.json(&["status"])["relays"][0]["seen_at"].to_string(), || payments.log("processor"));
    for _ in 0..2 {
        let before = beats();
        until("another heartbeat", || beats() != before);
    }
    assert_eq!(log().matches("the lag of consumers is unknown").count(), 1, "{}", log());
    relay.stop();
}

#[test]
fn where_nobody_wants_to_know_nobody_asks() {
    let mut payments = Payments::new();
    payments.set("POSTROOM_ROUTE__PAYMENTS__TO__KAFKA__CONSUMERS__EVERY", "never");
    payments.insert("p-1", "a-1");
    let relay = payments.relay("processor");
    until("it is published", || payments.rows() == ["p-1 t 0"]);
    assert_eq!(payments.route("payments")["consumers"], Value::Null);
    relay.stop();
}
