//! `relay run` as a process: it delivers, it logs without payloads, it stops when told.

#![allow(clippy::unwrap_used, clippy::panic, reason = "what does not come fails the test")]

use std::fs;
use std::os::unix::net::UnixDatagram;
use std::process::{Command, Stdio};
use std::time::Duration;

use nix::sys::signal::Signal;

use crate::world::{Running, World};

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
    for field in ["event_type", "tenant_id", "route", "attempt", "code"] {
        assert!(dead[0].get(field).is_some(), "no {field}: {}", dead[0]);
    }
}

#[test]
fn every_failed_try_is_one_log_line_with_fields_and_without_the_payload() {
    let world = World::bare();
    world.write("down.sh", "while read -r line; do echo '{\"id\":\"t\",\"error\":\"canary is down\"}'; done\n");
    world.write(
        "postroom.toml",
        "name = \"test\"\n[store.main]\nurl = \"sqlite://shop.db\"\n[retry]\nbase = \"1ms\"\nattempts = 2\n\
         [[route]]\nname = \"down\"\nto = { exec = { command = [\"sh\", \"down.sh\"] } }\n",
    );
    world.ok(&["store", "migrate", "up"]);
    let args = ["event", "append", "--id", "t", "--type", "order.placed", "--key", "o-2", "--tenant", "acme"];
    world.ok(&[&args[..], &["--payload", "{\"card\":\"canary\"}"]].concat());
    let said = world.run(&["relay", "run", "--drain"]);
    assert_eq!(said.code, 0);
    assert!(!said.stderr.contains("canary"), "a payload, or what quotes it, was logged");
    let lines = said.stderr.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    let tries: Vec<_> = lines.filter(|line| line["event_id"] == "t").collect();
    assert_eq!(tries.len(), 2, "{}", said.stderr);
    for (n, line) in tries.iter().enumerate() {
        let told = ["tenant_id", "route", "store", "code"].map(|field| line[field].as_str().unwrap_or_default());
        assert_eq!((told, &line["attempt"]), (["acme", "down", "main", "exec.error"], &(n + 1).into()), "{line}");
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

/// The next message to a supervisor that begins like this.
fn told(supervisor: &UnixDatagram, begin: &str) -> String {
    let mut message = [0; 4096];
    loop {
        let length = supervisor.recv(&mut message).unwrap_or_else(|error| panic!("no {begin}: {error}"));
        let text = std::str::from_utf8(&message[..length]).unwrap();
        if text.starts_with(begin) {
            return text.to_owned();
        }
    }
}

#[test]
fn a_supervisor_hears_that_it_is_ready_that_it_lives_how_its_routes_are_and_that_it_stops() {
    let world = to_stdout();
    let config = fs::read_to_string(world.path("postroom.toml")).unwrap();
    let away = "[[route]]\nname = \"away\"\nto = { exec = { socket = \"nobody\" } }\n";
    world.write("postroom.toml", &(config + away));
    let supervisor = UnixDatagram::bind(world.path("notify")).unwrap();
    supervisor.set_read_timeout(Some(Duration::from_mins(1))).unwrap();
    let mut command = world.command(&["relay", "run"]);
    // A quarter of this is the pause between two feeds; the test waits for messages, whenever they come.
    command.env("NOTIFY_SOCKET", world.path("notify")).env("WATCHDOG_USEC", "2000000").stderr(Stdio::null());
    let relay = Running::start(command);
    assert!(told(&supervisor, "READY=1\n").contains("STATUS=routes 2: "));
    told(&supervisor, "WATCHDOG=1\n");
    told(&supervisor, "WATCHDOG=1\n");
    world.append("a", "order.placed", "o-1");
    told(&supervisor, "STATUS=routes 2: 1 running, 1 breaker_open\n");
    relay.signal(Signal::SIGTERM);
    told(&supervisor, "STOPPING=1\n");
    assert_eq!(relay.end().0, Some(0));
}

#[test]
fn a_supervisor_that_does_not_listen_changes_nothing() {
    let world = World::new();
    world.append("a", "order.placed", "o-1");
    let mut command = world.command(&["relay", "run", "--drain"]);
    let output = command.env("NOTIFY_SOCKET", world.path("nobody")).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(world.json(&["route", "show", "mailer"])["delivered"], 1);
}

#[test]
fn a_relay_at_a_terminal_says_where_routes_go_and_what_it_did() {
    let world = World::new();
    world.append("a", "order.placed", "o-1");
    world.append("b", "order.bad", "o-2");
    let shown = world.at_terminal(120, "postroom relay run --drain");
    let lines: Vec<&str> = shown.lines().collect();
    assert_eq!(lines[0], "relay test delivers mailer → exec sh mailer.sh, held → exec sh mailer.sh", "{shown}");
    assert_eq!(lines[1], "Ctrl-C stops it", "{shown}");
    assert_eq!(lines.last(), Some(&"stopped: 1 delivered, 0 retried, 1 dead"), "{shown}");
    let logged = lines.iter().find(|line| line.contains("INFO")).unwrap();
    let clock: Vec<&str> = logged.split(' ').next().unwrap().split(':').collect();
    assert!(clock.len() == 3 && clock.iter().all(|part| part.len() == 2), "a clock without fractions: {logged}");
    let said = World::new().run(&["relay", "run", "--drain"]);
    assert!(said.stderr.lines().all(|line| line.starts_with('{')), "only the log: {}", said.stderr);
}
