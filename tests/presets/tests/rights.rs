//! A user who may not do what a relay does: refused with the SQL that is missing, before anything is delivered.

#![allow(clippy::unwrap_used, clippy::panic, reason = "what is not as documented fails the test")]

use postroom_presets::System;
use postroom_testbed::unique_name;

/// The SQL of an answer: what stands behind its hint.
fn sql(stderr: &str) -> String {
    let (_, hint) = stderr.split_once("hint: ").unwrap_or_else(|| panic!("{stderr}"));
    hint.split_once(':').unwrap().1.to_owned()
}

#[test]
fn a_user_without_rights_is_told_the_sql_that_is_missing_and_nothing_is_sent_before() {
    let mut system = System::new("m4").handler("M4");
    let role = unique_name("clerk");
    system.script(&format!("create role {role} login"));
    system.script(
        "insert into event_outbox (id, event_id, event_type, payload) values ('r', 'e', 't', '{\"payload\": {}}')",
    );
    let url = system.url().replace("postgres@", &format!("{role}@"));
    system.set("DATABASE_URL", &url);

    // First its own tables, then the adopted one and that of dead letters.
    for missing in ["create schema", "event_outbox"] {
        let said = system.run(&["relay", "run", "--drain"]);
        assert_eq!(said.code, 4, "{}", said.stderr);
        let sql = sql(&said.stderr);
        assert!(sql.contains(missing), "{}", said.stderr);
        assert!(system.received().is_empty(), "nothing is delivered that cannot be marked");
        system.script(&sql);
    }
    system.drain();
    assert_eq!(system.query("select status from event_outbox"), ["sent"]);
    system.script(&format!("drop owned by {role}; drop role {role}"));
}
