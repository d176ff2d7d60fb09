//! `event append`: what goes in, what comes back, and that a bad input leaves nothing behind.

use crate::world::World;

#[test]
fn one_event_is_appended_and_its_id_printed() {
    let world = World::new();
    let id =
        world.ok(&["event", "append", "--type", "order.placed", "--key", "order-7", "--payload", r#"{"b": 1.10}"#]);
    let shown = world.json(&["event", "show", id.trim(), "--payload"]);
    assert_eq!((&shown["type"], &shown["key"]), (&"order.placed".into(), &"order-7".into()));
    assert_eq!(shown["payload_bytes"], 11, "kept byte for byte");
}

#[test]
fn every_option_of_append_reaches_the_event() {
    let world = World::new();
    let id = world.ok(&[
        "event",
        "append",
        "--id",
        "e-1",
        "--type",
        "order.placed",
        "--aggregate-type",
        "order",
        "--aggregate-id",
        "7",
        "--tenant",
        "acme",
        "--header",
        "traceparent=00-1",
        "--attribute",
        "station_id=9",
        "--available-at",
        "2030-01-02T03:04:05Z",
    ]);
    assert_eq!(id, "e-1\n");
    let shown = world.json(&["event", "show", "e-1"]);
    assert_eq!(shown["aggregate_id"], "7");
    assert_eq!(shown["tenant"], "acme");
    assert_eq!(shown["headers"]["traceparent"], "00-1");
    assert_eq!(shown["attributes"]["station_id"], "9");
    assert_eq!(shown["available_at"], "2030-01-02T03:04:05Z");
    assert!(shown.get("payload").is_none(), "only when asked for");
}

#[test]
fn lines_are_one_transaction_and_one_id_a_line() {
    let world = World::new();
    let lines = "{\"type\":\"order.placed\",\"key\":\"o-1\",\"payload\":{\"n\": 1},\"id\":\"a\"}\n\n{\"type\":\"order.paid\",\"key\":\"o-1\",\"id\":\"b\"}\n";
    let said = world.feed(&["event", "append", "-"], lines);
    assert_eq!((said.code, said.stdout.as_str()), (0, "a\nb\n"), "{}", said.stderr);
    let positions: Vec<i64> =
        world.json(&["event", "ls"]).as_array().unwrap().iter().map(|e| e["position"].as_i64().unwrap()).collect();
    assert!(positions.len() == 2 && positions[0] > positions[1], "newest first: {positions:?}");
}

#[test]
fn a_payload_may_come_from_stdin() {
    let world = World::new();
    let said = world.feed(&["event", "append", "--type", "t", "--id", "x", "--payload", "-"], "{\"n\": 1}\n");
    assert_eq!(said.code, 0, "{}", said.stderr);
    assert_eq!(world.json(&["event", "show", "x"])["payload_bytes"], 8);
}

#[test]
fn a_dry_run_checks_and_appends_nothing() {
    let world = World::new();
    let said = world.run(&["event", "append", "--type", "t", "--dry-run"]);
    assert_eq!((said.code, said.stdout.as_str()), (0, ""));
    assert_eq!(world.events(), 0);
}

#[test]
fn bad_input_is_refused_with_2_and_nothing_is_appended() {
    let world = World::new();
    let long_key = "k".repeat(513);
    let cases: &[(&str, &[&str])] = &[
        ("empty type", &["event", "append", "--type", ""]),
        ("no type", &["event", "append"]),
        ("payload is not JSON", &["event", "append", "--type", "t", "--payload", "{nope"]),
        ("key over the limit", &["event", "append", "--type", "t", "--key", &long_key]),
        ("header without a value", &["event", "append", "--type", "t", "--header", "x"]),
        ("no time", &["event", "append", "--type", "t", "--available-at", "soon"]),
        ("lines and options", &["event", "append", "-", "--type", "t"]),
    ];
    let mut all = String::new();
    for (name, args) in cases {
        let said = world.run(args);
        assert_eq!(said.code, 2, "{name}: {}", said.stderr);
        all.push_str(&format!("## {name}\n{}\n", world.snapshot(&said)));
    }
    insta::assert_snapshot!(all);
    assert_eq!(world.events(), 0);
}

#[test]
fn a_bad_line_is_named_and_nothing_of_the_input_is_appended() {
    let world = World::new();
    let large = format!("{{\"type\":\"t\",\"payload\":\"{}\"}}", "x".repeat(1024 * 1024));
    let mut all = String::new();
    for (name, bad) in [
        ("not JSON", "nonsense canary"),
        ("unknown field", "{\"type\":\"t\",\"colour\":\"red\"}"),
        ("missing type", "{\"key\":\"k\"}"),
        ("over the limit", large.as_str()),
        ("not an object", "\"canary\""),
    ] {
        let said = world.feed(&["event", "append", "-"], &format!("{{\"type\":\"good\"}}\n{bad}\n"));
        assert_eq!(said.code, 2, "{name}: {}", said.stderr);
        assert!(!said.stderr.contains("canary"), "{name}: a payload reached the error");
        all.push_str(&format!("## {name}\n{}\n", world.snapshot(&said)));
    }
    insta::assert_snapshot!(all);
    assert_eq!(world.events(), 0);
}
