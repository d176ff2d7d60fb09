//! `EventQueue`: a shop in Java, whose handlers the relay starts.

use postroom_examples::Example;

const LOG: &str = "select status, attempts, count(*) from event_log group by 1, 2 order by 1, 2";

fn eventqueue() -> Example {
    let eventqueue = Example::new("eventqueue");
    eventqueue.prepare("packages");
    eventqueue
}

/// With tables, and nothing that runs.
fn at_rest() -> Example {
    let mut eventqueue = eventqueue();
    eventqueue.learn();
    eventqueue.sh("make --silent tables");
    eventqueue
}

/// Puts orders into the queue that want so many pieces.
fn insert(eventqueue: &Example, orders: std::ops::Range<u32>, pieces: u32) {
    eventqueue.system.script(&format!(
        "insert into event_queue (event_type, payload)
         select 'OrderPlaced', jsonb_build_object('order', n, 'pieces', {pieces}) from generate_series({}, {}) n",
        orders.start,
        orders.end - 1
    ));
}

#[test]
fn the_shop_on_the_jvm_does_what_its_readme_says() {
    let mut eventqueue = eventqueue();
    for section in ["Run it", "Fail, die, replay", "Cutting over"] {
        eventqueue.follow(section);
    }
}

#[test]
fn events_that_the_old_manager_has_left_in_any_state_are_finished_or_visibly_dead() {
    let mut eventqueue = at_rest();
    insert(&eventqueue, 1..5, 1);
    let taken = "update event_queue set status = 'PROCESSING', attempts = 1, updated_at = now()";
    eventqueue.system.script(&format!("{taken} - interval '2 minutes' where id = 2; {taken} where id = 3;
        insert into event_log select id, event_type, payload, 'COMPLETED_WITH_ERRORS', 1, '[]', created_at from event_queue where id = 4;
        delete from event_queue where id = 4"));
    eventqueue.start("relay");
    eventqueue.until_rows(LOG, &["COMPLETED 1 1", "COMPLETED 2 1", "COMPLETED_WITH_ERRORS 1 1"]);
    assert_eq!(eventqueue.system.query("select id, status, attempts from event_queue"), ["3 PROCESSING 1"]);
    let dead = eventqueue.system.json(&["dead", "ls"]);
    assert_eq!((dead.as_array().unwrap().len(), &dead[0]["id"]), (1, &"4".into()), "{dead}");
    eventqueue.system.script("update event_queue set updated_at = now() - interval '2 minutes'");
    eventqueue.until_rows(LOG, &["COMPLETED 1 1", "COMPLETED 2 2", "COMPLETED_WITH_ERRORS 1 1"]);
    assert_eq!(eventqueue.system.query("select order_id from mails order by 1"), ["1", "2", "3"]);
}

#[test]
fn what_the_old_manager_was_handling_when_it_was_killed_is_handled_once() {
    let mut eventqueue = at_rest();
    insert(&eventqueue, 1..2, 1);
    // The mail is sent; the reservation waits.
    let mut session = eventqueue.system.begin();
    session.script("lock table reservations in access exclusive mode");
    eventqueue.start("old");
    eventqueue.until_rows("select handler from handled", &["mail"]);
    eventqueue.kill("old");
    session.commit();
    eventqueue.system.script("update event_queue set updated_at = now() - interval '2 minutes'");
    eventqueue.start("relay");
    eventqueue.until_rows(LOG, &["COMPLETED 2 1"]);
    assert_eq!(eventqueue.system.query("select count(*), (select count(*) from mails) from reservations"), ["1 1"]);
}

#[test]
fn old_manager_and_relay_on_one_queue_handle_every_event_once() {
    let mut eventqueue = at_rest();
    eventqueue.start("old");
    eventqueue.start("relay");
    for start in (1..200).step_by(20) {
        insert(&eventqueue, start..start + 20, 1);
    }
    eventqueue.until_rows(LOG, &["COMPLETED 1 200"]);
    assert_eq!(eventqueue.system.query("select count(*), count(distinct order_id) from mails"), ["200 200"]);
}

#[test]
fn the_old_manager_goes_on_with_what_the_relay_has_left() {
    let mut eventqueue = at_rest();
    insert(&eventqueue, 1..2, 1);
    insert(&eventqueue, 2..3, 51);
    eventqueue.start("relay");
    eventqueue.until_rows(LOG, &["COMPLETED 1 1", "COMPLETED_WITH_ERRORS 1 1"]);
    eventqueue.stop("relay");
    insert(&eventqueue, 3..4, 1);
    insert(&eventqueue, 4..5, 51);
    eventqueue.start("old");
    eventqueue.until_rows(LOG, &["COMPLETED 1 2", "COMPLETED_WITH_ERRORS 1 2"]);
    let errors = "select distinct errors->0->>'handler', errors->0->>'error' from event_log where errors <> '[]'";
    assert_eq!(eventqueue.system.query(errors), ["stock only 50 pieces are left"]);
}

#[test]
fn an_event_that_no_handler_of_the_shop_handles_completes() {
    let mut eventqueue = at_rest();
    eventqueue.system.script("insert into event_queue (event_type, payload) values ('ShopPainted', '{}')");
    eventqueue.start("relay");
    eventqueue.until_rows(LOG, &["COMPLETED 1 1"]);
}
