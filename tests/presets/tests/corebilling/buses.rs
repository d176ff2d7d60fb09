//! The three buses, the dispatcher's rhythm, and how the table comes to be.

use std::time::Duration;

use async_nats::jetstream::consumer::{AckPolicy, pull};
use async_nats::jetstream::{self, stream};
use futures_util::{StreamExt as _, TryStreamExt as _};
use postroom_e2e::{until, within};
use postroom_presets::System;
use postroom_testbed::{Collector, OwnServer, Posted, Servers, brokers, unique_name};
use serde_json::{Value, json};

use crate::corebilling::world::Billing;

#[test]
fn with_nats_as_the_bus_the_subject_is_the_rows_own() {
    let mut billing = Billing::new();
    let url = format!("nats://127.0.0.1:{}", Servers::find().port("nats"));
    billing.set("EVENT_BUS", "nats");
    billing.set("NATS_URL", &url);
    let subject = billing.subject.clone();
    let (context, stream) = billing.wait(async {
        let context = jetstream::new(async_nats::connect(&url).await.unwrap());
        let stream = stream::Config { name: unique_name("S"), subjects: vec![subject.clone()], ..Default::default() };
        let stream = context.create_stream(stream).await.unwrap();
        (context, stream)
    });
    billing.insert("01J-1", &json!({"correlation_id": "c-1"}));
    billing.insert("01J-2", &json!({}));
    billing.drain();
    assert_eq!(billing.states(), ["01J-1 dispatched 0", "01J-2 dispatched 0"]);
    let messages: Vec<(String, Value)> = billing.wait(async {
        let consumer = pull::Config { ack_policy: AckPolicy::None, ..Default::default() };
        let consumer = stream.create_consumer(consumer).await.unwrap();
        let batch = consumer.fetch().max_messages(10).messages().await.unwrap();
        batch
            .map_ok(|m| (m.subject.to_string(), serde_json::from_slice(&m.payload).unwrap()))
            .try_collect()
            .await
            .unwrap()
    });
    assert_eq!(messages.iter().map(|(subject, _)| subject.clone()).collect::<Vec<_>>(), [subject.clone(), subject]);
    let envelope = &messages.iter().find(|(_, envelope)| envelope["id"] == "01J-1").unwrap().1;
    assert_eq!((&envelope["correlation_id"], &envelope["payload"]["invoice"]), (&json!("c-1"), &json!("01J-1")));
    assert!(envelope["payload"]["outbox_status"].is_null());
    billing.wait(async { context.delete_stream(stream.cached_info().config.name.clone()).await.unwrap() });
}

#[test]
fn with_a_plain_nats_server_as_the_bus_who_listens_hears_the_events_and_the_log_says_what_is_promised() {
    let server = OwnServer::start(&brokers::NatsPlain("")).unwrap();
    let mut billing = Billing::new();
    let url = format!("nats://127.0.0.1:{}", server.site.port);
    billing.set("EVENT_BUS", "nats");
    billing.set("NATS_URL", &url);
    billing.set("NATS_JETSTREAM", "false");
    let mut heard = billing.wait(async {
        let client = async_nats::connect(&url).await.unwrap();
        let heard = client.subscribe(billing.subject.clone()).await.unwrap();
        client.flush().await.unwrap();
        heard
    });
    let checked = billing.run(&["config", "check", "--online"]);
    assert!(checked.stdout.contains("nats.core"), "{}{}", checked.stdout, checked.stderr);
    let found = billing.run(&["doctor", "-o", "json"]);
    for words in ["nats.core", "only who listens then gets them", "unless a lost event does no harm"] {
        assert!(found.stdout.contains(words), "{words}: {}{}", found.stdout, found.stderr);
    }
    billing.insert("01J-1", &json!({}));
    billing.work_until("it is dispatched", || billing.states() == ["01J-1 dispatched 0"]);
    let message = billing.wait(async { heard.next().await.unwrap() });
    assert_eq!(serde_json::from_slice::<Value>(&message.payload).unwrap()["id"], "01J-1");
    assert!(billing.log("relay").contains("nats.core"), "{}", billing.log("relay"));
    // A server that is away has taken nothing.
    server.stop().unwrap();
    billing.insert("01J-2", &json!({}));
    billing.work_until("the breaker is open", || billing.route("corebilling")["state"] == "breaker_open");
    assert_eq!(billing.states(), ["01J-1 dispatched 0", "01J-2 pending 0"]);
}

#[test]
fn rows_with_ulids_are_dispatched_in_the_order_of_their_ids() {
    let mut billing = Billing::new();
    billing.set("POSTROOM_STORE__MAIN__MAPPING__ORDERED", "true");
    let ids = ["01JCX2V9D8Q4Z6T1M0N5R7S3WA", "01JCX2V9D8Q4Z6T1M0N5R7S3WB", "01JCX2VB0000000000000000ZZ"];
    for id in ids.iter().rev() {
        billing.insert(id, &json!({}));
    }
    billing.drain();
    let mut published: Vec<String> = Vec::new();
    for record in billing.kafka.read(&billing.subject) {
        published.push(record.json()["id"].as_str().unwrap().to_owned());
    }
    assert_eq!(published, ids, "of one resource, so in one partition");
}

#[test]
fn with_noop_as_the_bus_rows_are_dispatched_and_nothing_is_sent() {
    let mut billing = Billing::new();
    billing.set("EVENT_BUS", "noop");
    billing.insert("01J-1", &json!({}));
    billing.drain();
    assert_eq!(billing.states(), ["01J-1 dispatched 0"]);
    assert_eq!(billing.published_ids(), [""; 0]);
}

#[test]
fn what_becomes_of_a_row_is_a_span_with_its_id_and_without_its_payload() {
    let collector = Collector::start();
    let mut system = System::new("corebilling");
    system.set("EVENT_BUS", "noop");
    system.set("OTEL_EXPORTER_OTLP_ENDPOINT", &format!("http://{}", collector.address));
    system.set("OTEL_TRACES_SAMPLER_ARG", "1");
    system.script(
        "insert into billing_events (id, subject, tenant_id, payload) \
         values ('01J-1', 's', 't-1', '{\"outbox_status\": \"pending\", \"canary\": \"canary\"}')",
    );
    system.drain();
    let taken = collector.taken();
    let [Posted { body, .. }] = taken.as_slice() else { panic!("{taken:?}") };
    let text = String::from_utf8_lossy(body);
    for told in ["01J-1", "send corebilling", "postroom.outcome", "delivered", "postroom.tenant", "t-1"] {
        assert!(text.contains(told), "no {told}: {text}");
    }
    assert!(!text.contains("canary"), "{text}");
}

#[test]
fn the_dispatcher_looks_every_two_seconds_or_as_often_as_it_is_told() {
    // Every other test says how often.
    let mut system = System::new("corebilling");
    system.set("EVENT_BUS", "noop");
    let insert = |id: &str| {
        system.script(&format!(
            "insert into billing_events (id, subject, tenant_id, payload) \
             values ('{id}', 's', 't-1', '{{\"outbox_status\": \"pending\"}}')"
        ));
    };
    let dispatched = |count: &str| {
        system.query("select count(*) from billing_events where payload->>'outbox_status' = 'dispatched'") == [count]
    };
    let relay = system.relay("dispatcher");
    insert("01J-1");
    until("the first look was taken", || dispatched("1"));
    insert("01J-2");
    let ((), took) = within(Duration::from_mins(1), "the next look was taken", || dispatched("2").then_some(()));
    assert!(took > Duration::from_secs(1), "two seconds after the one before: {took:?}");
    relay.stop();
}

#[test]
fn migrations_make_the_table_only_where_the_service_is_among_the_enabled_ones() {
    let there = "select to_regclass('billing_events') is not null as there";
    for (services, made) in [("", false), ("invoice,tenant", false), ("invoice, billing_event", true)] {
        let mut system = System::bare("corebilling");
        system.set("ENABLED_MIGRATION_SERVICES", services);
        let said = system.run(&["store", "migrate", "up"]);
        assert_eq!(system.query(there), [if made { "t" } else { "f" }], "{services:?}: {}{}", said.stdout, said.stderr);
        assert_eq!(said.code == 0, made, "{services:?}: {}", said.stderr);
        if made {
            assert!(said.stdout.contains("billing_events"), "{}", said.stdout);
            assert!(system.ok(&["store", "migrate", "up"]).contains("up to date"), "a second time changes nothing");
        }
    }
}
