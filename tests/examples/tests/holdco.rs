//! HoldCo: an API and a consumer in TypeScript, queues on RabbitMQ.

use postroom_e2e::until;
use postroom_examples::Example;

const STATUSES: &str = "select status, count(*) from event_outbox group by 1 order by 1";

fn holdco() -> Example {
    let mut holdco = Example::new("holdco");
    let broker = holdco.system.virtual_host();
    holdco.set("RABBITMQ_URL", &broker);
    holdco.set("METRICS_TOKEN", "not-a-secret");
    // As often as the tests would like to look.
    holdco.set("OUTBOX_POLL_MS", "50");
    holdco.prepare("packages");
    holdco
}

/// With tables and queues, and nothing that runs.
fn at_rest() -> Example {
    let holdco = holdco();
    holdco.sh("make --silent prepared");
    // The relay declares them at its first event, which only `analytics.ingest` gets.
    let event = "gen_random_uuid(), 'company', gen_random_uuid(), 'founded', '{}'";
    let columns = "group_id, aggregate_type, aggregate_id, event_type, payload";
    holdco.system.script(&format!("insert into event_outbox ({columns}) values ({event})"));
    holdco.sh("postroom relay run --drain");
    holdco.system.script("delete from event_outbox");
    holdco
}

/// Puts orders into the outbox.
fn insert(holdco: &Example, count: u32) {
    holdco.system.script(&format!(
        "insert into event_outbox (group_id, aggregate_type, aggregate_id, event_type, payload)
         select gen_random_uuid(), 'order', gen_random_uuid(), 'created', jsonb_build_object('order_no', 'ORD-' || n)
         from generate_series(1, {count}) n"
    ));
}

/// How many messages wait in a queue.
fn waiting(holdco: &Example, queue: &str) -> usize {
    let queues = holdco.sh("make --silent show-queues");
    let line = queues.lines().find_map(|line| line.strip_prefix(queue)?.strip_prefix(' '));
    line.unwrap().parse().unwrap()
}

/// How many messages were published: `analytics.ingest` gets all, and nobody reads it.
fn published(holdco: &Example) -> usize {
    waiting(holdco, "analytics.ingest") - 1
}

#[test]
fn the_company_does_what_its_readme_says() {
    let mut holdco = holdco();
    for section in ["Run it", "Fail, retry, die, replay", "Cutting over"] {
        holdco.follow(section);
    }
}

#[test]
fn an_event_that_comes_again_has_its_effect_once() {
    let mut holdco = at_rest();
    holdco.start("notifications");
    holdco.start("relay");
    insert(&holdco, 1);
    until("the customer is notified", || holdco.said("notifications").lines().count() == 1);
    let publish_again = "update event_outbox set status = 'pending' where status = 'published'";
    until("the relay has marked it", || holdco.system.query(&format!("{publish_again} returning 1")) == ["1"]);
    until("it came again", || holdco.said("notifications").lines().any(|line| line.ends_with(" came again")));
    assert_eq!(holdco.system.query("select text from notifications"), ["ORD-1: order created"]);
}

#[test]
fn what_the_consumer_cannot_handle_goes_to_the_dead_letter_queue_and_the_others_go_on() {
    let mut holdco = at_rest();
    holdco.start("notifications");
    holdco.start("relay");
    let poison = "insert into event_outbox (group_id, aggregate_type, aggregate_id, event_type, payload) values \
                  (gen_random_uuid(), 'order', gen_random_uuid(), 'created', '{}') returning id";
    let id = &holdco.system.query(poison)[0];
    insert(&holdco, 1);
    until("the poison is rejected and the order told", || holdco.said("notifications").lines().count() == 2);
    let said = holdco.said("notifications");
    assert!(said.contains(&format!("{id} is rejected: the payload has no order_no\n")), "{said}");
    assert!(said.contains("ORD-1: order created\n"), "{said}");
    until("it is in the dead-letter queue", || waiting(&holdco, "notifications.dlq") == 1);
    assert_eq!(waiting(&holdco, "notifications"), 0);
    // A try that failed leaves nothing in the inbox: fixed and replayed, the event is new.
    assert_eq!(holdco.system.query(&format!("select count(*) from event_inbox where event_id = '{id}'")), ["0"]);
}

#[test]
fn without_its_database_the_consumer_ends_and_rejects_nothing() {
    let mut holdco = at_rest();
    insert(&holdco, 1);
    holdco.sh("postroom relay run --drain");
    assert_eq!(waiting(&holdco, "notifications"), 1);
    holdco.sh("! DATABASE_URL=postgres://nobody@127.0.0.1:1/none make --silent notifications");
    until("the broker has its message back", || waiting(&holdco, "notifications") == 1);
    assert_eq!(waiting(&holdco, "notifications.dlq"), 0);
    holdco.start("notifications");
    until("the customer is notified", || holdco.said("notifications") == "ORD-1: order created\n");
}

#[test]
fn orders_that_the_old_worker_has_left_in_any_state_are_published_visibly_dead_or_counted() {
    let mut holdco = at_rest();
    insert(&holdco, 5);
    let states = ["status = 'published'", "status = 'dead', attempts = 10", "status = 'failed', attempts = 2"];
    for (number, state) in (1..).zip(states) {
        let update = "update event_outbox set";
        holdco.system.script(&format!("{update} {state} where payload->>'order_no' = 'ORD-{number}'"));
    }
    let waits = "update event_outbox set attempts = 3, available_at = now() + interval '10 minutes'";
    holdco.system.script(&format!("{waits} where payload->>'order_no' = 'ORD-4'"));
    holdco.start("relay");
    holdco.until_rows(STATUSES, &["dead 1", "failed 1", "pending 1", "published 2"]);
    assert_eq!(published(&holdco), 1, "what is due, and nothing else");
    let dead = holdco.system.json(&["dead", "ls"]);
    assert_eq!((dead.as_array().unwrap().len(), &dead[0]["attempts"]), (1, &10.into()), "{dead}");
    let message = holdco.system.route("holdco")["message"].to_string();
    assert!(message.contains("failed"), "{message}");
    holdco.system.script("update event_outbox set available_at = now() where attempts = 3");
    holdco.until_rows(STATUSES, &["dead 1", "failed 1", "published 3"]);
}

#[test]
fn what_the_old_worker_had_locked_when_it_was_killed_is_published_again_with_its_id() {
    let mut holdco = at_rest();
    insert(&holdco, 3);
    let in_order = "now() - interval '1 minute' + right(payload->>'order_no', 1)::int * interval '1 second'";
    holdco.system.script(&format!("update event_outbox set available_at = {in_order}"));
    // The second one cannot be marked: nobody else may know that it is there.
    holdco.system.script("create function wait() returns trigger language plpgsql as $$ begin perform pg_advisory_xact_lock(7); return new; end $$;
        create trigger wait before update on event_outbox for each row when (old.payload->>'order_no' = 'ORD-2') execute function wait()");
    let mut session = holdco.system.begin();
    session.script("select pg_advisory_xact_lock(7)");
    holdco.start("old");
    until("the second one is in its queue", || waiting(&holdco, "notifications") == 2);
    holdco.kill("old");
    drop(session);
    holdco.start("notifications");
    holdco.start("relay");
    holdco.until_rows(STATUSES, &["published 3"]);
    until("five messages came", || published(&holdco) == 5);
    holdco.until_rows("select count(*), count(distinct event_id) from notifications", &["3 3"]);
}

#[test]
fn old_worker_and_relay_on_one_table_publish_every_row_once() {
    let mut holdco = at_rest();
    holdco.start("old");
    holdco.start("relay");
    for _ in 0..10 {
        insert(&holdco, 30);
    }
    holdco.until_rows(STATUSES, &["published 300"]);
    assert_eq!(published(&holdco), 300);
}

#[test]
fn the_old_back_office_worker_goes_on_with_what_the_relay_has_left() {
    let mut holdco = at_rest();
    insert(&holdco, 2);
    holdco.start("relay");
    holdco.until_rows(STATUSES, &["published 2"]);
    holdco.stop("relay");
    insert(&holdco, 2);
    holdco.start("old");
    holdco.until_rows(STATUSES, &["published 4"]);
    assert_eq!(published(&holdco), 4);
}
