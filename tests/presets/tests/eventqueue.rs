//! EventQueue (`--preset eventqueue`): a queue that processes share by claims in its columns, and a log of what is finished.

#![allow(clippy::unwrap_used, reason = "what is not as documented fails the test")]

use std::net::TcpListener;
use std::time::Duration;

use postroom_e2e::{until, within};
use postroom_presets::System;
use serde_json::{Value, json};

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
    system.ok(&["dead", "replay", "--all", "--yes"]);
    assert_eq!(system.query("select id, status, attempts from event_queue"), ["1 PENDING 0"]);
    system.drain();
    assert_eq!(system.query(log), ["Bad COMPLETED []", "Good COMPLETED []"]);
}

#[test]
fn an_event_that_is_being_handled_says_so_and_is_taken_over_when_its_process_dies() {
    let mut system = eventqueue();
    system.set("POSTROOM_STORE__MAIN__MAPPING__CLAIMED__LEASE", "3s");
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
    system.set("POSTROOM_STORE__MAIN__MAPPING__CLAIMED__LEASE", "2s");
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
    system.set("POSTROOM_STORE__MAIN__MAPPING__CLAIMED__CLAIMS_MAX", "2");
    publish(&system, 1, "Poison");
    system.script(
        "update event_queue set status = 'PROCESSING', attempts = 2, updated_at = now() - interval '2 minutes'",
    );
    system.drain();
    assert_eq!(system.query("select status from event_log"), ["COMPLETED_WITH_ERRORS"]);
    assert!(system.received().is_empty());
}

/// What poison does while others come and go: `fatal` ends its handler's process, `slow` is never done.
fn poison(file: &str, event_type: &str) -> System {
    let mut system = eventqueue();
    system.set("POSTROOM_ROUTE__EVENTQUEUE__RETRY__BASE", "100ms");
    system.set("POSTROOM_ROUTE__EVENTQUEUE__RETRY__MAX", "400ms");
    system.write(file, event_type);
    publish(&system, 1, event_type);
    system
}

/// Others that are published now are finished within two seconds, each at its first claim.
fn others_go_on(system: &System, count: usize) {
    publish(system, count, "Good");
    let others = "select count(*) from event_log where event_type = 'Good' and status = 'COMPLETED' and attempts = 1";
    let all = || (system.query(others) == [count.to_string()]).then_some(());
    within(Duration::from_mins(1), "the others are finished", all);
    let longest =
        "select max(finalized_at - created_at) < interval '20 seconds' from event_log where event_type = 'Good'";
    assert_eq!(system.query(longest), ["t"], "they did not wait for it");
}

#[test]
fn an_event_that_ends_its_handlers_process_is_counted_each_time_and_the_others_go_on() {
    let system = poison("fatal", "Fatal");
    let relay = system.relay("relay");
    until("it was claimed again and again", || system.query("select attempts > 2 from event_queue") == ["t"]);
    others_go_on(&system, 50);
    let before = system.query("select attempts from event_queue")[0].parse::<u32>().unwrap();
    until("it goes on after that", || {
        system.query("select attempts from event_queue")[0].parse::<u32>().unwrap() > before + 1
    });
    let delivery = system.json(&["delivery", "ls"])[0].clone();
    assert_eq!((&delivery["id"], &delivery["code"]), (&json!("1"), &json!("exec.died")), "{delivery}");
    let line = system.log("relay").lines().find(|line| line.contains("event ended its program")).unwrap().to_owned();
    assert!(line.contains(r#""event_id":"1""#) && line.contains(r#""code":"exec.died""#), "{line}");
    relay.stop();
    assert_eq!(system.query("select count(*) from event_log where status = 'COMPLETED_WITH_ERRORS'"), ["0"]);
}

#[test]
fn an_event_that_ends_its_handlers_process_is_given_up_after_as_many_claims_as_allowed_alone_or_among_others() {
    for others in [0, 20] {
        let mut system = poison("fatal", "Fatal");
        system.set("POSTROOM_STORE__MAIN__MAPPING__CLAIMED__CLAIMS_MAX", "3");
        publish(&system, others, "Good");
        let relay = system.relay("relay");
        let log = "select attempts, errors->0->>'error' from event_log where status = 'COMPLETED_WITH_ERRORS'";
        until("it is given up", || !system.query(log).is_empty());
        assert_eq!(system.query(log), ["4 it was claimed 3 times and never finished"], "the fourth claim gave it up");
        until("the others are finished", || {
            system.query("select count(*) from event_log") == [(others + 1).to_string()]
        });
        relay.stop();
        assert_eq!(system.json(&["dead", "ls"])[0]["code"], "mapping.abandoned");
    }
}

#[test]
fn a_handler_that_takes_longer_than_it_may_is_reported_and_counted_and_the_others_go_on() {
    let mut system = poison("slow", "Slow");
    system.set("POSTROOM_ROUTE__EVENTQUEUE__TO__EXEC__TIMEOUT", "1s");
    let relay = system.relay("relay");
    until("it was claimed again", || system.query("select attempts > 1 from event_queue") == ["t"]);
    others_go_on(&system, 20);
    let shown = system.json(&["event", "show", "1"]);
    assert_eq!(shown["routes"][0]["attempts"][0]["code"], "exec.timeout", "{shown}");
    let line = system.log("relay").lines().find(|line| line.contains("event ended its program")).unwrap().to_owned();
    assert!(line.contains(r#""event_id":"1""#) && line.contains(r#""code":"exec.timeout""#), "{line}");
    system.write("slow", "");
    until("it is finished once its handler is quick", || system.query("select count(*) from event_queue") == ["0"]);
    relay.stop();
    assert_eq!(system.query("select status from event_log where event_type = 'Slow'"), ["COMPLETED"]);
}

#[test]
fn a_handler_has_a_minute_as_long_as_its_claim() {
    let shown = eventqueue().json(&["config", "show"]);
    let value = |key: &str| shown.as_array().unwrap().iter().find(|line| line["key"] == key).unwrap()["value"].clone();
    assert_eq!(value("route.eventqueue.to.exec.timeout"), "\"1m\"");
    assert_eq!(value("store.main.mapping.claimed.lease"), "\"1m\"");
}

#[test]
fn handlers_that_cannot_be_started_count_no_claim_beyond_the_first() {
    let mut system = eventqueue();
    system.write("broken.py", "raise SystemExit(1)");
    system.set("POSTROOM_ROUTE__EVENTQUEUE__TO__EXEC__COMMAND", r#"["python3", "broken.py"]"#);
    publish(&system, 3, "Good");
    let relay = system.relay("relay");
    until("it was started some times", || system.log("relay").matches("connection to the program ended").count() > 3);
    let delivery = system.json(&["status"])["routes"][0].clone();
    assert!(delivery["state"] == "breaker_open" || delivery["state"] == "half_open", "{delivery}");
    assert_eq!(system.query("select distinct status, attempts from event_queue"), ["PROCESSING 1"]);
    relay.stop();
}

/// The functions that `store migrate up` makes.
fn with_functions() -> System {
    let system = eventqueue();
    let said = system.ok(&["store", "migrate", "up"]);
    assert!(said.contains("functions on event_queue"), "{said}");
    assert!(!system.ok(&["store", "migrate", "up"]).contains("functions"), "they are there");
    assert!(!system.ok(&["store", "migrate", "plan"]).contains("create or replace"));
    system
}

/// The functions as they stand in `preset show eventqueue --ddl`; `POSTROOM_WRITE_DOCS=1` writes them.
#[test]
fn the_ddl_of_the_preset_has_the_functions_that_a_migration_makes() {
    let system = System::bare("eventqueue").handler("EVENTQUEUE");
    let ddl = system.ok(&["preset", "show", "eventqueue", "--ddl"]);
    system.script(ddl.split("-- Functions").next().unwrap());
    let plan = system.ok(&["store", "migrate", "plan"]);
    let (_, functions) = plan.split_once("-- Functions of public.event_queue (store main).\n").unwrap();
    let (functions, _) = functions.split_once("\ninsert into").unwrap();
    let head = "-- Functions for programs that share the table. They read tables of Postroom's own, which `postroom store migrate up` or the\n\
                -- first relay makes; either also makes these functions.\n\ncreate schema if not exists postroom;\n\n";
    let expected = format!("{head}{}\n", functions.trim());
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../presets/eventqueue.functions.sql");
    if std::env::var_os("POSTROOM_WRITE_DOCS").is_some() {
        std::fs::write(file, &expected).unwrap();
    }
    assert_eq!(std::fs::read_to_string(file).unwrap(), expected);
    // By hand, before the first migration, which finds nothing in its way.
    let system = eventqueue();
    assert_eq!(system.query("select id, status from postroom.publish('OrderPlaced', '{}')"), ["1 PENDING"]);
    system.ok(&["store", "migrate", "up"]);
    assert_eq!(system.query("select id, attempts from postroom.poll()"), ["1 1"]);
    assert_eq!(system.query("select postroom.finalize(1)"), ["t"]);
}

#[test]
fn publish_poll_and_finalize_are_functions_of_the_database_for_programs_in_any_language() {
    let system = with_functions();
    let published = r#"select id, event_type, status, attempts from postroom.publish('OrderPlaced', '{"n": 1}')"#;
    assert_eq!(system.query(published), ["1 OrderPlaced PENDING 0"]);
    assert_eq!(system.query(published), ["2 OrderPlaced PENDING 0"]);
    let polled = "select id, status, attempts, payload->>'n', updated_at > created_at from postroom.poll()";
    assert_eq!(system.query(polled), ["1 PROCESSING 1 1 t"], "the next one");
    assert_eq!(system.query(polled), ["2 PROCESSING 1 1 t"]);
    assert!(system.query(polled).is_empty(), "nothing is eligible");
    assert!(system.query("select id from postroom.poll('59 seconds')").is_empty());
    system.script("update event_queue set updated_at = now() - interval '61 seconds' where id = 1");
    assert_eq!(system.query("select id, attempts from postroom.poll()"), ["1 2"], "it was abandoned");
    assert_eq!(system.query("select postroom.finalize(1, '[]', 1)"), ["f"], "its first owner has lost it");
    let errors = r#"select postroom.finalize(1, '[{"handler": "mail", "error": "full"}]', 2)"#;
    assert_eq!(system.query(errors), ["t"]);
    assert_eq!(system.query(errors), ["f"], "it is finalized");
    assert_eq!(system.query("select postroom.finalize(2)"), ["t"]);
    assert_eq!(
        system.query("select id, event_type, status, attempts, errors from event_log order by id"),
        [
            r#"1 OrderPlaced COMPLETED_WITH_ERRORS 2 [{"error": "full", "handler": "mail"}]"#,
            "2 OrderPlaced COMPLETED 1 []"
        ]
    );
    assert_eq!(system.query("select count(*) from event_queue"), ["0"]);
    system.ok(&["store", "migrate", "down", "--yes"]);
    assert_eq!(system.query("select count(*) from pg_proc where proname in ('publish', 'poll', 'finalize')"), ["0"]);
}

#[test]
fn poll_gives_up_what_was_abandoned_as_often_as_allowed_and_returns_the_next() {
    let mut system = eventqueue();
    system.set("POSTROOM_STORE__MAIN__MAPPING__CLAIMED__CLAIMS_MAX", "2");
    system.ok(&["store", "migrate", "up"]);
    system.script("select postroom.publish('Poison', '{}'); select postroom.publish('Good', '{}')");
    for attempts in 1..=2 {
        assert_eq!(
            system.query("select id, attempts from postroom.poll('0 seconds') where id = 1"),
            [format!("1 {attempts}")]
        );
    }
    assert_eq!(system.query("select id, attempts from postroom.poll('0 seconds')"), ["2 1"]);
    let why = "it was claimed 2 times and never finished";
    let log = "select id, status, attempts, errors->0->>'error' from event_log";
    assert_eq!(system.query(log), [format!("1 COMPLETED_WITH_ERRORS 3 {why}")]);
}

#[test]
fn a_poller_and_a_relay_share_the_queue_and_each_event_is_handled_once() {
    let system = with_functions();
    system.script("select postroom.publish('OrderPlaced', jsonb_build_object('n', n)) from generate_series(1, 300) n");
    let relay = system.relay("relay");
    let mut polled = 0;
    until("all are finished", || {
        let taken = system.query("select postroom.finalize(e.id, '[]', e.attempts) from postroom.poll() e");
        assert!(taken.iter().all(|finalized| finalized == "t"), "what it had polled was its own");
        polled += taken.len();
        system.query("select count(*) from event_log") == ["300"]
    });
    relay.stop();
    assert_eq!(system.received().len() + polled, 300);
    assert_eq!(system.query("select distinct status, attempts from event_log"), ["COMPLETED 1"]);
}

#[test]
fn a_second_queue_in_the_same_schema_gets_no_functions_and_is_told_what_to_do() {
    let mut system = with_functions();
    system.script("create table other_queue (like event_queue including all)");
    system.set("POSTROOM_STORE__MAIN__MAPPING__TABLE", "other_queue");
    let said = system.run(&["store", "migrate", "up"]);
    assert!(
        said.code != 0 && said.stderr.contains("event_queue") && said.stderr.contains("store.main.schema"),
        "{}",
        said.stderr
    );
    system.set("POSTROOM_STORE__MAIN__SCHEMA", "postroom_main");
    system.ok(&["store", "migrate", "up"]);
    assert_eq!(system.query("select event_type from postroom_main.publish('A', '{}')"), ["A"]);
    assert_eq!(system.query("select count(*) from other_queue"), ["1"]);
}

#[test]
fn workers_poll_and_finalize_over_http_where_the_route_is_pull() {
    let mut system = System::new("eventqueue");
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    system.write("pull.toml", "[[route]]\nname = \"eventqueue\"\nto = { pull = {} }\n");
    system.set("POSTROOM_CONFIG", "pull.toml");
    system.set("POSTROOM_HTTP__LISTEN", &address);
    system.ok(&["store", "migrate", "up"]);
    system.script("select postroom.publish('Good', '{\"n\": 1}'); select postroom.publish('Bad', '{}')");
    let token = system.ok(&["token", "create", "worker", "--role", "operator"]);
    let bearer = format!("authorization: Bearer {}", token.trim());
    let relay = system.relay("relay");
    let post = |path: &str, body: &Value| -> Value {
        let url = format!("http://{address}/api/v1/pull/eventqueue{path}");
        let mut curl = std::process::Command::new("curl");
        let said = curl
            .args(["-s", "-H", "content-type: application/json", "-H", &bearer, "-d", &body.to_string(), &url])
            .output()
            .unwrap();
        serde_json::from_slice(&said.stdout).unwrap_or_default()
    };
    let mut leased = Vec::new();
    until("both are leased", || {
        leased.extend(post("", &json!({"wait": "1s"})).as_array().into_iter().flatten().cloned());
        leased.len() == 2
    });
    assert_eq!(leased[0]["envelope"]["payload"], json!({"n": 1}));
    assert_eq!(system.query("select distinct status, attempts from event_queue"), ["PROCESSING 1"]);
    let errors = json!([{"handler": "mail", "error": "full"}]);
    let results = json!([{"lease": leased[0]["lease"], "ok": true}, {"lease": leased[1]["lease"], "errors": errors}]);
    assert_eq!(post("/settle", &json!({"results": results}))["settled"], 2);
    until("both are finalized", || system.query("select count(*) from event_queue") == ["0"]);
    relay.stop();
    assert_eq!(
        system.query("select status, errors from event_log order by id"),
        ["COMPLETED []", r#"COMPLETED_WITH_ERRORS [{"error": "full", "handler": "mail"}]"#]
    );
}

#[test]
fn the_queue_may_be_called_events() {
    let mut system = System::new("eventqueue").handler("EVENTQUEUE");
    system.script("alter table event_queue rename to events");
    system.set("POSTROOM_STORE__MAIN__MAPPING__TABLE", "events");
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
