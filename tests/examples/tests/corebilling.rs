//! Billing: a service and a consumer in Go, with state inside the payload, on Kafka.

use std::collections::BTreeMap;

use postroom_e2e::until;
use postroom_examples::Example;
use postroom_presets::Kafka;
use postroom_testbed::unique_name;

const STATUSES: &str = "select payload->>'outbox_status', count(*) from billing_events group by 1 order by 1";

fn corebilling() -> Example {
    let mut billing = Example::new("corebilling");
    billing.set("EVENT_BUS", "kafka");
    billing.set("KAFKA_BROKERS", &Kafka::shared().brokers);
    billing.set("SUBJECT_PREFIX", &format!("{}.", unique_name("billing")));
    // As often as the tests would like to look.
    billing.set("POSTROOM_STORE__MAIN__POLL__MIN", "50ms");
    billing.set("POSTROOM_STORE__MAIN__POLL__MAX", "50ms");
    billing.prepare("packages");
    billing
}

/// With tables and topics, and nothing that runs.
fn at_rest() -> Example {
    let mut billing = corebilling();
    billing.learn();
    billing.sh("make --silent prepared");
    billing
}

/// Puts events of subscriptions into the outbox, with this state.
fn insert(billing: &Example, ids: std::ops::Range<u32>, state: &str) {
    billing.system.script(&format!(
        "insert into subscriptions select 'sub-' || n, 'acme', 'created' from generate_series({0}, {1}) n;
         insert into billing_events select 'e-' || n, '{2}subscription.created', 'acme', 'sub-' || n,
         jsonb_build_object('outbox_retry_count', 0, 'outbox_next_attempt_at', now(), 'plan', 'yearly') || '{state}' from generate_series({0}, {1}) n",
        ids.start,
        ids.end - 1,
        billing.variable("SUBJECT_PREFIX"),
    ));
}

/// How often each event is in the topic.
fn copies(billing: &Example) -> BTreeMap<String, usize> {
    let mut copies = BTreeMap::new();
    for record in Kafka::shared().read(&format!("{}subscription.created", billing.variable("SUBJECT_PREFIX"))) {
        *copies.entry(record.json()["id"].as_str().unwrap().to_owned()).or_default() += 1;
    }
    copies
}

const PENDING: &str = r#"{"outbox_status": "pending"}"#;

#[test]
fn the_billing_service_does_what_its_readme_says() {
    let mut billing = corebilling();
    for section in ["Run it", "Fail, retry, die, replay", "Cutting over"] {
        billing.follow(section);
    }
}

#[test]
fn billing_events_that_the_old_dispatcher_has_left_in_any_state_are_published_visibly_dead_or_counted() {
    let mut billing = at_rest();
    insert(&billing, 1..2, PENDING);
    insert(&billing, 2..3, r#"{"outbox_status": "dispatched"}"#);
    insert(
        &billing,
        3..4,
        r#"{"outbox_status": "dead_letter", "outbox_retry_count": 10, "outbox_last_error": "no topic"}"#,
    );
    insert(&billing, 4..5, r#"{"outbox_status": "failed"}"#);
    insert(
        &billing,
        5..6,
        r#"{"outbox_status": "pending", "outbox_retry_count": 3, "outbox_next_attempt_at": "2999-01-01T00:00:00Z"}"#,
    );
    billing.start("relay");
    billing.until_rows(STATUSES, &["dead_letter 1", "dispatched 2", "failed 1", "pending 1"]);
    assert_eq!(copies(&billing), [("e-1".to_owned(), 1)].into());
    let dead = billing.system.json(&["dead", "ls"]);
    assert_eq!((dead.as_array().unwrap().len(), &dead[0]["id"]), (1, &"e-3".into()), "{dead}");
    let message = billing.system.route("corebilling")["message"].to_string();
    assert!(message.contains("failed"), "{message}");
}

#[test]
fn what_the_old_dispatcher_had_published_and_not_marked_when_it_was_killed_comes_twice_and_counts_once() {
    let mut billing = at_rest();
    insert(&billing, 1..4, PENDING);
    let mut session = billing.system.begin();
    session.script("select from billing_events where id = 'e-2' for update");
    billing.start("old");
    until("the second one is published", || copies(&billing).len() == 2);
    billing.kill("old");
    // The server would still run the statement of a client that is gone.
    let waiting = "select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'";
    billing.system.query(waiting);
    drop(session);
    billing.start("mails");
    billing.start("relay");
    billing.until_rows(STATUSES, &["dispatched 3"]);
    billing.until_rows("select count(*) from welcome_mails", &["3"]);
    assert_eq!(copies(&billing).into_values().collect::<Vec<_>>(), [1, 2, 1]);
}

#[test]
fn old_dispatcher_and_relay_side_by_side_publish_an_event_twice_at_most_and_lose_none() {
    let mut billing = at_rest();
    billing.start("old");
    billing.start("relay");
    for start in (1..200).step_by(20) {
        insert(&billing, start..start + 20, PENDING);
    }
    billing.until_rows(STATUSES, &["dispatched 200"]);
    billing.stop("old");
    let copies = copies(&billing);
    assert_eq!(copies.len(), 200);
    assert!(copies.values().all(|count| *count <= 2), "{copies:?}");
}

#[test]
fn the_old_billing_dispatcher_goes_on_with_what_the_relay_has_left() {
    let mut billing = at_rest();
    insert(&billing, 1..3, PENDING);
    billing.start("relay");
    billing.until_rows(STATUSES, &["dispatched 2"]);
    billing.stop("relay");
    insert(&billing, 3..5, PENDING);
    billing.start("old");
    billing.until_rows(STATUSES, &["dispatched 4"]);
    assert_eq!(copies(&billing).into_values().collect::<Vec<_>>(), [1, 1, 1, 1]);
}
