//! M4 eventing (`--preset m4`): whole envelopes in `event_outbox`, handlers of one process, `dead_letter_events`.

#![allow(clippy::unwrap_used, reason = "what is not as documented fails the test")]

use postroom_e2e::{World, until};
use postroom_presets::System;
use serde_json::{Value, json};
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{AssertSqlSafe, ConnectOptions as _, Connection as _, Row as _};

const TYPES: [&str; 3] = ["TelemetryWindowClosed", "StatisticCalculated", "SettlementCalculated"];

fn m4() -> System {
    System::new("m4").handler("M4")
}

/// What the service writes: the row as its documents name it, with the envelope as payload.
fn insert(system: &System, id: &str, event_type: &str, envelope: &Value) {
    system.script(&format!(
        "insert into event_outbox (id, event_id, event_type, payload, status, attempts) \
         values ('row-{id}', '{id}', '{event_type}', '{envelope}', 'pending', 0)"
    ));
}

fn envelope(id: &str) -> Value {
    json!({
        "event_id": id, "occurred_at": "2026-01-02T03:04:05.12Z", "correlation_id": "c-1", "tenant_id": "acme",
        "station_id": "s-9", "schema_version": 2, "payload": {"z": 1, "a": [2]},
    })
}

fn rows(system: &System) -> Vec<String> {
    system.query("select id, status, attempts, sent_at is not null as sent from event_outbox order by created_at, id")
}

#[test]
fn pending_rows_of_all_three_types_reach_the_handlers_as_the_common_envelope_and_are_sent() {
    let system = m4();
    for (n, event_type) in TYPES.into_iter().enumerate() {
        insert(&system, &format!("e-{n}"), event_type, &envelope(&format!("e-{n}")));
    }
    system.ok(&["relay", "run", "--drain", "--preset", "m4"]);
    assert_eq!(rows(&system), ["row-e-0 sent 0 t", "row-e-1 sent 0 t", "row-e-2 sent 0 t"]);
    let received = system.received();
    assert_eq!(received.iter().map(|line| line["type"].as_str().unwrap()).collect::<Vec<_>>(), TYPES);
    let expected = r#"{"event_id":"e-1","occurred_at":"2026-01-02T03:04:05.12Z","correlation_id":"c-1","tenant_id":"acme","station_id":"s-9","schema_version":2,"payload":{"a": [2], "z": 1}}"#;
    let lines = std::fs::read_to_string(system.path("received")).unwrap();
    let line = lines.lines().find(|line| line.contains(r#""id":"e-1""#)).unwrap();
    assert!(line.contains(expected), "fields, their order, their types: {line}");
}

#[test]
fn the_correlation_id_is_the_events_own_id_and_the_version_one_where_the_envelope_has_none() {
    let system = m4();
    insert(&system, "e-1", TYPES[0], &json!({"event_id": "e-1", "occurred_at": "2026-01-02T03:04:05Z", "payload": {}}));
    system.drain();
    let envelope = system.received()[0]["envelope"].clone();
    let expected = json!({
        "event_id": "e-1", "occurred_at": "2026-01-02T03:04:05Z", "correlation_id": "e-1", "tenant_id": null,
        "station_id": null, "schema_version": 1, "payload": {},
    });
    assert_eq!(envelope, expected);
}

#[test]
fn an_envelope_without_a_time_of_occurrence_has_that_of_its_row() {
    let system = m4();
    insert(&system, "e-1", TYPES[0], &json!({"event_id": "e-1", "payload": {}}));
    insert(&system, "e-2", TYPES[0], &json!({"event_id": "e-2", "occurred_at": "rubbish", "payload": {}}));
    insert(&system, "e-3", TYPES[0], &envelope("e-3"));
    system.script("update event_outbox set created_at = '2026-03-04T05:06:07.5+02:00'");
    system.drain();
    let times: Vec<Value> = system.received().iter().map(|line| line["envelope"]["occurred_at"].clone()).collect();
    assert_eq!(times, ["2026-03-04T03:06:07.5Z", "2026-03-04T03:06:07.5Z", "2026-01-02T03:04:05.12Z"]);
    assert_eq!(system.json(&["event", "show", "e-1"])["occurred_at"], "2026-03-04T03:06:07.5Z");
}

#[test]
fn a_handlers_error_makes_the_row_failed_and_a_dead_letter_and_later_events_go_on() {
    let system = m4();
    insert(&system, "e-1", TYPES[0], &envelope("e-1"));
    insert(&system, "e-2", TYPES[1], &envelope("e-2"));
    system.refuse(TYPES[0]);
    system.drain();
    assert_eq!(rows(&system), ["row-e-1 failed 1 f", "row-e-2 sent 0 t"]);
    let letters = "select event_id, event_type, payload->>'tenant_id' as tenant, error, attempts, \
         first_seen_at <= last_seen_at as ordered from dead_letter_events";
    assert_eq!(system.query(letters), ["e-1 TelemetryWindowClosed acme the handler refuses it 1 t"]);
    assert_eq!(system.json(&["dead", "ls"])[0]["id"], "e-1");
    assert_eq!(system.json(&["status"])["routes"][0]["dead"], 1);
}

#[test]
fn handlers_in_any_language_accept_into_processed_events_in_their_own_transaction() {
    let system = m4();
    system.ok(&["store", "migrate", "up"]);
    let accept = "select postroom.accept('billing', 'e-1')";
    let mut transaction = system.begin();
    transaction.script(accept);
    drop(transaction);
    assert_eq!(system.query("select count(*) from processed_events"), ["0"], "it rolls back with the effect");
    assert_eq!(system.query(accept), ["t"]);
    assert_eq!(system.query(accept), ["f"], "the effect has happened");
    assert_eq!(system.query("select postroom.accept('mailer', 'e-1')"), ["t"], "another consumer");
    assert_eq!(
        system.query("select event_id, consumer_name from processed_events order by 2"),
        ["e-1 billing", "e-1 mailer"]
    );
}

#[test]
fn the_systems_own_replay_sql_sends_the_same_event_again() {
    let system = m4();
    insert(&system, "e-1", TYPES[0], &envelope("e-1"));
    system.refuse("e-1");
    system.drain();
    system.script(
        "INSERT INTO event_outbox (id, event_id, event_type, payload, status, attempts)
         SELECT event_id || '-replay', event_id, event_type, payload, 'pending', 0
         FROM dead_letter_events
         WHERE event_id = 'e-1';",
    );
    system.drain();
    assert_eq!(rows(&system), ["row-e-1 failed 1 f", "e-1-replay failed 1 f"]);
    let letters = "select attempts, last_seen_at > first_seen_at as later from dead_letter_events";
    assert_eq!(system.query(letters), ["2 t"], "one row per event, counted up");
    assert_eq!(system.json(&["dead", "ls"]).as_array().unwrap().len(), 1, "one event is dead, not two");
    system.refuse("");
    system.ok(&["dead", "replay", "--yes", "e-1"]);
    system.drain();
    assert_eq!(rows(&system), ["row-e-1 failed 1 f", "e-1-replay failed 1 f", "e-1-replay-1 sent 0 t"]);
    assert_eq!(system.json(&["dead", "ls"]), json!([]));
    let sent: Vec<Value> = system.received().iter().map(|line| line["envelope"].clone()).collect();
    assert!(sent.len() == 3 && sent.iter().all(|envelope| *envelope == sent[0]), "the same event each time: {sent:?}");
}

#[test]
fn replays_of_ours_are_numbered_and_can_be_repeated() {
    let system = m4();
    insert(&system, "e-1", TYPES[0], &envelope("e-1"));
    system.refuse("e-1");
    system.drain();
    for _ in 0..2 {
        system.ok(&["dead", "replay", "--yes", "e-1"]);
        system.drain();
    }
    system.refuse("");
    system.ok(&["dead", "replay", "--all", "--yes"]);
    system.drain();
    let ids: Vec<String> = system.query("select id, status from event_outbox order by created_at");
    assert_eq!(ids, ["row-e-1 failed", "e-1-replay-1 failed", "e-1-replay-2 failed", "e-1-replay-3 sent"]);
    assert_eq!(system.query("select attempts from dead_letter_events"), ["3"]);
    // What was sent can be sent again, too.
    system.ok(&["replay", "--yes", "--allow-duplicates", "--type", TYPES[0], "--route", "m4"]);
    assert_eq!(system.query("select id from event_outbox where status = 'pending'"), ["e-1-replay-4"]);
}

#[test]
fn a_payload_that_is_no_envelope_is_a_dead_letter_and_the_others_go_on() {
    let system = m4();
    insert(&system, "e-1", TYPES[0], &json!({"z": 1}));
    insert(&system, "e-2", TYPES[0], &json!(["not", "an", "object"]));
    insert(&system, "e-3", TYPES[0], &envelope("e-3"));
    system.drain();
    assert_eq!(rows(&system), ["row-e-1 failed 1 f", "row-e-2 failed 1 f", "row-e-3 sent 0 t"]);
    let letters = system.query("select event_id, payload->>'z' as z, error from dead_letter_events order by 1");
    let why = "there is no payload at payload.payload";
    assert_eq!(letters, [format!("e-1 1 {why}"), format!("e-2 null {why}")]);
    let dead = system.json(&["dead", "ls"]);
    assert_eq!((&dead[0]["id"], &dead[0]["code"]), (&json!("e-1"), &json!("mapping.unreadable")), "{dead}");
    assert_eq!(system.received().len(), 1);
}

#[test]
fn more_tries_can_be_asked_for_and_the_row_is_pending_until_the_last() {
    let mut system = m4();
    system.set("POSTROOM_ROUTE__M4__RETRY__ATTEMPTS", "3");
    system.set("POSTROOM_ROUTE__M4__RETRY__BASE", "2s");
    insert(&system, "e-1", TYPES[0], &envelope("e-1"));
    system.refuse("e-1");
    system.work_until("it has failed once", || rows(&system) == ["row-e-1 pending 1 f"]);
    assert_eq!(system.query("select count(*) from dead_letter_events"), ["0"]);
    system.set("POSTROOM_ROUTE__M4__RETRY__BASE", "10ms");
    system.drain();
    assert_eq!((rows(&system), system.received().len()), (vec!["row-e-1 failed 3 f".to_owned()], 3));
    assert_eq!(system.query("select event_id from dead_letter_events"), ["e-1"]);
}

#[test]
fn of_two_relays_one_dispatches_and_the_other_takes_over() {
    let mut system = m4();
    system.set("POSTROOM_RELAY__LEASE", "2s");
    let (first, second) = (system.relay("first"), system.relay("second"));
    until("both are there", || system.json(&["status"])["relays"].as_array().unwrap().len() == 2);
    for n in 0..20 {
        insert(&system, &format!("e-{n}"), TYPES[0], &envelope(&format!("e-{n}")));
    }
    let pending = || system.query("select count(*) from event_outbox where status <> 'sent'") == ["0"];
    until("all are sent", pending);
    assert_eq!(system.received().len(), 20, "each of them once");
    first.kill();
    insert(&system, "e-20", TYPES[0], &envelope("e-20"));
    until("the other one sends what comes next", pending);
    second.stop();
}

#[test]
fn a_file_lies_over_the_preset_key_by_key() {
    let system = m4();
    system.write("mine.toml", "[[route]]\nname = \"m4\"\nretry = { attempts = 2, base = \"10ms\" }\n");
    insert(&system, "e-1", TYPES[0], &envelope("e-1"));
    insert(&system, "e-2", TYPES[1], &envelope("e-2"));
    system.refuse("e-1");
    system.ok(&["relay", "run", "--drain", "--config", "mine.toml"]);
    assert_eq!(rows(&system), ["row-e-1 failed 2 f", "row-e-2 sent 0 t"], "tried twice, all else as the preset says");
}

#[test]
fn presets_are_listed_and_shown_as_configurations_that_work() {
    let system = m4();
    let names: Vec<Value> =
        system.json(&["preset", "ls"]).as_array().unwrap().iter().map(|p| p["name"].clone()).collect();
    for name in ["m4", "corebilling", "payments"] {
        assert!(names.contains(&json!(name)), "{names:?}");
    }
    // Copied into a file it means the same without the preset.
    let shown = system.ok(&["preset", "show", "m4"]);
    system.write("copied.toml", &shown);
    insert(&system, "e-1", TYPES[0], &envelope("e-1"));
    let mut command = system.command(&["relay", "run", "--drain", "--config", "copied.toml"]);
    let output = command.env_remove("POSTROOM_PRESET").output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(rows(&system), ["row-e-1 sent 0 t"]);
    let said = system.run(&["preset", "show", "m5"]);
    assert!(said.code != 0 && said.stderr.contains("m4"), "{}", said.stderr);
}

#[test]
fn on_sqlite_the_same_tables_and_the_same_replay_work() {
    let mut world = World::new("");
    let file = world.path("metering.db");
    let sql = |text: &str| -> Vec<String> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let options = SqliteConnectOptions::new().filename(&file).create_if_missing(true);
            let mut connection = options.connect().await.unwrap();
            let rows = sqlx::raw_sql(AssertSqlSafe(text.to_owned())).fetch_all(&mut connection).await.unwrap();
            connection.close().await.unwrap();
            rows.iter().map(|row| row.try_get::<String, _>(0).unwrap()).collect()
        })
    };
    sql(&world.ok(&["preset", "show", "m4", "--ddl"]));
    for id in ["e-1", "e-2"] {
        sql(&format!(
            "insert into event_outbox (id, event_id, event_type, payload, status, attempts) \
             values ('row-{id}', '{id}', 'StatisticCalculated', '{}', 'pending', 0)",
            envelope(id)
        ));
    }
    world.set("DATABASE_URL", &format!("sqlite://{}", file.display()));
    world.set("POSTROOM_PRESET", "m4");
    world.set("POSTROOM_ROUTE__M4__TO__EXEC__COMMAND", &postroom_presets::handler());
    world.write("refused", "e-1");
    world.ok(&["relay", "run", "--drain"]);
    let states =
        "select id || ' ' || status || ' ' || attempts || ' ' || (sent_at is not null) from event_outbox order by id";
    assert_eq!(sql(states), ["row-e-1 failed 1 0", "row-e-2 sent 0 1"]);
    assert_eq!(
        sql("select event_id || ' ' || error || ' ' || attempts from dead_letter_events"),
        ["e-1 the handler refuses it 1"]
    );
    sql("INSERT INTO event_outbox (id, event_id, event_type, payload, status, attempts)
         SELECT event_id || '-replay', event_id, event_type, payload, 'pending', 0
         FROM dead_letter_events
         WHERE event_id = 'e-1';");
    world.write("refused", "");
    world.ok(&["relay", "run", "--drain"]);
    assert_eq!(sql(states), ["e-1-replay sent 0 1", "row-e-1 failed 1 0", "row-e-2 sent 0 1"]);
    sql("insert into event_outbox (id, event_id, event_type, payload, created_at) \
         values ('row-e-3', 'e-3', 'StatisticCalculated', '{\"payload\": {}}', '2026-03-04T05:06:07.5+02:00')");
    world.ok(&["relay", "run", "--drain"]);
    assert_eq!(
        sql("select event_id || ' ' || consumer_name from processed_events order by 1"),
        ["e-1 m4", "e-2 m4", "e-3 m4"]
    );
    let lines = std::fs::read_to_string(world.path("received")).unwrap();
    let received: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(received[2]["envelope"], received[0]["envelope"], "the same event again");
    assert_eq!(received[3]["envelope"]["occurred_at"], "2026-03-04T03:06:07.5Z", "the row's own time");
}
