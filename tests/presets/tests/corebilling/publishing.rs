//! What is published and what is written when it was.

use serde_json::json;

use crate::corebilling::world::Billing;

const STATE: [&str; 4] = ["outbox_status", "outbox_retry_count", "outbox_next_attempt_at", "outbox_last_error"];

/// A payload with everything that a careless rewrite would change.
const PAYLOAD: &str = r#"{"z":1.50,"outbox_status":"pending","outbox_retry_count":0,"big":12345678901234567890123,"a":{"outbox_status":"mine"},"outbox_next_attempt_at":"2020-01-01T00:00:00Z","outbox_last_error":"","text":"grün \"quoted\" \\ '","outbox_note":"kept","correlation_id":"c-1","causation_id":"k-1","none":null}"#;

#[test]
fn an_event_is_published_as_the_envelope_without_the_four_state_keys_and_is_dispatched() {
    let billing = Billing::new();
    billing.write("01J-1", &billing.subject, "'sub-1'", PAYLOAD);
    billing.drain();
    let published = billing.published();
    assert_eq!(published.len(), 1);
    let mut payload: serde_json::Value = serde_json::from_str(PAYLOAD).unwrap();
    payload.as_object_mut().unwrap().retain(|key, _| !STATE.contains(&key.as_str()));
    let expected = json!({
        "id": "01J-1", "subject": billing.subject, "tenant_id": "t-1", "resource_id": "sub-1", "correlation_id": "c-1",
        "causation_id": "k-1", "created_at": "2026-01-02T03:04:05.12Z", "payload": payload,
    });
    assert_eq!(published[0].json(), expected);
    assert_eq!(published[0].key.as_deref(), Some("sub-1"));
    assert_eq!(billing.states(), ["01J-1 dispatched 0"]);
}

#[test]
fn columns_of_text_and_json_keep_the_payloads_own_bytes_in_what_is_published() {
    for sql_type in ["text", "json"] {
        let billing = Billing::with_payload(sql_type);
        billing.write("01J-1", &billing.subject, "'sub-1'", PAYLOAD);
        billing.drain();
        let body = billing.published()[0].body.clone();
        let kept = r#""payload":{"z":1.50,"big":12345678901234567890123,"a":{"outbox_status":"mine"},"text":"grün \"quoted\" \\ '","outbox_note":"kept","correlation_id":"c-1","causation_id":"k-1","none":null}}"#;
        assert!(body.ends_with(kept), "{sql_type}: {body}");
    }
}

#[test]
fn state_is_written_into_its_four_keys_and_nothing_else_of_the_payload_changes() {
    for sql_type in ["jsonb", "json", "text"] {
        let billing = Billing::with_payload(sql_type);
        billing.write("01J-1", &billing.subject, "'sub-1'", PAYLOAD);
        billing.write("01J-2", "no.such.topic", "'sub-2'", PAYLOAD);
        billing.work_until("both were tried", || billing.states() == ["01J-1 dispatched 0", "01J-2 pending 1"]);
        let rest = |text: &str| billing.query(&format!("select ({text}) - '{{{}}}'::text[]", STATE.join(",")));
        let before = rest(&format!("'{}'::jsonb", PAYLOAD.replace('\'', "''")));
        for (id, status) in [("01J-1", "dispatched"), ("01J-2", "pending")] {
            let row = format!("select payload::jsonb from billing_events where id = '{id}'");
            assert_eq!(rest(&format!("({row})")), before, "{sql_type}: in the database's own numbers");
            assert_eq!(billing.payload(id)["outbox_status"], status, "{sql_type}");
        }
        let failed = billing.payload("01J-2");
        assert_eq!(failed["outbox_retry_count"], 1, "a number, as it was");
        assert!(failed["outbox_last_error"].as_str().unwrap().contains("no.such.topic"), "{failed}");
    }
}

#[test]
fn only_pending_rows_whose_time_has_come_are_published_whatever_the_times_form() {
    let billing = Billing::new();
    for (id, next) in [
        ("01J-1", json!({})),
        ("01J-2", json!({"outbox_next_attempt_at": null})),
        ("01J-3", json!({"outbox_next_attempt_at": ""})),
        ("01J-4", json!({"outbox_next_attempt_at": "soon"})),
        ("01J-5", json!({"outbox_next_attempt_at": "2026-01-02T08:34:05+05:30"})),
        ("01J-6", json!({"outbox_next_attempt_at": "2026-01-02 03:04:05.123456789-08"})),
    ] {
        billing.insert(id, &next);
    }
    // An hour ahead, though its clock face says that it is past.
    let ahead = "to_char((now() + interval '1 hour') at time zone 'Etc/GMT+9', 'YYYY-MM-DD\"T\"HH24:MI:SS\"-09:00\"')";
    let behind = "to_char((now() - interval '1 hour') at time zone 'Etc/GMT-9', 'YYYY-MM-DD\"T\"HH24:MI:SS\"+09:00\"')";
    for (id, when) in [("01J-7", behind), ("01J-8", ahead)] {
        billing.insert(id, &json!({}));
        billing.script(&format!(
            "update billing_events set payload = jsonb_set(payload, '{{outbox_next_attempt_at}}', to_jsonb({when})) where id = '{id}'"
        ));
    }
    billing.insert("01J-9", &json!({"outbox_status": "dispatched"}));
    let pending = "select id from billing_events where payload->>'outbox_status' = 'pending'";
    billing.work_until("the others are published", || billing.query(pending) == ["01J-8"]);
    let published: Vec<String> = (1..=7).map(|n| format!("01J-{n}")).collect();
    assert_eq!(billing.published_ids(), published);
}

#[test]
fn a_payload_that_is_no_object_has_no_state_and_is_counted_where_people_look_while_the_others_go_on() {
    let billing = Billing::with_payload("text");
    billing.write("01J-1", &billing.subject, "null", "[1, 2]");
    billing.write("01J-2", &billing.subject, "null", "this is not JSON");
    billing.write("01J-3", &billing.subject, "null", r#"{"outbox_status":"pending","zero":"\u0000"}"#);
    billing.insert("01J-4", &json!({}));
    billing.drain();
    assert_eq!(billing.published_ids(), ["01J-4"]);
    assert_eq!(billing.note(), "no live relay serves this route; 3 rows have no state");
    let verified = billing.run(&["verify"]);
    assert_ne!(verified.code, 0, "{}", verified.stdout);
    assert!(verified.stdout.contains("3 rows have no state"), "{}{}", verified.stdout, verified.stderr);
}

#[test]
fn a_zero_character_in_a_json_column_keeps_nobody_else_waiting() {
    // `json` takes it and `jsonb` does not: a cast would fail for the whole table.
    let billing = Billing::with_payload("json");
    billing.write("01J-1", &billing.subject, "null", r#"{"outbox_status":"pending","zero":"\u0000"}"#);
    billing.insert("01J-2", &json!({}));
    billing.drain();
    assert_eq!(billing.published_ids(), ["01J-2"]);
    assert!(billing.note().contains("1 rows have no state"), "{}", billing.note());
}

#[test]
fn a_row_without_a_tenant_or_a_resource_is_published_with_null() {
    let billing = Billing::new();
    billing.script("alter table billing_events alter column tenant_id drop not null");
    billing.insert("01J-1", &json!({}));
    billing.script("update billing_events set tenant_id = null, resource_id = null");
    billing.drain();
    let published = billing.published();
    let envelope = published[0].json();
    assert_eq!((&envelope["tenant_id"], &envelope["resource_id"]), (&json!(null), &json!(null)));
    assert_eq!(published[0].key, None);
    assert_eq!(envelope["correlation_id"], "01J-1", "the event's own id where the payload has none");
}
