//! A route's consumer: the inbox of the team's own database is kept by the relay, for handlers in any language.

#![allow(clippy::unwrap_used, reason = "what is not as documented fails the test")]

use std::net::TcpListener;
use std::process::Command;

use postroom_e2e::until;
use postroom_presets::System;
use serde_json::Value;

const PROCESSED: &str = "select event_id, consumer_name from processed_events order by 1, 2";
/// The SQL of the system's document.
const REPLAY: &str = "INSERT INTO event_outbox (id, event_id, event_type, payload, status, attempts)
    SELECT event_id || '-replay{n}', event_id, event_type, payload, 'pending', 0
    FROM dead_letter_events
    WHERE event_id = 'e-1';";

fn m4() -> System {
    System::new("m4").handler("M4")
}

fn insert(system: &System, row: &str, event: &str) {
    system.script(&format!(
        "insert into event_outbox (id, event_id, event_type, payload) \
         values ('{row}', '{event}', 'StatisticCalculated', '{{\"event_id\": \"{event}\", \"payload\": {{}}}}')"
    ));
}

fn states(system: &System) -> Vec<String> {
    system.query("select id, status from event_outbox order by created_at, id")
}

#[test]
fn what_a_handler_has_processed_stands_in_processed_events_and_a_replay_of_it_is_skipped() {
    let system = m4();
    insert(&system, "row-1", "e-1");
    insert(&system, "row-2", "e-2");
    system.refuse("e-1");
    system.drain();
    assert_eq!(system.query(PROCESSED), ["e-2 m4"], "after successful handling, and no earlier");
    system.refuse("");
    system.script(&REPLAY.replace("{n}", ""));
    system.drain();
    assert_eq!(states(&system), ["row-1 failed", "row-2 sent", "e-1-replay sent"]);
    assert_eq!(system.query(PROCESSED), ["e-1 m4", "e-2 m4"]);
    assert_eq!(system.received().len(), 3);

    // The document: if the record exists, the handler is skipped.
    system.script(&REPLAY.replace("{n}", "-2"));
    system.drain();
    assert_eq!(system.query("select status, attempts from event_outbox where id = 'e-1-replay-2'"), ["sent 0"]);
    assert_eq!(system.received().len(), 3, "the handler was not asked again");

    // Who wants it handled again takes the record away.
    system.ok(&["inbox", "forget", "e-1", "--consumer", "m4", "--yes"]);
    system.script(&REPLAY.replace("{n}", "-3"));
    system.drain();
    assert_eq!((system.received().len(), system.query(PROCESSED)), (4, vec!["e-1 m4".to_owned(), "e-2 m4".to_owned()]));
}

#[test]
fn what_an_old_consumer_of_that_name_has_processed_is_done_without_its_handler() {
    let mut system = m4();
    system.set("POSTROOM_ROUTE__M4__CONSUMER", "billing");
    system.script("insert into processed_events values ('e-1', 'billing'), ('e-2', 'mailer')");
    insert(&system, "row-1", "e-1");
    insert(&system, "row-2", "e-2");
    system.drain();
    assert_eq!(states(&system), ["row-1 sent", "row-2 sent"]);
    let received = system.received();
    assert_eq!(received.iter().map(|line| &line["id"]).collect::<Vec<_>>(), ["e-2"]);
    assert_eq!(system.query(PROCESSED), ["e-1 billing", "e-2 billing", "e-2 mailer"]);
}

#[test]
fn rows_of_one_event_that_wait_together_are_handled_once() {
    let system = m4();
    for n in 0..30 {
        insert(&system, &format!("row-{n}"), &format!("e-{}", n % 3));
    }
    system.drain();
    assert_eq!(system.query("select distinct status, attempts from event_outbox"), ["sent 0"]);
    assert_eq!(system.received().len(), 3);
    assert_eq!(system.query(PROCESSED), ["e-0 m4", "e-1 m4", "e-2 m4"]);
}

#[test]
fn the_record_and_the_rows_state_are_written_together_or_not_at_all() {
    let system = m4();
    insert(&system, "row-1", "e-1");
    system.script(
        "create function refuse() returns trigger language plpgsql as $$ begin raise exception 'not now'; end $$; \
         create trigger refuse before update on event_outbox for each row execute function refuse()",
    );
    let relay = system.relay("relay");
    until("the state could not be written", || system.log("relay").contains("not now"));
    assert_eq!(system.query("select count(*) from processed_events"), ["0"]);
    system.script("drop trigger refuse on event_outbox");
    until("it is written", || states(&system) == ["row-1 sent"]);
    assert_eq!(system.query(PROCESSED), ["e-1 m4"]);
    relay.stop();
    assert_eq!(system.received().len(), 1, "what could not be written was written again, and not handled again");
}

#[test]
fn a_worker_that_pulls_has_its_events_recorded_and_processed_ones_are_not_leased() {
    let mut system = System::new("m4");
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    system.write("pull.toml", "[[route]]\nname = \"m4\"\nto = { pull = {} }\n");
    system.set("POSTROOM_CONFIG", "pull.toml");
    system.set("POSTROOM_HTTP__LISTEN", &address);
    system.script("insert into processed_events values ('e-1', 'm4')");
    for n in 1..=3 {
        insert(&system, &format!("row-{n}"), &format!("e-{n}"));
    }
    system.ok(&["store", "migrate", "up"]);
    let token = system.ok(&["token", "create", "worker", "--role", "worker", "--route", "m4"]);
    let relay = system.relay("relay");
    until("the relay listens", || std::net::TcpStream::connect(&address).is_ok());
    let operator = system.ok(&["token", "create", "ann", "--role", "operator"]);
    let mut append = Command::new("curl");
    append.args(["-s", "-H", "content-type: application/json", "-d", "{\"type\": \"StatisticCalculated\"}"]);
    append.args([
        "-H",
        &format!("authorization: Bearer {}", operator.trim()),
        &format!("http://{address}/api/v1/events"),
    ]);
    let refused = String::from_utf8(append.output().unwrap().stdout).unwrap();
    assert!(refused.contains("http.invalid") && refused.contains("which its application writes"), "{refused}");
    let worker = concat!(env!("CARGO_MANIFEST_DIR"), "/handlers/worker.py");
    let mut command = Command::new("python3");
    command.args([worker, &address, "m4", "2"]).env("WORKER_TOKEN", token.trim()).current_dir(system.path(""));
    let said = command.output().unwrap();
    assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
    until("all are sent", || system.query("select count(*) from event_outbox where status <> 'sent'") == ["0"]);
    relay.stop();
    let mut leased: Vec<Value> = system.received().iter().map(|line| line["id"].clone()).collect();
    leased.sort_by_key(ToString::to_string);
    assert_eq!(leased, ["e-2", "e-3"]);
    assert_eq!(system.query(PROCESSED), ["e-1 m4", "e-2 m4", "e-3 m4"]);
}

#[test]
fn an_inbox_of_uuids_with_its_time_is_kept_where_rows_are_shared_by_locks() {
    let mut system = System::new("holdco");
    let exec = format!(
        "[[route]]\nname = \"holdco\"\nconsumer = \"erp\"\nto = {{ exec = {{ command = {} }} }}\n",
        postroom_presets::handler()
    );
    system.write("exec.toml", &exec);
    system.set("POSTROOM_CONFIG", "exec.toml");
    system.script(
        "insert into event_outbox (group_id, aggregate_type, aggregate_id, event_type, payload) \
         select gen_random_uuid(), 'order', gen_random_uuid(), 'placed', '{}' from generate_series(1, 20)",
    );
    system.drain();
    let recorded = "select count(*) from event_inbox i join event_outbox o on o.id = i.event_id \
         where consumer_name = 'erp' and processed_at > now() - interval '1 hour'";
    assert_eq!((system.query(recorded), system.received().len()), (vec!["20".to_owned()], 20));
    system.script("update event_outbox set status = 'pending'");
    system.drain();
    assert_eq!(system.query("select distinct status from event_outbox"), ["published"]);
    assert_eq!(system.received().len(), 20);
}

#[test]
fn an_inbox_is_kept_where_rows_are_claimed_in_columns() {
    let mut system = System::new("eventqueue").handler("EVENTQUEUE");
    system.script(
        "create table processed (consumer_name text not null, event_id varchar(20) not null, primary key (event_id, consumer_name))",
    );
    let inbox =
        "[store.main.mapping.inbox]\ntable = \"processed\"\n[[route]]\nname = \"eventqueue\"\nconsumer = \"shop\"\n";
    system.write("inbox.toml", inbox);
    system.set("POSTROOM_CONFIG", "inbox.toml");
    let insert =
        "insert into event_queue (id, event_type, payload) select n, 'OrderPlaced', '{}' from generate_series(1, 20) n";
    system.script(insert);
    system.drain();
    assert_eq!(system.query("select count(*), count(distinct consumer_name) from processed"), ["20 1"]);
    system.script("delete from event_log");
    system.script(insert);
    system.drain();
    assert_eq!(system.query("select status, count(*) from event_log group by 1"), ["COMPLETED 20"]);
    assert_eq!(system.received().len(), 20);
}

#[test]
fn an_inbox_that_does_not_do_is_refused_before_anything_is_delivered() {
    let mut system = m4();
    insert(&system, "row-1", "e-1");
    let refused = |system: &System, words: [&str; 2]| {
        let said = system.run(&["relay", "run", "--drain"]);
        assert!(said.code != 0 && words.iter().all(|word| said.stderr.contains(word)), "{}", said.stderr);
        assert!(system.received().is_empty());
    };
    system.script("alter table processed_events rename to elsewhere");
    refused(&system, ["there is no table processed_events", "create it"]);
    let found = system.run(&["doctor", "-o", "json"]);
    assert!(found.stdout.contains("there is no table processed_events"), "{}{}", found.stdout, found.stderr);
    system.script("create table processed_events (event_id text, consumer_name text)");
    refused(&system, ["not unique", "create unique index"]);
    // Without a consumer nobody needs the table.
    system.set("POSTROOM_ROUTE__M4__CONSUMER", "");
    system.drain();
    assert_eq!(system.received().len(), 1);
    let mut system = System::bare("m4");
    system.write("noop.toml", "[[route]]\nname = \"m4\"\nto = { noop = {} }\n");
    system.set("POSTROOM_CONFIG", "noop.toml");
    let said = system.run(&["config", "check"]);
    assert!(said.code == 2 && said.stderr.contains("only exec and pull routes"), "{}", said.stderr);
}

#[test]
fn a_handler_that_takes_longer_than_it_may_makes_a_dead_letter_and_the_others_go_on() {
    let mut system = m4();
    system.set("POSTROOM_ROUTE__M4__TO__EXEC__TIMEOUT", "1s");
    system.set("POSTROOM_ROUTE__M4__RETRY__CRASHES", "2");
    system.set("POSTROOM_ROUTE__M4__RETRY__BASE", "10ms");
    system.write("slow", "Slow");
    system.script(
        "insert into event_outbox (id, event_id, event_type, payload) values ('row-1', 'e-1', 'Slow', '{\"payload\": {}}')",
    );
    for n in 2..=20 {
        insert(&system, &format!("row-{n}"), &format!("e-{n}"));
    }
    system.drain();
    assert_eq!(
        system.query("select status, attempts, count(*) from event_outbox group by 1, 2 order by 1"),
        ["failed 2 1", "sent 0 19"]
    );
    let dead = system.json(&["dead", "ls"]);
    assert_eq!((&dead[0]["id"], &dead[0]["code"]), (&"e-1".into(), &"exec.timeout".into()), "{dead}");
    assert_eq!(
        system.query("select attempts from dead_letter_events"),
        ["1"],
        "one dead letter, however often it was tried"
    );
    assert_eq!(system.query("select count(*) from processed_events where event_id = 'e-1'"), ["0"]);
}
