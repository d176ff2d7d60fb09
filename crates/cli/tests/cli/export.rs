//! `event export`: whole events on their way to somewhere else.

#![allow(clippy::unwrap_used, reason = "what cannot be made or run fails the test")]

use std::os::unix::fs::PermissionsExt;

use nix::sys::signal::Signal;
use serde_json::Value;

use crate::world::{Running, World};

/// More events than one page has, every seventh of another type.
fn full() -> World {
    let world = World::new();
    let event = |n: usize| {
        let kind = if n.is_multiple_of(7) { "card.paid" } else { "order.placed" };
        format!(
            r#"{{"type":"{kind}","id":"e-{n}","key":"k-{n}","headers":{{"h":"{n}"}},"payload":{{"n":{n},"card":"4111"}}}}"#
        ) + "\n"
    };
    let lines: String = (1..=1203).map(event).collect();
    assert_eq!(world.feed(&["event", "append", "-"], &lines).code, 0);
    world
}

fn lines(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn every_event_comes_once_and_oldest_first() {
    let world = full();
    let said = world.run(&["event", "export"]);
    assert_eq!((said.code, said.stderr.as_str()), (0, "wrote 1203 events, up to position 1203\n"));
    let ids: Vec<String> = lines(&said.stdout).iter().map(|event| event["id"].as_str().unwrap().to_owned()).collect();
    assert_eq!(ids, (1..=1203).map(|n| format!("e-{n}")).collect::<Vec<_>>());
    assert!(lines(&said.stdout)[0].get("headers").is_none(), "only what a list has");
    let array = world.json(&["event", "export", "--type", "card.*"]);
    assert_eq!(array.as_array().unwrap().len(), 171);
    let some = lines(&world.ok(&["event", "export", "--after", "700", "--limit", "502"]));
    assert_eq!((&some[0]["position"], &some[501]["position"], some.len()), (&701.into(), &1202.into(), 502));
    assert_eq!(world.json(&["event", "export", "--after", "1203"]), Value::Array(Vec::new()));
    assert_eq!(world.ok(&["event", "export", "--dry-run"]), "would write 1203 events, up to position 1203\n");
}

#[test]
fn payloads_come_only_when_asked_for_and_without_what_nobody_is_shown() {
    let world = full();
    let config = std::fs::read_to_string(world.path("postroom.toml")).unwrap();
    world.write("postroom.toml", &format!("{config}\n[http.redact]\n\"card.*\" = [\"$.card\"]\n"));
    let export = |more: &[&str]| {
        let mut args = vec!["event", "export", "--after", "5", "--limit", "2"];
        args.extend(more);
        lines(&world.ok(&args))
    };
    let headers = export(&["--headers"]);
    assert_eq!((&headers[0]["headers"]["h"], headers[0].get("payload")), (&"6".into(), None));
    assert_eq!(headers[0]["correlation_id"], "e-6");
    let payload = export(&["--payload"]);
    assert_eq!(payload[0]["payload"], serde_json::json!({ "n": 6, "card": "4111" }));
    assert_eq!(payload[1]["payload"], serde_json::json!({ "n": 7, "card": "[redacted]" }));
    assert_eq!(export(&["--payload", "--unredacted"])[1]["payload"]["card"], "4111");
    assert_eq!(world.run(&["event", "export", "--unredacted"]).code, 2);
}

#[test]
fn a_file_is_whole_for_its_owner_only_and_never_replaced_unasked() {
    let world = full();
    let export = ["event", "export", "--payload", "--limit", "600", "--file", "out.jsonl"];
    assert_eq!(world.ok(&export), "wrote 600 events to out.jsonl, up to position 600\n");
    let file = world.path("out.jsonl");
    assert_eq!(lines(&std::fs::read_to_string(&file).unwrap()).len(), 600);
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    let again = world.run(&export);
    assert_eq!(again.code, 4, "{}", again.stderr);
    world.ok(&["event", "export", "--limit", "3", "--file", "out.jsonl", "--overwrite"]);
    assert_eq!(lines(&std::fs::read_to_string(&file).unwrap()).len(), 3);
    let nowhere = world.run(&["event", "export", "--file", "no/such/folder.jsonl"]);
    assert_eq!(nowhere.code, 2, "{}", nowhere.stderr);
}

#[test]
fn events_with_the_same_id_have_their_own_payloads() {
    let world = World::new();
    for payload in ["1", "2"] {
        world.ok(&["event", "append", "--id", "twice", "--type", "order.placed", "--payload", payload]);
    }
    let payloads: Vec<Value> =
        lines(&world.ok(&["event", "export", "--payload"])).iter().map(|event| event["payload"].clone()).collect();
    assert_eq!(payloads, [1, 2]);
}

#[test]
fn an_interrupted_export_keeps_what_it_wrote_and_says_how_to_get_the_rest() {
    let world = World::new();
    let line = |n: usize| format!("{{\"type\":\"order.placed\",\"payload\":\"{}\"}}\n", "x".repeat(n % 7 + 10_000));
    let many: String = (0..2000).map(line).collect();
    assert_eq!(world.feed(&["event", "append", "-"], &many).code, 0);
    // More than a pipe holds: nobody reads on before the signal, so it comes in the middle.
    let mut export = Running::start(world.command(&["event", "export", "--payload"]));
    let first = export.wait_for("\"position\":1,");
    export.signal(Signal::SIGINT);
    let (code, rest) = export.end();
    let events = lines(&format!("{first}{rest}"));
    assert_eq!(code, Some(5));
    let last = events.last().unwrap()["position"].as_u64().unwrap();
    assert!(last < 2000 && events.len() as u64 == last, "{last}");
    let rest = lines(&world.ok(&["event", "export", "--payload", "--after", &last.to_string()]));
    assert_eq!((&rest[0]["position"], rest.len() as u64), (&(last + 1).into(), 2000 - last));
}
