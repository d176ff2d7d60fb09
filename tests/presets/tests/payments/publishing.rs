//! What is published, where, in which order, and what the service's own queries say of it.

use std::collections::BTreeMap;

use postroom_e2e::until;
use serde_json::Value;

use crate::payments::world::{Payments, payload};

#[test]
fn the_envelope_is_that_of_the_services_documents_field_by_field() {
    let payments = Payments::new();
    let declined = r#"{"payment_id": "01HYXYZ123456789ABCDEFGH", "payer_account_id": "01HY1234567890ABCDEFGHIJ", "payee_account_id": "01HY0987654321JIHGFEDCBA", "amount_cents": 999999999, "currency": "USD", "error_code": "INSUFFICIENT_FUNDS", "error_message": "Insufficient funds"}"#;
    payments.script(&format!(
        "insert into outbox (id, aggregate_type, aggregate_id, event_type, payload, created_at) values \
         ('01HYABCDEF1234567890QRST', 'Payment', '01HYABCDEF1234567890QRST', 'PaymentAuthorized', '{}', '2024-01-15T10:30:00.123456+00:00'), \
         ('01HYXYZ123456789ABCDEFGH', 'Payment', '01HYXYZ123456789ABCDEFGH', 'PaymentDeclined', '{declined}', '2024-01-15T12:35:00+02:00')",
        payload("01HYABCDEF1234567890QRST")
    ));
    payments.drain();
    let authorized = payments.kafka.read(&payments.topic("paymentauthorized"));
    let head = r#"{"event_id":"01HYABCDEF1234567890QRST","aggregate_type":"Payment","aggregate_id":"01HYABCDEF1234567890QRST","event_type":"PaymentAuthorized","payload":{"#;
    let tail = r#"},"timestamp":"2024-01-15T10:30:00.123456+00:00"}"#;
    assert_eq!(authorized.len(), 1);
    let body = &authorized[0].body;
    assert!(body.starts_with(head) && body.ends_with(tail), "{body}");
    assert_eq!(authorized[0].json()["payload"], payload("01HYABCDEF1234567890QRST"), "numbers are numbers");
    assert_eq!(authorized[0].key.as_deref(), Some("01HYABCDEF1234567890QRST"));

    let declined_record = payments.kafka.read(&payments.topic("paymentdeclined"))[0].json();
    assert_eq!(declined_record["timestamp"], "2024-01-15T10:35:00.000000+00:00", "in UTC, with all six digits");
    let payload = declined_record["payload"].as_object().unwrap();
    assert_eq!((payload.len(), &declined_record["payload"]), (7, &serde_json::from_str::<Value>(declined).unwrap()));
    assert_eq!(payments.rows(), ["01HYABCDEF1234567890QRST t 0", "01HYXYZ123456789ABCDEFGH t 0"]);
}

#[test]
fn what_is_rolled_back_with_its_payment_is_never_published() {
    let payments = Payments::new();
    payments.script("create table payment (id text primary key)");
    for (id, end) in [("p-1", "commit"), ("p-2", "rollback"), ("p-3", "commit")] {
        payments.script(&format!(
            "begin; insert into payment values ('{id}'); insert into outbox (id, aggregate_type, aggregate_id, event_type, \
             payload, created_at) values ('{id}', 'Payment', '{id}', 'PaymentAuthorized', '{{}}', now()); {end}"
        ));
    }
    payments.drain();
    let mut ids = payments.ids("paymentauthorized");
    ids.sort();
    assert_eq!(ids, ["p-1", "p-3"]);
}

#[test]
fn events_of_one_aggregate_stand_in_their_order_in_one_partition() {
    let payments = Payments::new();
    payments.script(&format!(
        "insert into outbox (id, aggregate_type, aggregate_id, event_type, payload, created_at) \
         select 'e-' || lpad(n::text, 4, '0'), 'Payment', 'a-' || n % 7, 'PaymentAuthorized', '{}', now() + n * interval '1 microsecond' \
         from generate_series(1, 350) n",
        payload("p")
    ));
    payments.drain();
    let mut per_key: BTreeMap<String, Vec<(i32, String)>> = BTreeMap::new();
    for record in payments.kafka.read(&payments.topic("paymentauthorized")) {
        let id = record.json()["event_id"].as_str().unwrap().to_owned();
        per_key.entry(record.key.unwrap()).or_default().push((record.partition, id));
    }
    assert_eq!(per_key.len(), 7);
    for (key, records) in per_key {
        assert_eq!(records.len(), 50, "{key}");
        assert!(
            records.is_sorted() && records.iter().all(|(partition, _)| *partition == records[0].0),
            "{key}: {records:?}"
        );
    }
}

#[test]
fn the_services_own_index_serves_the_poll() {
    let payments = Payments::new();
    payments.script(
        "insert into outbox (id, aggregate_type, aggregate_id, event_type, payload, created_at, published_at) \
         select 'old-' || n, 'Payment', 'a-' || n % 100, 'PaymentAuthorized', '{}', now() - interval '1 day', now() \
         from generate_series(1, 20000) n; analyze outbox",
    );
    payments.insert("e-1", "a-1");
    payments.drain();
    assert_eq!(payments.ids("paymentauthorized"), ["e-1"]);
    let used = "select idx_scan > 0 as used from pg_stat_user_indexes where indexrelname = 'ix_outbox_unpublished'";
    until("its use is counted", || payments.query(used) == ["t"]);
    let all = "select seq_tup_read < 20000 * 10 as few from pg_stat_user_tables where relname = 'outbox'";
    assert_eq!(payments.query(all), ["t"], "nobody walks through the published ones at every look");
}

#[test]
fn the_services_monitoring_queries_give_the_right_numbers_beside_a_running_relay() {
    let payments = Payments::new();
    let relay = payments.relay("processor");
    payments.insert("e-1", "a-1");
    payments.insert("e-2", "a-2");
    payments.insert_failing("e-3", "a-3");
    payments.insert("e-4", "a-3");
    until("what can be published is", || payments.rows() == ["e-1 t 0", "e-2 t 0", "e-3 f 1", "e-4 f 0"]);
    assert_eq!(payments.query("SELECT COUNT(*) FROM outbox WHERE published_at IS NULL;"), ["2"]);
    let by_count =
        "SELECT retry_count, COUNT(*) FROM outbox WHERE published_at IS NULL GROUP BY retry_count ORDER BY 1;";
    assert_eq!(payments.query(by_count), ["0 1", "1 1"], "the one that failed and the one behind it");
    let latency = payments.query(
        "SELECT AVG(EXTRACT(EPOCH FROM (published_at - created_at))) as avg_latency_seconds
         FROM outbox
         WHERE published_at > NOW() - INTERVAL '1 hour';",
    );
    let latency: f64 = latency[0].parse().unwrap();
    assert!((0.0..60.0).contains(&latency), "{latency} s");
    assert_eq!(payments.route("payments")["delivered"], 2);
    relay.stop();
}

#[test]
fn of_two_relays_on_one_table_one_publishes_and_the_other_takes_over() {
    let mut payments = Payments::new();
    payments.set("POSTROOM_RELAY__LEASE", "2s");
    let first = payments.relay("first");
    until("the first is at work", || payments.run(&["status"]).stdout.contains("running"));
    let second = payments.relay("second");
    until("the second stands by", || payments.json(&["status"])["relays"].as_array().unwrap().len() == 2);
    for n in 0..50 {
        payments.insert(&format!("e-{n:02}"), &format!("a-{}", n % 5));
    }
    until("all are published", || payments.query("select count(*) from outbox where published_at is null") == ["0"]);
    assert_eq!(payments.ids("paymentauthorized").len(), 50, "each of them once");
    first.kill();
    payments.insert("e-50", "a-0");
    until("the second has taken over", || payments.rows().last().unwrap() == "e-50 t 0");
    second.stop();
}
