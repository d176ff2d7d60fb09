//! `relay run` as a process: it delivers, it logs without payloads, it stops when told.

use std::fs;
use std::process::{Command, Stdio};

use crate::world::{Running, World};
use nix::sys::signal::Signal;

fn to_stdout() -> World {
    let world = World::bare();
    world.write(
        "postroom.toml",
        "name = \"test\"\n[store.main]\nurl = \"sqlite://shop.db\"\n[[route]]\nname = \"out\"\nto = { stdout = {} }\n",
    );
    world.ok(&["store", "migrate", "up"]);
    world
}

#[test]
fn a_drained_relay_has_delivered_everything_and_ends_with_0() {
    let world = World::new();
    world.append("a", "order.placed", "o-1");
    let said = world.run(&["relay", "run", "--drain"]);
    assert_eq!((said.code, said.stdout.as_str()), (0, ""), "{}", said.stderr);
    assert_eq!(world.json(&["route", "show", "mailer"])["delivered"], 1);
}

#[test]
fn a_dead_letter_is_one_log_line_with_fields_and_without_the_payload() {
    let world = World::new();
    let args = ["event", "append", "--id", "b", "--type", "order.bad", "--key", "o-2", "--tenant", "acme"];
    world.ok(&[&args[..], &["--payload", "{\"card\":\"canary\"}"]].concat());
    let said = world.run(&["relay", "run", "--drain"]);
    assert_eq!(said.code, 0);
    assert!(!said.stderr.contains("canary"), "a payload was logged");
    let lines: Vec<serde_json::Value> = said.stderr.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    let dead: Vec<_> = lines.iter().filter(|l| l["event_id"] == "b").collect();
    assert_eq!(dead.len(), 1, "{}", said.stderr);
    for field in ["event_type", "tenant", "route", "attempt", "code"] {
        assert!(dead[0].get(field).is_some(), "no {field}: {}", dead[0]);
    }
}

#[test]
fn the_first_signal_stops_it_in_good_order() {
    for signal in [Signal::SIGINT, Signal::SIGTERM] {
        let world = to_stdout();
        let mut relay = Running::start({
            let mut command = world.command(&["relay", "run"]);
            command.stderr(Stdio::null());
            command
        });
        world.append("a", "order.placed", "o-1");
        relay.wait_for("\"order.placed\"");
        relay.signal(signal);
        assert_eq!(relay.end(), (Some(0), String::new()));
        let out = &world.json(&["route", "show", "out"]);
        assert_eq!((&out["delivered"], &out["lanes"][0]["holder"]), (&1.into(), &serde_json::Value::Null));
    }
}

#[test]
fn what_a_live_relay_serves_cannot_be_redefined_or_forgotten() {
    let world = to_stdout();
    let mut command = world.command(&["relay", "run"]);
    command.stderr(Stdio::null());
    let mut relay = Running::start(command);
    world.append("a", "order.placed", "o-1");
    relay.wait_for("\"order.placed\"");
    let config = fs::read_to_string(world.path("postroom.toml")).unwrap();
    world.write("other.toml", &config.replace("name = \"out\"", "name = \"out\"\nmatch = [\"invoice.*\"]"));
    let other = world.run(&["relay", "run", "--drain", "--config", "other.toml"]);
    assert_eq!(other.code, 4, "{}", other.stderr);
    assert!(other.stderr.contains("hint: "), "{}", other.stderr);
    let forget = world.run(&["route", "forget", "out", "--yes"]);
    assert_eq!((forget.code, forget.stdout.as_str()), (4, ""), "{}", forget.stderr);
    assert_eq!(world.json(&["route", "show", "out"])["state"], "running");
    relay.signal(Signal::SIGTERM);
    assert_eq!(relay.end().0, Some(0));
}

#[test]
fn a_second_signal_ends_it_at_once() {
    let world = World::bare();
    // A child that takes an event, says so through a pipe, and never answers: a graceful stop would wait for it.
    world.write("deaf.sh", "read -r line; echo took it > took; cat > /dev/null\n");
    world.write(
        "postroom.toml",
        "name = \"test\"\n[store.main]\nurl = \"sqlite://shop.db\"\n\
         [[route]]\nname = \"deaf\"\nto = { exec = { command = [\"sh\", \"deaf.sh\"] } }\n",
    );
    world.ok(&["store", "migrate", "up"]);
    world.append("a", "order.placed", "o-1");
    assert!(Command::new("mkfifo").arg(world.path("took")).status().unwrap().success());
    for (signal, code) in [(Signal::SIGINT, 130), (Signal::SIGTERM, 143)] {
        // The lane of the one that ended at once is free when its lease is over.
        let mut command = world.command(&["relay", "run"]);
        command.env("POSTROOM_RELAY__LEASE", "1s").stderr(Stdio::null());
        let mut relay = Running::start(command);
        assert_eq!(fs::read_to_string(world.path("took")).unwrap(), "took it\n");
        // Two of a kind sent in one breath may arrive as one, so they are sent until it has ended.
        assert_eq!(relay.signal_until_end(signal), Some(code));
    }
}
