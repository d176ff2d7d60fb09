//! Producers whose ids and types are meant for the terminal of an operator, or for the shell behind it.

#![allow(clippy::unwrap_used, reason = "what cannot be run fails the test")]

use std::process::Command;

use crate::world::World;

#[test]
fn a_pasted_hint_runs_nothing_but_the_command() {
    let world = World::new();
    let id = "o-7;touch${IFS}PWN;'`touch PWN`";
    world.append(id, "order.bad", "order-7");
    world.ok(&["relay", "run", "--drain"]);
    let shown = world.ok(&["event", "show", id]);
    let hint = shown.split("postroom dead replay ").nth(1).unwrap().lines().next().unwrap();
    let program = env!("CARGO_BIN_EXE_postroom");
    let pasted = format!("{program} dead replay {hint} --dry-run -o json");
    let mut shell = Command::new("sh");
    let output = shell.args(["-c", &pasted]).current_dir(world.folder()).env_clear().output().unwrap();
    assert!(!world.path("PWN").exists(), "{pasted}");
    let affected: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(affected["deliveries"], 1, "{pasted}: {}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn a_terminal_gets_no_control_and_no_bidi_in_json_or_tables() {
    let world = World::new();
    let header = "{\"x\":\"\u{9b}31m \u{202e}gnp.exe \u{200b}\"}";
    world.ok(&["event", "append", "--type", "order.\u{202e}placed", "--id", "e-1", "--payload", header]);
    for line in ["event ls", "event show e-1 --payload", "event show e-1 --payload -o json", "event ls -o jsonl"] {
        let shown = world.at_terminal(120, &format!("postroom {line}"));
        assert!(shown.contains("placed"), "{line}: {shown}");
        assert!(!shown.contains(['\u{9b}', '\u{202e}', '\u{200b}']), "{line}: {shown:?}");
    }
    // A program behind a pipe gets the characters as they are.
    let piped = world.ok(&["event", "show", "e-1", "--payload", "-o", "json"]);
    assert!(piped.contains('\u{202e}'), "{piped}");
}

#[test]
fn payloads_are_shown_redacted_unless_all_of_it_is_asked_for() {
    let world = World::new();
    let text = std::fs::read_to_string(world.path("postroom.toml")).unwrap();
    world.write("postroom.toml", &format!("{text}\n[http.redact]\n\"order.*\" = [\"$.card\"]\n"));
    world.ok(&["event", "append", "--type", "order.placed", "--id", "e-1", "--payload", r#"{"card":"4111","n":1}"#]);
    let shown = world.ok(&["event", "show", "e-1", "--payload"]);
    assert!(shown.contains("[redacted]") && !shown.contains("4111"), "{shown}");
    assert!(!world.ok(&["event", "show", "e-1", "--payload", "-o", "json"]).contains("4111"));
    assert!(world.ok(&["event", "show", "e-1", "--payload", "--unredacted"]).contains("4111"));
}

#[test]
fn a_reader_of_payloads_is_in_the_audit_log() {
    let world = World::new();
    let text = std::fs::read_to_string(world.path("postroom.toml")).unwrap();
    world.write("postroom.toml", &format!("{text}\n[http.redact]\n\"order.*\" = [\"$.card\"]\n"));
    world.ok(&["event", "append", "--type", "order.bad", "--id", "event-1", "--payload", r#"{"card":"4111","n":1}"#]);
    world.ok(&["relay", "run", "--drain"]);
    // The control: without a payload nobody needs to know.
    world.ok(&["event", "show", "event-1"]);
    world.ok(&["event", "export"]);
    assert_eq!(world.json(&["audit"]), serde_json::json!([]));
    for args in [
        &["event", "show", "event-1", "--payload"][..],
        &["dead", "show", "event-1", "--payload", "-o", "json"],
        &["event", "export", "--type", "order.*", "--payload"],
    ] {
        let shown = world.ok(args);
        assert!(shown.contains("[redacted]") && !shown.contains("4111"), "{args:?}: {shown}");
    }
    world.ok(&["dead", "compare", "--payload"]);
    let token = world.ok(&["token", "create", "ann", "--role", "operator"]).trim().to_owned();
    let address = crate::http::free();
    let relay = crate::http::relay(&world, &["--listen", &address], &[]);
    let bearer = format!("authorization: Bearer {token}");
    crate::http::until(&address, "/readyz", "ready", |answer| answer.status == 200);
    let shown = crate::http::ask(&address, "/api/v1/events/event-1?payload=true", &[&bearer]).unwrap();
    assert!(shown.status == 200 && shown.body.contains("[redacted]"), "{}", shown.body);
    relay.signal(nix::sys::signal::Signal::SIGTERM);
    assert_eq!(relay.end().0, Some(0));
    let audit = world.json(&["audit"]);
    let mut found: Vec<String> = audit
        .as_array()
        .unwrap()
        .iter()
        .map(|row| format!("{} {}", row["action"].as_str().unwrap(), row["subject"].as_str().unwrap()))
        .filter(|line| line.starts_with("payload."))
        .collect();
    found.sort();
    let expected = [
        "payload.compare {}",
        "payload.export {\"type\":\"order.*\"}",
        "payload.show event-1",
        "payload.show event-1",
        "payload.show event-1",
    ];
    assert_eq!(found, expected, "{audit}");
    assert!(audit.as_array().unwrap().iter().any(|row| row["actor"] == "token ann"), "{audit}");
}
