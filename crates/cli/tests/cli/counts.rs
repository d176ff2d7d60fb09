//! Numbers that decide whether events are given up: what is not known is never nothing.

#![allow(clippy::unwrap_used, reason = "what does not come fails the test")]

use std::fmt::Write as _;

use crate::world::World;

/// A route whose only event stands behind more events of others than are counted one by one.
fn rare_behind_many() -> World {
    let world = World::bare();
    let config = |routes: &[(&str, &str)]| {
        let of = |(name, pattern): &(&str, &str)| {
            format!(
                "[[route]]\nname = \"{name}\"\nmatch = [\"{pattern}\"]\nto = {{ file = {{ folder = \"{name}\" }} }}\n"
            )
        };
        format!(
            "name = \"test\"\n[store.main]\nurl = \"sqlite://shop.db\"\n{}",
            routes.iter().map(of).collect::<String>()
        )
    };
    world.write("postroom.toml", &config(&[("rare", "rare.*"), ("orders", "order.*")]));
    world.ok(&["store", "migrate", "up"]);
    let mut events = String::new();
    for n in 0..12_000 {
        let _ = writeln!(events, r#"{{"type": "order.placed", "key": "k-{}", "payload": {{}}}}"#, n % 100);
    }
    events.push_str(r#"{"type": "rare.x", "key": "r", "payload": {}}"#);
    assert_eq!(world.feed(&["event", "append", "-"], &events).code, 0);
    world.write("renamed.toml", &config(&[("seldom", "rare.*"), ("orders", "order.*")]));
    world
}

#[test]
fn an_event_behind_many_of_others_is_due_and_is_not_given_up_as_nothing() {
    let world = rare_behind_many();
    let status = world.json(&["status"]);
    let rare = status["routes"].as_array().unwrap().iter().find(|route| route["route"] == "rare").unwrap();
    assert_eq!((&rare["due"], &rare["due_estimated"]), (&1.into(), &false.into()), "{rare}");
    assert!(rare["oldest_due_seconds"].as_f64() > Some(0.0), "{rare}");
    let check = world.run(&["check", "--route", "rare", "--warn", "1ms", "--crit", "1h"]);
    assert!(check.code == 1 && check.stdout.contains("rare orphan due for "), "{}", check.stdout);
    assert_eq!(world.json(&["delivery", "ls", "--route", "rare"])[0]["type"], "rare.x");
    assert!(world.ok(&["route", "forget", "rare", "--dry-run"]).contains("1 due"));
    let renamed = ["--config", "renamed.toml"];
    for command in [&["relay", "run", "--drain"][..], &["store", "migrate", "up"]] {
        let said = world.run(&[command, &renamed].concat());
        assert_eq!(said.code, 4, "{}", said.stderr);
        assert!(
            said.stderr.contains("looks like route rare renamed") && said.stderr.contains("(1 due)"),
            "{}",
            said.stderr
        );
    }
    let doctor = world.run(&[&["doctor"][..], &renamed].concat());
    assert!(
        doctor.stdout.contains("route rare has undelivered events (1 due)") && !doctor.stdout.contains("loses nothing"),
        "{}",
        doctor.stdout
    );
}

#[test]
fn a_renamed_route_is_refused_while_a_replay_of_it_is_not_finished() {
    let world = World::bare();
    let config = |route: &str| {
        let route = format!("[[route]]\nname = \"{route}\"\nto = {{ file = {{ folder = \"out\" }} }}\n");
        world.write("postroom.toml", &format!("name = \"test\"\n[store.main]\nurl = \"sqlite://shop.db\"\n{route}"));
    };
    config("mailer");
    std::fs::create_dir(world.path("out")).unwrap();
    world.ok(&["store", "migrate", "up"]);
    world.append("e-1", "order.placed", "k");
    world.ok(&["relay", "run", "--drain"]);
    world.ok(&["replay", "--all", "--yes"]);
    world.ok(&["relay", "run", "--drain"]);
    world.sql("update postroom_replay set state = 'paused', ended_at = null");
    config("mails");
    let said = world.run(&["relay", "run", "--drain"]);
    assert!(said.code == 4 && said.stderr.contains("(1 unfinished replay)"), "{}", said.stderr);
}

#[test]
fn a_route_with_many_undelivered_events_is_forgotten_only_with_their_number() {
    let world = rare_behind_many();
    let shown: serde_json::Value =
        serde_json::from_str(&world.ok(&["route", "forget", "orders", "--dry-run", "-o", "json"])).unwrap();
    let lost = shown["lost"].as_u64().unwrap();
    assert!(lost > 10_000 && shown["lost_estimated"] == true, "{shown}");
    let refused = world.run(&["route", "forget", "orders", "--yes"]);
    assert!(refused.code == 4 && refused.stderr.contains(&format!("--confirm {lost}")), "{}", refused.stderr);
    assert_eq!(world.run(&["route", "forget", "orders", "--confirm", "7"]).code, 4);
    world.ok(&["route", "forget", "orders", "--confirm", &lost.to_string()]);
    world.ok(&["route", "forget", "rare", "--yes"]);
    let audit = world.json(&["audit"]);
    let counts: Vec<_> =
        audit.as_array().unwrap().iter().map(|action| (&action["subject"], &action["count"])).collect();
    assert_eq!(counts[..2], [(&"rare".into(), &1.into()), (&"orders".into(), &lost.into())]);
}
