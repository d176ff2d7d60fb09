//! What failures do: counts, delays, dead letters.

use postroom_e2e::until;
use serde_json::{Value, json};

use crate::payments::world::{Payments, payload};

#[test]
fn each_failure_counts_and_its_delay_doubles_with_at_most_a_tenth_of_jitter() {
    let payments = Payments::new();
    payments.insert_failing("e-1", "a-1");
    for (count, seconds) in [(1, 1.0), (2, 2.0), (3, 4.0), (4, 8.0)] {
        payments.work_until("it has failed", || payments.rows()[0] == format!("e-1 f {count}"));
        let due = payments.due_in("e-1");
        assert!((seconds..=seconds * 1.1 + 0.01).contains(&due), "after {count} failures: {due} s");
        payments.be_due();
    }
    payments.script("update postroom.sidecar set due = now() + interval '1 hour'");
    payments.insert("e-2", "a-2");
    payments.work_until("one behind it is published", || payments.rows()[1] == "e-2 t 0");
    assert_eq!(payments.rows()[0], "e-1 f 4", "its time has not come");
}

#[test]
fn after_five_tries_the_event_stands_in_the_topic_of_dead_letters_and_is_published() {
    let mut payments = Payments::new();
    payments.set("OUTBOX_BASE_DELAY_SECONDS", "0.02");
    payments.insert_failing("e-1", "a-1");
    payments.drain();
    assert_eq!(payments.rows(), ["e-1 t 5"]);
    let letters = payments.kafka.read(&payments.topic("dlq"));
    assert_eq!(letters.len(), 1);
    let fields = [
        "event_id",
        "aggregate_type",
        "aggregate_id",
        "event_type",
        "payload",
        "timestamp",
        "retry_count",
        "failed_at",
        "error",
    ];
    let places: Vec<usize> = fields.iter().map(|f| letters[0].body.find(&format!("\"{f}\":")).unwrap()).collect();
    assert!(places.is_sorted(), "the envelope first: {}", letters[0].body);
    let letter = letters[0].json();
    assert_eq!(letter.as_object().unwrap().len(), fields.len());
    assert_eq!((&letter["event_id"], &letter["payload"]), (&json!("e-1"), &payload("e-1")));
    assert_eq!((&letter["retry_count"], &letter["error"]), (&json!(5), &json!("max_retries_exceeded")));
    for time in ["timestamp", "failed_at"] {
        let text = letter[time].as_str().unwrap();
        assert!(text.len() == 32 && text.ends_with("+00:00"), "{time}: {text}");
    }
    let why = &letters[0].headers["postroom-error"];
    assert!(why.contains(&payments.topic("paymentforgotten")), "what the broker said: {why}");
    assert_eq!(letters[0].key.as_deref(), Some("a-1"));
    let dead = payments.json(&["dead", "ls"]);
    assert_eq!((&dead[0]["id"], &dead[0]["code"]), (&json!("e-1"), &json!("kafka.unknown_topic")));
}

#[test]
fn a_failed_event_holds_its_aggregate_back_and_nobody_else() {
    let payments = Payments::new();
    payments.insert_failing("e-1", "a-1");
    payments.insert("e-2", "a-1");
    payments.insert("e-3", "a-2");
    payments.work_until("all that can be is done", || payments.rows() == ["e-1 f 1", "e-2 f 0", "e-3 t 0"]);
    payments.kafka.create(&[&payments.topic("paymentforgotten")], 1);
    payments.be_due();
    payments.drain();
    assert_eq!(
        payments.rows(),
        ["e-1 t 1", "e-2 t 0", "e-3 t 0"],
        "a topic that is made later takes what waited for it"
    );
    assert_eq!(payments.ids("paymentforgotten"), ["e-1"]);
}

#[test]
fn without_the_topic_of_dead_letters_an_event_is_not_published_until_it_is_there() {
    let payments = Payments::without_topics(postroom_presets::Kafka::shared());
    payments.insert_failing("e-1", "a-1");
    payments.script("update outbox set retry_count = 4");
    let relay = payments.relay("processor");
    until("the burial was tried", || {
        payments.route("payments")["note"].as_str().unwrap_or_default().contains(&payments.topic("dlq"))
    });
    assert_eq!(payments.rows(), ["e-1 f 4"]);
    payments.kafka.create(&[&payments.topic("dlq")], 1);
    until("it is buried", || payments.rows() == ["e-1 t 5"]);
    relay.stop();
    assert_eq!(payments.ids("dlq"), ["e-1"]);
}

#[test]
fn a_dead_letter_is_published_again_by_hand_or_by_command() {
    let payments = Payments::new();
    payments.insert_failing("e-1", "a-1");
    payments.insert_failing("e-2", "a-2");
    payments.script("update outbox set retry_count = 4");
    payments.drain();
    assert_eq!(payments.rows(), ["e-1 t 5", "e-2 t 5"]);
    payments.kafka.create(&[&payments.topic("paymentforgotten")], 1);
    payments.script("update outbox set published_at = null, retry_count = 0 where id = 'e-1'");
    payments.ok(&["dead", "replay", "--yes", "e-2"]);
    assert_eq!(payments.rows(), ["e-1 f 0", "e-2 f 0"]);
    assert_eq!(payments.json(&["dead", "ls"]), json!([]), "neither is dead any more");
    payments.drain();
    assert_eq!(payments.rows(), ["e-1 t 0", "e-2 t 0"]);
    let mut ids = payments.ids("paymentforgotten");
    ids.sort();
    assert_eq!(ids, ["e-1", "e-2"]);
    assert_eq!(payments.json(&["dead", "ls"]), json!([]));
    for id in ["e-1", "e-2"] {
        assert_eq!(payments.json(&["event", "show", id])["routes"][0]["state"], "delivered", "{id}");
    }
}

#[test]
fn an_event_that_no_topic_can_take_is_a_visible_dead_letter_and_the_others_go_on() {
    let payments = Payments::new();
    payments.insert("e-1", "a-1");
    payments.insert("e-2", "a-1");
    payments.script("update outbox set payload = jsonb_build_object('x', repeat('x', 2000000)) where id = 'e-1'");
    payments.drain();
    assert_eq!(payments.rows()[1], "e-2 t 0");
    let dead: Value = payments.json(&["dead", "ls"]);
    assert_eq!((&dead[0]["id"], &dead[0]["code"]), (&json!("e-1"), &json!("layout.unreadable")), "{dead}");
    assert_eq!(payments.ids("paymentauthorized"), ["e-2"]);
}
