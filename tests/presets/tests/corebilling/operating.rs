//! What operators do by hand, also while a row is being delivered.

use std::net::TcpListener;

use postroom_e2e::until;
use postroom_presets::{System, get};
use postroom_testbed::Collector;
use serde_json::json;

use crate::corebilling::world::Billing;

const BACK: &str = r#"{"outbox_status": "pending", "outbox_retry_count": 0}"#;

#[test]
fn a_dead_letter_is_replayed_by_setting_its_status_back_and_the_count_with_it() {
    let billing = Billing::new();
    billing.insert_failing("01J-1", 9);
    billing.drain();
    assert_eq!(billing.states(), ["01J-1 dead_letter 10"]);
    billing
        .script(&format!("update billing_events set subject = '{}', payload = payload || '{BACK}'", billing.subject));
    billing.drain();
    assert_eq!(billing.states(), ["01J-1 dispatched 0"]);
    assert_eq!(billing.published_ids(), ["01J-1"]);
    assert_eq!(billing.json(&["dead", "ls"]), json!([]));
    assert_eq!(billing.json(&["event", "show", "01J-1"])["routes"][0]["state"], "delivered");
}

#[test]
fn a_dead_letter_is_replayed_by_inserting_it_again() {
    let billing = Billing::new();
    billing.insert_failing("01J-1", 9);
    billing.drain();
    billing.script(&format!(
        "insert into billing_events select id || '-again', '{}', tenant_id, resource_id, payload || '{BACK}', now() \
         from billing_events",
        billing.subject
    ));
    billing.drain();
    assert_eq!(billing.states(), ["01J-1 dead_letter 10", "01J-1-again dispatched 0"]);
    assert_eq!(billing.published_ids(), ["01J-1-again"]);
}

#[test]
fn a_dead_letter_is_replayed_by_command_as_by_hand() {
    let billing = Billing::new();
    billing.insert_failing("01J-1", 9);
    billing.drain();
    billing.ok(&["dead", "replay", "--all", "--yes"]);
    let payload = billing.payload("01J-1");
    assert_eq!((&payload["outbox_status"], &payload["outbox_retry_count"]), (&json!("pending"), &json!(0)));
    billing.script(&format!("update billing_events set subject = '{}'", billing.subject));
    billing.drain();
    assert_eq!(billing.states(), ["01J-1 dispatched 0"]);
    assert_eq!(billing.published_ids(), ["01J-1"]);
}

#[test]
fn an_operator_who_sets_a_row_back_to_pending_while_it_fails_wins() {
    let billing = Billing::new();
    billing.insert_failing("01J-1", 9);
    // The relay reads the row as it was, tries it for the tenth time and wants to write that it is dead.
    let mut operator = billing.begin();
    operator.script(&format!("update billing_events set payload = payload || '{BACK}'"));
    let relay = billing.relay("dispatcher");
    operator.until_waited_for(&billing);
    operator.commit();
    until("it was tried again from the start", || billing.states() == ["01J-1 pending 1"]);
    relay.stop();
    assert!(billing.log("dispatcher").contains("another program changed the row"), "{}", billing.log("dispatcher"));
    assert_eq!(billing.json(&["dead", "ls"]), json!([]));
}

#[test]
fn a_payload_that_an_operator_fixes_while_the_old_one_is_on_its_way_is_published_too() {
    let billing = Billing::new();
    billing.insert("01J-1", &json!({"outbox_retry_count": 3, "amount": 1}));
    let mut operator = billing.begin();
    operator.script(&format!("update billing_events set payload = payload || '{BACK}' || '{{\"amount\": 2}}'"));
    let relay = billing.relay("dispatcher");
    operator.until_waited_for(&billing);
    operator.commit();
    until("it is dispatched", || billing.states() == ["01J-1 dispatched 0"]);
    relay.stop();
    let amounts: Vec<_> = billing.published().iter().map(|record| record.json()["payload"]["amount"].clone()).collect();
    assert_eq!(amounts, [json!(1), json!(2)]);
}

#[test]
fn a_row_that_somebody_finishes_or_deletes_while_it_is_on_its_way_stays_as_they_left_it() {
    let billing = Billing::new();
    billing.insert("01J-1", &json!({}));
    billing.insert("01J-2", &json!({}));
    let mut operator = billing.begin();
    operator.script(
        "update billing_events set payload = payload || '{\"outbox_status\": \"failed\", \"outbox_last_error\": \"by hand\"}' \
         where id = '01J-1'; delete from billing_events where id = '01J-2'",
    );
    let relay = billing.relay("dispatcher");
    operator.until_waited_for(&billing);
    operator.commit();
    until("the relay has said so", || {
        billing.log("dispatcher").matches("another program changed the row").count() == 2
    });
    relay.stop();
    assert_eq!(billing.states(), ["01J-1 failed 0"]);
    assert_eq!(billing.payload("01J-1")["outbox_last_error"], "by hand");
    assert_eq!(billing.published_ids(), ["01J-1", "01J-2"], "they were on their way already");
}

#[test]
fn metrics_have_the_names_that_are_graphed_already() {
    let mut billing = Billing::new();
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    billing.set("POSTROOM_HTTP__LISTEN", &address);
    billing.insert("01J-1", &json!({}));
    billing.insert_failing("01J-2", 9);
    let relay = billing.relay("ours");
    let of = "{store=\"main\",route=\"corebilling\"";
    let lines = [
        format!("corebilling_outbox_dispatcher_inflight{of}}} 0"),
        // Whatever the outcome of a topic that is not there.
        format!("corebilling_outbox_dispatcher_errors{of},outcome=\""),
        format!("postroom_deliveries_total{of},result=\"delivered\"}} 1"),
    ];
    let page = || get(&address, "/metrics", "accept: text/plain").1;
    until("the metrics to count both", || lines.iter().all(|line| page().contains(line)));
    let page = page();
    assert!(
        !page.contains(
            "corebilling_outbox_dispatcher_errors{store=\"main\",route=\"corebilling\",outcome=\"delivered\""
        )
    );
    assert!(!page.contains("corebilling_webhook_delivery"), "nothing of this went to a webhook: {page}");
    relay.stop();
}

#[test]
fn metrics_of_webhooks_count_what_goes_to_webhooks() {
    let receiver = Collector::start();
    let mut system = System::new("corebilling");
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    system.set("POSTROOM_HTTP__LISTEN", &address);
    system.set("EVENT_BUS", "webhook");
    system.set("POSTROOM_TRANSPORT__WEBHOOK__URL", &format!("http://{}/billing", receiver.address));
    system.set("POSTROOM_TRANSPORT__WEBHOOK__HTTPS_ONLY", "false");
    system.set("POSTROOM_TRANSPORT__WEBHOOK__ALLOW_NETWORKS", "[\"127.0.0.0/8\"]");
    system.script(
        "insert into billing_events (id, subject, tenant_id, payload) \
         values ('01J-1', 'invoice.created', 't-1', '{\"outbox_status\": \"pending\"}')",
    );
    let relay = system.relay("ours");
    let of = "{store=\"main\",route=\"corebilling\"";
    let lines = [
        format!("corebilling_webhook_delivery_total{of},result=\"delivered\"}} 1"),
        format!("corebilling_webhook_delivery_duration_seconds_count{of},outcome=\"delivered\"}} 1"),
        format!("corebilling_webhook_delivery_responses_total{of},class=\"2xx\"}} 1"),
    ];
    until("the metrics to count it", || {
        let page = get(&address, "/metrics", "accept: text/plain").1;
        lines.iter().all(|line| page.contains(line))
    });
    relay.stop();
}
