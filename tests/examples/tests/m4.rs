//! M4: a metering service in Go, whose handlers the relay starts.

use postroom_examples::Example;
use serde_json::json;

const STATUSES: &str = "select event_type, status, count(*) from event_outbox group by 1, 2 order by 1, 2";

fn m4() -> Example {
    let m4 = Example::new("m4");
    m4.prepare("packages");
    m4
}

/// With tables, and nothing that runs.
fn at_rest() -> Example {
    let mut m4 = m4();
    m4.learn();
    m4.sh("make --silent tables");
    m4
}

/// Closed windows of stations of these numbers.
fn insert(m4: &Example, stations: &[u32], status: &str) {
    for station in stations {
        m4.system.script(&format!(
            r#"insert into event_outbox (id, event_id, event_type, payload, status)
               select id, id, 'StatisticCalculated', jsonb_build_object('event_id', id, 'occurred_at', now(), 'correlation_id', id, 'tenant_id', 'acme',
               'station_id', 'station-{station}', 'schema_version', 1, 'payload', '{{"kwh": 3}}'::jsonb), '{status}' from (select gen_random_uuid()::text id) ids"#
        ));
    }
}

#[test]
fn the_metering_service_does_what_its_readme_says() {
    let mut m4 = m4();
    for section in ["Run it", "Fail, die, replay", "Cutting over"] {
        m4.follow(section);
    }
}

#[test]
fn events_that_the_old_dispatcher_has_left_in_any_state_are_handled_or_visibly_dead() {
    let mut m4 = at_rest();
    insert(&m4, &[1], "pending");
    insert(&m4, &[1], "sent");
    insert(&m4, &[9], "failed");
    m4.system.script("insert into dead_letter_events (event_id, event_type, payload, error) select event_id, event_type, payload, 'settlement: no tariff' from event_outbox where status = 'failed'");
    m4.start("relay");
    m4.until_rows(
        STATUSES,
        &["SettlementCalculated sent 1", "StatisticCalculated failed 1", "StatisticCalculated sent 2"],
    );
    let dead = m4.system.json(&["dead", "ls"]);
    let id = m4.system.query("select event_id from event_outbox where status = 'failed'").remove(0);
    assert_eq!((dead.as_array().unwrap().len(), &dead[0]["id"]), (1, &json!(id)), "{dead}");
    let reason = m4.system.query("select error from dead_letter_events");
    assert_eq!(reason, ["settlement: no tariff"], "the team's table keeps its reason");
    assert_eq!(m4.system.query("select updates from dashboards"), ["1"]);
    m4.system.script("insert into tariffs values ('station-9', 5)");
    m4.sh("postroom dead replay --all --yes");
    m4.until_rows("select station, cents from invoices order by 1", &["station-1 60", "station-9 15"]);
    m4.until_rows("select count(*) from event_outbox where status = 'pending'", &["0"]);
    assert_eq!(m4.system.json(&["dead", "ls"]), json!([]));
}

#[test]
fn what_the_old_dispatcher_had_half_done_when_it_was_killed_is_done_once() {
    let mut m4 = at_rest();
    insert(&m4, &[1], "pending");
    // The dashboard is done; the settlement waits for its tariff.
    let mut session = m4.system.begin();
    session.script("lock table tariffs in access exclusive mode");
    m4.start("old");
    m4.until_rows("select consumer_name from processed_events", &["dashboard"]);
    m4.kill("old");
    session.commit();
    m4.start("relay");
    m4.until_rows(STATUSES, &["SettlementCalculated sent 1", "StatisticCalculated sent 1"]);
    assert_eq!(m4.system.query("select updates, (select count(*) from invoices) from dashboards"), ["1 1"]);
}

#[test]
fn old_dispatcher_and_relay_side_by_side_have_every_effect_once() {
    let mut m4 = at_rest();
    m4.start("old");
    m4.start("relay");
    for _ in 0..5 {
        insert(&m4, &[1, 2, 1, 2, 1, 2, 1, 2, 1, 2], "pending");
    }
    m4.until_rows(STATUSES, &["SettlementCalculated sent 50", "StatisticCalculated sent 50"]);
    assert_eq!(m4.system.query("select sum(updates), (select count(*) from invoices) from dashboards"), ["50 50"]);
    assert_eq!(m4.system.query("select count(*) from dead_letter_events"), ["0"]);
}

#[test]
fn the_old_dispatcher_goes_on_with_what_the_relay_has_left() {
    let mut m4 = at_rest();
    insert(&m4, &[1, 9], "pending");
    m4.start("relay");
    let done = ["SettlementCalculated sent 1", "StatisticCalculated failed 1", "StatisticCalculated sent 1"];
    m4.until_rows(STATUSES, &done);
    m4.stop("relay");
    insert(&m4, &[2, 9], "pending");
    m4.start("old");
    m4.until_rows(
        STATUSES,
        &["SettlementCalculated sent 2", "StatisticCalculated failed 2", "StatisticCalculated sent 2"],
    );
    m4.until_rows("select count(*), count(distinct event_id) from dead_letter_events", &["2 2"]);
}

#[test]
fn an_event_that_no_handler_has_subscribed_is_sent() {
    let mut m4 = at_rest();
    m4.system.script(
        "insert into event_outbox (id, event_id, event_type, payload) \
         values ('e-1', 'e-1', 'StationPainted', '{\"event_id\": \"e-1\", \"occurred_at\": \"2026-01-02T03:04:05Z\", \"payload\": {}}')",
    );
    m4.start("relay");
    m4.until_rows(STATUSES, &["StationPainted sent 1"]);
    assert_eq!(m4.system.query("select count(*) from dead_letter_events"), ["0"]);
}

#[test]
fn the_correlation_id_of_a_context_is_that_of_all_that_follows_from_an_event() {
    let mut m4 = at_rest();
    insert(&m4, &[1], "pending");
    m4.system
        .script("update event_outbox set payload = jsonb_set(payload, '{correlation_id}', '\"reading-7\"'::jsonb)");
    m4.start("relay");
    m4.until_rows(STATUSES, &["SettlementCalculated sent 1", "StatisticCalculated sent 1"]);
    let correlations = "select distinct payload->>'correlation_id' from event_outbox";
    assert_eq!(
        m4.system.query(correlations),
        ["reading-7"],
        "of the statistic, and of the settlement that its handler appends"
    );
}

#[test]
fn the_database_of_an_example_is_made_once_however_often_its_servers_are_asked_for() {
    let m4 = m4();
    let url = m4.system.url();
    let (server, _) = url.rsplit_once('/').unwrap();
    let name = postroom_testbed::unique_name("twice");
    let (_, address) = server.rsplit_once('@').unwrap();
    for _ in 0..2 {
        m4.sh(&format!("make --silent database NAME={name} POSTGRES_AT={address}"));
    }
    m4.sh(&format!("psql --quiet --command 'drop database {name}' {server}/postgres"));
}
