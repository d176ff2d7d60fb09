//! Bad input from outside leaves nothing behind and starts nothing.

use postroom_e2e::World;

const ROUTE: &str = "[[route]]\nname = \"mailer\"\nto = { exec = { command = {child} } }\n";

fn config(rest: &str) -> String {
    format!("[store.main]\nurl = \"sqlite://shop.db\"\n{rest}\n{ROUTE}")
}

#[test]
fn one_payload_over_the_limit_in_a_thousand_lines_appends_none_of_them() {
    let world = World::with(env!("CARGO_BIN_EXE_e2e-child"), &config("[limits]\npayload = \"1KiB\""));
    let line = |n: usize| {
        let size = if n == 500 { 1100 } else { 900 };
        format!("{{\"type\":\"t\",\"key\":\"k\",\"payload\":\"{}\"}}\n", "x".repeat(size))
    };
    let lines: String = (0..1000).map(line).collect();
    let said = world.feed(&["event", "append", "-"], &lines);
    assert_eq!((said.code, said.stdout.as_str()), (2, ""), "{}", said.stderr);
    assert!(said.stderr.contains("line 501") && said.stderr.contains("1024"), "{}", said.stderr);
    assert!(!said.stderr.contains("xxx"), "a payload reached the error");
    assert_eq!(world.json(&["event", "ls"]), serde_json::json!([]));
    world.ok(&["relay", "run", "--drain"]);
    assert!(world.journal().is_empty());
}

#[test]
fn a_relay_with_a_mistake_in_its_configuration_starts_nothing() {
    let world = World::with(env!("CARGO_BIN_EXE_e2e-child"), &config(""));
    world.append(1);
    for mistake in [
        "[relay]\nlease = \"30\"",
        "[relay]\nlease = \"10ms\"",
        "[relay]\nin_flight = 3",
        "[retry]\nbase = \"1h\"\nmax = \"1s\"",
        "[[route]]\nname = \"mailer\"\nto = { stdout = {} }",
        "[[route]]\nname = \"nowhere\"\nto = { exec = {} }",
        "[[route]]\nname = \"kafka\"\nto = { kafka = { brokers = [\"k:9092\"] } }",
        "name = [",
    ] {
        world.configure(&config(mistake));
        let said = world.run(&["relay", "run"]);
        assert_eq!((said.code, said.stdout.as_str()), (2, ""), "{mistake}: {}", said.stderr);
        assert!(said.stderr.contains("postroom.toml:"), "{mistake}: no place named: {}", said.stderr);
    }
    assert!(world.journal().is_empty(), "nothing was delivered");
    world.configure(&config(""));
    assert_eq!(world.json(&["status"])["relays"], serde_json::json!([]), "no relay ever registered");
}

#[test]
fn a_relay_without_its_tables_ends_with_4_and_delivers_nothing() {
    let world = World::with(env!("CARGO_BIN_EXE_e2e-child"), &config(""));
    world.ok(&["store", "migrate", "down", "--yes"]);
    // Without --drain: it must not stay and wait for tables that nobody makes.
    let said = world.run(&["relay", "run"]);
    assert_eq!((said.code, said.stdout.as_str()), (4, ""), "{}", said.stderr);
    assert!(said.stderr.contains("postroom store migrate up"), "{}", said.stderr);
    assert!(world.journal().is_empty());
}
