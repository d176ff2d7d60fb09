//! What failures do: counts, delays, dead letters.

use postroom_e2e::{World, until};
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
    until("the dead_letter was tried", || {
        payments.route("payments")["message"].as_str().unwrap_or_default().contains(&payments.topic("dlq"))
    });
    assert_eq!(payments.rows(), ["e-1 f 4"]);
    payments.kafka.create(&[&payments.topic("dlq")], 1);
    until("it is in the table of dead letters", || payments.rows() == ["e-1 t 5"]);
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

/// The dead letter of an event that was never published anywhere else.
fn letter(payments: &Payments, id: &str) -> Value {
    let letters = payments.kafka.read(&payments.topic("dlq"));
    let letter = letters.iter().map(postroom_presets::Record::json).find(|letter| letter["event_id"] == id);
    assert!(letter.is_some(), "no dead letter of {id}: {letters:?}");
    letter.unwrap()
}

#[test]
fn an_event_that_is_too_large_is_a_dead_letter_without_its_payload_in_the_topic_and_the_others_go_on() {
    let payments = Payments::new();
    for id in ["e-1", "e-2", "e-3"] {
        payments.insert(id, "a-1");
    }
    // More than an event may have, and more than Kafka takes.
    for (id, bytes) in [("e-1", 2_000_000), ("e-2", 1_048_500)] {
        payments.script(&format!(
            "update outbox set payload = jsonb_build_object('x', repeat('x', {bytes})) where id = '{id}'"
        ));
    }
    payments.drain();
    assert_eq!(payments.rows(), ["e-1 t 1", "e-2 t 1", "e-3 t 0"], "stamped: the topic for dead letters has them");
    assert_eq!(payments.ids("paymentauthorized"), ["e-3"]);
    for (id, bytes, why) in [("e-1", 2_000_009, "event.too_large"), ("e-2", 1_048_509, "kafka.too_large")] {
        let letter = letter(&payments, id);
        assert_eq!((&letter["payload"], &letter["error"]), (&json!({"omitted_bytes": bytes}), &json!(why)), "{letter}");
        assert_eq!((&letter["aggregate_id"], &letter["event_type"]), (&json!("a-1"), &json!("PaymentAuthorized")));
    }
    let dead: Value = payments.json(&["dead", "ls"]);
    let codes: Vec<&Value> = dead.as_array().unwrap().iter().map(|letter| &letter["code"]).collect();
    assert_eq!(codes.len(), 2, "{dead}");
}

#[test]
fn a_row_that_holds_no_event_or_breaks_its_contract_is_a_dead_letter_in_the_topic() {
    let mut payments = Payments::new();
    payments.set("POSTROOM_CONTRACT__MODE", "enforce");
    payments.write("e-1", "a-1", "");
    payments.write("e-2", "a-2", "PaymentDeclined");
    payments.script("update outbox set payload = '[1]' where id = 'e-1'");
    let relay = payments.relay("processor");
    until("both are dead", || payments.rows() == ["e-1 t 1", "e-2 t 1"]);
    relay.stop();
    let (unreadable, refused) = (letter(&payments, "e-1"), letter(&payments, "e-2"));
    assert_eq!((&unreadable["error"], &unreadable["retry_count"]), (&json!("mapping.unreadable"), &json!(1)));
    assert_eq!((&refused["error"], &refused["payload"]), (&json!("contract.violated"), &payload("e-2")));
    // The first payload is no object, as the schema of dead letters wants it; that is said, and holds nothing back.
    let log = payments.log("processor");
    let said: Vec<&str> = log.lines().filter(|line| line.contains("event violates its schema")).collect();
    assert!(said.len() == 1 && said[0].contains(r#""event_id":"e-1""#) && said[0].contains("payload"), "{said:?}");
}

#[test]
fn an_event_that_no_topic_has_is_never_marked_as_published_until_an_operator_says_so() {
    let payments = Payments::new();
    // A destination without a place for dead letters.
    World::write(
        &payments,
        "stdout.toml",
        "[[route]]\nname = \"payments\"\nallow_discard = true\nto = { stdout = {} }\n",
    );
    for (n, id) in ["e-1", "e-2", "e-3", "e-4"].into_iter().enumerate() {
        payments.insert(id, &format!("a-{}", n.min(2)));
    }
    payments.script("update outbox set payload = jsonb_build_object('x', repeat('x', 2000000)) where id <> 'e-4'");
    payments.ok(&["relay", "run", "--drain", "--config", "stdout.toml"]);
    assert_eq!(payments.rows(), ["e-1 f 0", "e-2 f 0", "e-3 f 0", "e-4 t 0"], "no topic has the first three");
    let ids = |payments: &Payments| {
        let dead: Value = payments.json(&["dead", "ls"]);
        let mut ids: Vec<String> =
            dead.as_array().unwrap().iter().map(|letter| letter["id"].as_str().unwrap().to_owned()).collect();
        ids.sort();
        ids
    };
    assert_eq!(ids(&payments), ["e-1", "e-2", "e-3"]);
    let attempts = "select count(*) from postroom.adopted_attempt";
    let before = payments.query(attempts);
    payments.ok(&["relay", "run", "--drain", "--config", "stdout.toml"]);
    assert_eq!(payments.query(attempts), before, "they are not read again and again");
    assert_eq!(payments.run(&["verify"]).code, 0);
    payments.ok(&["dead", "discard", "--yes", "e-1"]);
    assert_eq!(payments.rows()[0], "e-1 t 0", "an operator has given it up");
    payments.script("update outbox set payload = '{\"amount_cents\": 1}' where id = 'e-2'");
    payments.ok(&["dead", "replay", "--yes", "e-2"]);
    payments.ok(&["relay", "run", "--drain", "--config", "stdout.toml"]);
    assert_eq!(payments.rows(), ["e-1 t 0", "e-2 t 0", "e-3 f 0", "e-4 t 0"]);
    assert_eq!(ids(&payments), ["e-3"]);
}
