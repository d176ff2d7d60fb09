//! EventQueue (`--preset eventqueue`): a queue that processes share by claims in its columns, and a log of what is finished.

#![allow(clippy::unwrap_used, reason = "what is not as documented fails the test")]

use postroom_e2e::until;
use postroom_presets::System;
use serde_json::json;

fn eventqueue() -> System {
    System::new("eventqueue").handler("EVENTQUEUE")
}

/// `publish(event)`: PENDING, attempts 0.
fn publish(system: &System, count: usize, event_type: &str) {
    system.script(&format!(
        "insert into event_queue (event_type, payload) \
         select '{event_type}', jsonb_build_object('n', n) from generate_series(1, {count}) n"
    ));
}

#[test]
fn queued_events_reach_the_handlers_and_end_in_the_log() {
    let system = eventqueue();
    publish(&system, 3, "OrderPlaced");
    assert_eq!(system.query("select distinct status, attempts from event_queue"), ["PENDING 0"]);
    system.drain();
    assert_eq!(system.query("select count(*) from event_queue"), ["0"]);
    let log = "select id, event_type, payload->>'n' as n, status, attempts, errors, finalized_at >= created_at from event_log order by id";
    assert_eq!(
        system.query(log),
        ["1 OrderPlaced 1 COMPLETED 1 [] t", "2 OrderPlaced 2 COMPLETED 1 [] t", "3 OrderPlaced 3 COMPLETED 1 [] t"]
    );
    let envelope = system.received()[0]["envelope"].clone();
    assert_eq!(
        (&envelope["id"], &envelope["event_type"], &envelope["payload"]),
        (&json!("1"), &json!("OrderPlaced"), &json!({"n": 1}))
    );
}

#[test]
fn a_handlers_error_finalizes_at_once_with_what_it_said() {
    let system = eventqueue();
    publish(&system, 1, "Bad");
    publish(&system, 1, "Good");
    system.refuse("Bad");
    system.drain();
    let log = "select event_type, status, errors from event_log order by id";
    assert_eq!(
        system.query(log),
        [r#"Bad COMPLETED_WITH_ERRORS [{"error": "the handler refuses it"}]"#, "Good COMPLETED []"]
    );
    assert_eq!(system.json(&["dead", "ls"])[0]["id"], "1");
    system.refuse("");
    system.ok(&["dead", "replay", "--yes"]);
    assert_eq!(system.query("select id, status, attempts from event_queue"), ["1 PENDING 0"]);
    system.drain();
    assert_eq!(system.query(log), ["Bad COMPLETED []", "Good COMPLETED []"]);
}

#[test]
fn an_event_that_is_being_handled_says_so_and_is_taken_over_when_its_process_dies() {
    let mut system = eventqueue();
    system.set("POSTROOM_STORE__MAIN__LAYOUT__CLAIMED__LEASE", "3s");
    system.set("POSTROOM_RELAY__LEASE", "1s");
    publish(&system, 1, "Slow");
    system.write("slow", "Slow");
    let first = system.relay("first");
    until("the handler has it", || system.received().len() == 1);
    assert_eq!(system.query("select status, attempts from event_queue"), ["PROCESSING 1"]);
    first.kill();
    system.write("slow", "");
    let second = system.relay("second");
    until("another process has finished it", || system.query("select count(*) from event_log") == ["1"]);
    second.stop();
    assert_eq!(system.query("select status, attempts from event_log"), ["COMPLETED 2"]);
    assert_eq!(system.received().len(), 2);
}

#[test]
fn a_handler_that_takes_longer_than_the_timeout_keeps_its_claim() {
    let mut system = eventqueue();
    system.set("POSTROOM_STORE__MAIN__LAYOUT__CLAIMED__LEASE", "2s");
    system.set("POSTROOM_RELAY__LEASE", "1s");
    publish(&system, 1, "Slow");
    system.write("slow", "Slow");
    let (first, second) = (system.relay("first"), system.relay("second"));
    until("the claim was renewed past its first end", || {
        system.query("select updated_at > created_at + interval '3 seconds' from event_queue") == ["t"]
    });
    assert_eq!(system.query("select status, attempts from event_queue"), ["PROCESSING 1"]);
    system.write("slow", "");
    until("it is finished", || system.query("select count(*) from event_log") == ["1"]);
    first.stop();
    second.stop();
    assert_eq!((system.query("select attempts from event_log"), system.received().len()), (vec!["1".to_owned()], 1));
}

#[test]
fn processes_share_the_queue_and_each_event_is_handled_once() {
    let system = eventqueue();
    let (first, second) = (system.relay("first"), system.relay("second"));
    publish(&system, 500, "OrderPlaced");
    until("all are finished", || system.query("select count(*) from event_log") == ["500"]);
    first.stop();
    second.stop();
    assert_eq!(system.query("select distinct status, attempts from event_log"), ["COMPLETED 1"]);
    assert_eq!(system.received().len(), 500);
    assert_eq!(system.json(&["status"])["routes"][0]["delivered"], 500);
}

#[test]
fn a_poison_event_is_given_up_after_as_many_claims_as_allowed() {
    let mut system = eventqueue();
    system.set("POSTROOM_STORE__MAIN__LAYOUT__CLAIMED__CLAIMS_MAX", "2");
    publish(&system, 1, "Poison");
    system.script(
        "update event_queue set status = 'PROCESSING', attempts = 2, updated_at = now() - interval '2 minutes'",
    );
    system.drain();
    assert_eq!(system.query("select status from event_log"), ["COMPLETED_WITH_ERRORS"]);
    assert!(system.received().is_empty());
}

#[test]
fn the_queue_may_be_called_events() {
    let mut system = System::new("eventqueue").handler("EVENTQUEUE");
    system.script("alter table event_queue rename to events");
    system.set("POSTROOM_STORE__MAIN__LAYOUT__TABLE", "events");
    system.script("insert into events (event_type, payload) values ('A', '{}')");
    system.drain();
    assert_eq!(system.query("select status from event_log"), ["COMPLETED"]);
}

#[test]
fn retries_are_there_for_who_opts_in_and_the_last_one_finalizes() {
    let mut system = eventqueue();
    system.set("POSTROOM_ROUTE__EVENTQUEUE__RETRY__ATTEMPTS", "3");
    system.set("POSTROOM_ROUTE__EVENTQUEUE__RETRY__BASE", "10ms");
    publish(&system, 1, "Bad");
    system.refuse("Bad");
    system.drain();
    assert_eq!(system.query("select status, attempts from event_log"), ["COMPLETED_WITH_ERRORS 3"]);
    assert_eq!(system.received().len(), 3);
}
