//! Somebody else changes rows while they are on their way: nothing of theirs is overwritten.

use postroom_e2e::until;

use crate::payments::world::Payments;

#[test]
fn rows_that_the_old_processor_stamps_while_they_are_on_their_way_keep_its_stamp() {
    let payments = Payments::new();
    payments.insert("e-1", "a-1");
    payments.insert("e-2", "a-2");
    let mut old = payments.begin();
    old.script("update outbox set published_at = '2024-01-15T10:30:00Z' where id = 'e-1'");
    let relay = payments.relay("processor");
    old.until_waited_for(&payments);
    old.commit();
    until("the other one is published", || payments.rows()[1] == "e-2 t 0");
    relay.stop();
    let stamped =
        "select count(*) from outbox where id = 'e-1' and published_at = '2024-01-15T10:30:00Z' and retry_count = 0";
    assert_eq!(payments.query(stamped), ["1"]);
    let log = payments.log("processor");
    assert!(log.contains("another program changed the row") && log.contains("e-1"), "{log}");
}

#[test]
fn a_row_that_fails_while_the_old_processor_publishes_it_is_neither_counted_nor_tried_again() {
    let payments = Payments::new();
    payments.insert_failing("e-1", "a-1");
    let mut old = payments.begin();
    old.script("update outbox set published_at = '2024-01-15T10:30:00Z'");
    let relay = payments.relay("processor");
    old.until_waited_for(&payments);
    old.commit();
    until("the relay has said so", || payments.log("processor").contains("another program changed the row"));
    payments.insert("e-2", "a-1");
    until("the aggregate goes on", || payments.rows() == ["e-1 t 0", "e-2 t 0"]);
    relay.stop();
}

#[test]
fn a_row_that_is_deleted_while_it_waits_or_is_on_its_way_holds_nothing_up() {
    let payments = Payments::new();
    payments.insert("e-1", "a-1");
    payments.insert_failing("e-2", "a-2");
    let mut operator = payments.begin();
    operator.script("delete from outbox where id = 'e-1'");
    let relay = payments.relay("processor");
    operator.until_waited_for(&payments);
    operator.commit();
    until("the other one has failed", || payments.rows() == ["e-2 f 1"]);
    payments.script("delete from outbox where id = 'e-2'");
    payments.insert("e-3", "a-1");
    payments.insert("e-4", "a-2");
    until("both aggregates go on", || payments.rows() == ["e-3 t 0", "e-4 t 0"]);
    relay.stop();
    assert_eq!(payments.run(&["verify"]).code, 0);
}

#[test]
fn a_count_that_is_set_back_by_hand_while_the_row_fails_stays_set_back() {
    let payments = Payments::new();
    payments.insert_failing("e-1", "a-1");
    payments.script("update outbox set retry_count = 4");
    let mut operator = payments.begin();
    operator.script("update outbox set retry_count = 0");
    let relay = payments.relay("processor");
    operator.until_waited_for(&payments);
    operator.commit();
    until("it was tried again from the start", || payments.rows() == ["e-1 f 1"]);
    relay.stop();
    assert_eq!(payments.ids("dlq"), ["e-1"], "the letter was on its way already");
}
