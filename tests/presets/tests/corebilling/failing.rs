//! What failures do: counts, delays, the end of patience.

use serde_json::json;

use crate::corebilling::world::Billing;

/// Fails the row once more with so many failures behind it; how far ahead its next try is then, in seconds, at most and at least.
fn delay(billing: &Billing, count: u32) -> (f64, f64) {
    billing.script("delete from billing_events");
    let id = format!("01J-{count}");
    billing.insert_failing(&id, count);
    let seconds = |what: &str| -> f64 { billing.query(what)[0].parse().unwrap() };
    let before = seconds("select extract(epoch from clock_timestamp())");
    billing.work_until("it has failed once more", || billing.states() == [format!("{id} pending {}", count + 1)]);
    let after = seconds("select extract(epoch from clock_timestamp())");
    let next = billing.payload(&id)["outbox_next_attempt_at"].as_str().unwrap().to_owned();
    assert!(next.ends_with('Z') && next.len() == 27, "RFC 3339 in UTC: {next}");
    let next = seconds(&format!("select extract(epoch from '{next}'::timestamptz)"));
    (next - before, next - after)
}

#[test]
fn each_failure_counts_and_doubles_the_delay_from_one_second_to_five_minutes() {
    let mut billing = Billing::new();
    billing.set("POSTROOM_ROUTE__COREBILLING__RETRY__ATTEMPTS", "30");
    for (count, seconds) in [(0, 1.0), (1, 2.0), (6, 64.0), (20, 300.0)] {
        let (most, least) = delay(&billing, count);
        assert!(most >= seconds, "{count} failures: {most} s after the try began");
        let longest = (seconds * 1.1_f64).min(300.0);
        assert!(least <= longest, "{count} failures: {least} s after the try ended");
    }
}

#[test]
fn a_row_in_back_off_is_not_tried_before_its_time_and_is_dispatched_when_it_succeeds() {
    let billing = Billing::new();
    billing.insert_failing("01J-1", 6);
    billing.work_until("it has failed", || billing.states() == ["01J-1 pending 7"]);
    billing.script(&format!("update billing_events set subject = '{}'", billing.subject));
    billing.insert("01J-2", &json!({}));
    billing.work_until("one behind it is dispatched", || billing.states()[1] == "01J-2 dispatched 0");
    assert_eq!(billing.states()[0], "01J-1 pending 7", "a minute is not over");
    billing.script(
        "update billing_events set payload = payload || '{\"outbox_next_attempt_at\": \"2026-01-01T00:00:00Z\"}'",
    );
    billing.drain();
    assert_eq!(billing.states(), ["01J-1 dispatched 7", "01J-2 dispatched 0"]);
    assert_eq!(billing.published_ids(), ["01J-1", "01J-2"]);
}

#[test]
fn at_the_limit_of_ten_a_row_is_a_dead_letter_with_its_last_error_and_the_others_go_on() {
    let billing = Billing::new();
    billing.insert_failing("01J-1", 9);
    billing.insert("01J-2", &json!({}));
    billing.drain();
    assert_eq!(billing.states(), ["01J-1 dead_letter 10", "01J-2 dispatched 0"]);
    let error = billing.payload("01J-1")["outbox_last_error"].as_str().unwrap().to_owned();
    assert!(error.contains("no.such.topic"), "{error}");
    let dead = billing.json(&["dead", "ls"]);
    assert_eq!(
        (&dead[0]["id"], &dead[0]["tenant"], &dead[0]["attempts"]),
        (&json!("01J-1"), &json!("t-1"), &json!(10))
    );
    assert_eq!(dead[0]["error"], error);
    assert_eq!(billing.published_ids(), ["01J-2"]);
}

#[test]
fn failures_are_logged_with_the_events_id_and_its_tenant_and_never_with_its_payload() {
    let billing = Billing::new();
    billing.insert_failing("01J-1", 9);
    billing.insert_failing("01J-2", 0);
    billing.work_until("both were tried", || billing.states() == ["01J-1 dead_letter 10", "01J-2 pending 1"]);
    let log = billing.log("relay");
    let lines: Vec<serde_json::Value> = log.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    for (id, word) in [("01J-1", "dead letter"), ("01J-2", "tried again")] {
        let line = lines.iter().find(|line| line["event_id"] == id && line.to_string().contains(word));
        let line = line.unwrap_or_else(|| panic!("no line of {id}: {log}"));
        assert_eq!(line["tenant_id"], "t-1", "{line}");
        assert!(line["error"].as_str().unwrap().contains("no.such.topic"), "{line}");
        assert_eq!(line["trace_id"].as_str().unwrap().len(), 32, "{line}");
    }
    assert!(!log.contains("invoice"), "{log}");
}

#[test]
fn rows_that_others_call_failed_are_left_alone_and_counted_in_the_note() {
    let billing = Billing::new();
    billing.insert("01J-1", &json!({"outbox_status": "failed"}));
    billing.insert("01J-2", &json!({}));
    let before = billing.payload("01J-1");
    billing.drain();
    assert_eq!(billing.states(), ["01J-1 failed 0", "01J-2 dispatched 0"]);
    assert_eq!(billing.payload("01J-1"), before);
    assert!(billing.note().ends_with("1 rows are failed"), "{}", billing.note());
    assert_eq!(billing.run(&["verify"]).code, 0, "the word is declared");
    assert_eq!(billing.published_ids(), ["01J-2"]);
}

#[test]
fn a_failed_row_waits_alone_unless_order_per_resource_is_asked_for() {
    let mut billing = Billing::new();
    for ordered in [false, true] {
        billing.script("delete from billing_events");
        let id = |n: u32| format!("01J-{ordered}-{n}");
        let pending = json!({"outbox_status": "pending"}).to_string();
        billing.write(&id(1), "no.such.topic", "'sub-1'", &pending);
        billing.write(&id(2), &billing.subject, "'sub-1'", &pending);
        billing.write(&id(3), &billing.subject, "'sub-2'", &pending);
        if ordered {
            billing.set("POSTROOM_STORE__MAIN__MAPPING__ORDERED", "true");
        }
        let failed = format!("{} pending 1", id(1));
        let others = || billing.query("select id, payload->>'outbox_status' from billing_events order by id");
        billing.work_until("all that can be is done", || {
            billing.states()[0] == failed && others()[2].ends_with("dispatched")
        });
        let behind = if ordered { "pending" } else { "dispatched" };
        assert_eq!(
            others(),
            [format!("{} pending", id(1)), format!("{} {behind}", id(2)), format!("{} dispatched", id(3))]
        );
        billing.script("update billing_events set payload = payload - 'outbox_next_attempt_at'");
        billing.script(&format!("update billing_events set subject = '{}'", billing.subject));
        billing.drain();
    }
    // The resource's events are in one partition; those of the ordered half in their order.
    let ordered: Vec<String> =
        billing.kafka.read(&billing.subject).iter().map(|r| r.json()["id"].as_str().unwrap().to_owned()).collect();
    let place = |id: &str| ordered.iter().position(|other| other == id).unwrap();
    assert!(place("01J-false-1") > place("01J-false-2"), "{ordered:?}");
    assert!(place("01J-true-1") < place("01J-true-2"), "{ordered:?}");
}
