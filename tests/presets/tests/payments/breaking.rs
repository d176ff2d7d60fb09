//! The breaker, and a broker that says nothing.

use nix::sys::signal::Signal;
use postroom_e2e::until;
use postroom_presets::Kafka;
use postroom_testbed::OwnServer;
use postroom_testbed::brokers;

use crate::payments::world::Payments;

#[test]
fn ten_failures_in_a_row_open_the_breaker_and_it_closes_by_itself() {
    let mut payments = Payments::new();
    // Long enough that no retry is among the first ten failures.
    payments.set("OUTBOX_BASE_DELAY_SECONDS", "60");
    for n in 0..9 {
        payments.insert_failing(&format!("e-{n}"), &format!("a-{n}"));
    }
    let relay = payments.relay("processor");
    until("nine have failed", || payments.query("select sum(retry_count) >= 9 from outbox") == ["t"]);
    assert_eq!(payments.route("payments")["state"], "running", "nine are not ten");
    relay.stop();
    payments.script("delete from outbox");
    payments.set("OUTBOX_BASE_DELAY_SECONDS", "1");
    for n in 0..10 {
        payments.insert_failing(&format!("f-{n}"), &format!("b-{n}"));
    }
    let relay = payments.relay("processor");
    until("the breaker is open", || payments.route("payments")["state"] == "breaker_open");
    payments.insert("g-1", "c-1");
    payments.kafka.create(&[&payments.topic("paymentforgotten")], 1);
    until("it is closed and everything published", || {
        payments.query("select count(*) from outbox where published_at is null") == ["0"]
    });
    until("the route is running", || payments.route("payments")["state"] == "running");
    relay.stop();
    assert_eq!(payments.ids("paymentauthorized"), ["g-1"]);
    assert_eq!(payments.ids("paymentforgotten").len(), 10);
    assert_eq!(payments.ids("dlq"), [""; 0]);
}

#[test]
fn nothing_is_published_before_the_broker_has_acknowledged_and_an_outage_counts_no_try() {
    let server = OwnServer::start(&brokers::Kafka).unwrap();
    let mut payments = Payments::without_topics(Kafka::of(&server.site));
    payments.set("POSTROOM_ROUTE__PAYMENTS__TO__KAFKA__TIMEOUT", "1s");
    payments.kafka.create(&[&payments.topic("paymentauthorized")], 1);
    let relay = payments.relay("processor");
    payments.insert("e-1", "a-1");
    until("the first is published", || payments.rows() == ["e-1 t 0"]);
    server.signal(Signal::SIGSTOP).unwrap();
    payments.insert("e-2", "a-1");
    // It was handed over, and the broker has not said a word.
    until("the breaker is open", || payments.route("payments")["state"] == "breaker_open");
    assert_eq!(payments.rows(), ["e-1 t 0", "e-2 f 0"], "an outage is nobody's failure");
    server.signal(Signal::SIGCONT).unwrap();
    until("it goes on by itself", || payments.rows() == ["e-1 t 0", "e-2 t 0"]);
    relay.stop();
    let mut ids = payments.ids("paymentauthorized");
    ids.dedup();
    assert_eq!(ids, ["e-1", "e-2"]);
}
