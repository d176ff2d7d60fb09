//! The service's seven variables change what its documents say they change.

use std::time::Duration;

use postroom_e2e::{until, within};

use crate::payments::world::Payments;

#[test]
fn delays_and_the_number_of_tries_are_as_the_variables_say_in_decimal_seconds() {
    let mut payments = Payments::new();
    payments.set("OUTBOX_BASE_DELAY_SECONDS", "20.5");
    payments.set("OUTBOX_MAX_DELAY_SECONDS", "30.75");
    payments.set("OUTBOX_MAX_RETRIES", "3");
    payments.insert_failing("e-1", "a-1");
    for (count, seconds) in [(1, 20.5), (2, 30.75)] {
        payments.work_until("it has failed", || payments.rows() == [format!("e-1 f {count}")]);
        let due = payments.due_in("e-1");
        assert!((seconds..=seconds * 1.1 + 0.01).contains(&due), "{due} s");
        payments.be_due();
    }
    payments.drain();
    assert_eq!(payments.rows(), ["e-1 t 3"]);
    assert_eq!(payments.kafka.read(&payments.topic("dlq"))[0].json()["retry_count"], 3);
}

#[test]
fn the_prefix_and_the_brokers_are_as_the_variables_say() {
    // Every other test has a prefix of its own. Of several brokers the first that answers is enough.
    let mut payments = Payments::new();
    let brokers = format!("127.0.0.1:1,{}", payments.kafka.brokers);
    payments.set("REDPANDA_BROKERS", &brokers);
    payments.insert("e-1", "a-1");
    payments.drain();
    assert_eq!(payments.ids("paymentauthorized"), ["e-1"]);
}

#[test]
fn a_batch_is_as_large_as_the_variable_says() {
    let mut payments = Payments::new();
    payments.set("OUTBOX_BATCH_SIZE", "3");
    for n in 1..=10 {
        payments.insert(&format!("e-{n:02}"), "a-1");
    }
    payments.drain();
    assert_eq!(payments.query("select count(*) from outbox where published_at is null"), ["0"]);
    let shown = payments.json(&["config", "show"]);
    let rows = shown.as_array().unwrap().iter().find(|line| line["key"] == "relay.take.rows").unwrap();
    assert_eq!(rows["value"], "\"3\"", "{rows}");
}

#[test]
fn the_poll_interval_is_as_the_variable_says() {
    let mut payments = Payments::new();
    payments.set("OUTBOX_POLL_INTERVAL_SECONDS", "3.0");
    let relay = payments.relay("processor");
    payments.insert("e-1", "a-1");
    until("the first look was taken", || payments.rows() == ["e-1 t 0"]);
    payments.insert("e-2", "a-1");
    let published = || (payments.rows()[1] == "e-2 t 0").then_some(());
    let ((), took) = within(Duration::from_mins(1), "the second is published", published);
    assert!(took > Duration::from_secs(1), "the look after that comes three seconds later: {took:?}");
    relay.stop();
}
