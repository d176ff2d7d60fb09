//! A log that nobody takes: it costs lines, which are counted, and no delivery. H-42

#![allow(clippy::unwrap_used, reason = "what is not as documented fails the test")]

use std::fs::OpenOptions;
use std::io::Read;
use std::process::Stdio;

use nix::sys::signal::Signal;

use crate::http::{free, until};
use crate::world::{Running, World};

/// A line for each of so many events is more than a pipe holds.
const SOME: usize = 1000;
/// A line for each of so many is more than may wait besides.
const MANY: usize = 6000;

/// A child that refuses everything for good, quickly.
const REFUSER: &str = r#"s/^{"id":"\([^"]*\)".*/{"id":"\1","error":"no","permanent":true}/"#;

fn appended(events: usize) -> World {
    let world = World::bare();
    world.write("refuser.sed", REFUSER);
    // A destination that refuses everything would be asked slowly.
    world.write(
        "postroom.toml",
        "name = \"test\"\n[store.main]\nurl = \"sqlite://shop.db\"\n[[route]]\nname = \"out\"\n\
         breaker = { counts = \"all\", failures = 1000000 }\n\
         to = { exec = { command = [\"sed\", \"-u\", \"-f\", \"refuser.sed\"] } }\n",
    );
    world.ok(&["store", "migrate", "up"]);
    let lines: String = (0..events).map(|n| format!("{{\"type\":\"order.placed\",\"key\":\"o-{n}\"}}\n")).collect();
    assert_eq!(world.feed(&["event", "append", "-"], &lines).code, 0);
    world
}

/// A relay that has something to say of every event, and the address where it answers.
fn talkative(world: &World, stderr: Stdio) -> (Running, String) {
    let address = free();
    let mut command = world.command(&["relay", "run", "--listen", &address]);
    command.stderr(stderr);
    (Running::start(command), address)
}

/// Waits until everything is tried and lines are missing; how many.
fn tried_without_a_log(address: &str, events: usize) -> u64 {
    let dropped = |body: &str| {
        let line = body.lines().find_map(|line| line.strip_prefix("postroom_log_lines_dropped_total "));
        line.map_or(0, |count| count.parse::<u64>().unwrap())
    };
    let tried = format!("result=\"dead\"}} {events}\n");
    let told = until(address, "/metrics", "going on and counting", |answer| {
        answer.body.contains(&tried) && dropped(&answer.body) > 0
    });
    dropped(&told.body)
}

#[test]
fn a_relay_whose_log_nobody_reads_goes_on_and_says_later_what_is_missing() {
    let world = appended(MANY);
    let (mut reader, writer) = std::io::pipe().unwrap();
    let (relay, address) = talkative(&world, writer.into());
    let dropped = tried_without_a_log(&address, MANY);
    // Now somebody reads.
    let reading = std::thread::spawn(move || {
        let mut text = String::new();
        reader.read_to_string(&mut text).unwrap();
        text
    });
    relay.signal(Signal::SIGTERM);
    assert_eq!(relay.end().0, Some(0));
    let text = reading.join().unwrap();
    let lines = text.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    let told = lines.filter(|line| line["message"] == "log lines dropped: they could not be written");
    let missing: u64 = told.map(|line| line["lines"].as_u64().unwrap()).sum();
    assert!(missing >= dropped, "{missing} told, {dropped} counted before");
}

#[test]
fn a_relay_whose_log_cannot_be_written_goes_on_and_ends_with_0() {
    let world = appended(SOME);
    let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
    let (relay, address) = talkative(&world, full.into());
    tried_without_a_log(&address, SOME);
    relay.signal(Signal::SIGTERM);
    assert_eq!(relay.end().0, Some(0));
}

#[test]
fn a_relay_that_nobody_listens_to_ends_when_told() {
    let world = appended(SOME);
    let (reader, writer) = std::io::pipe().unwrap();
    let (relay, address) = talkative(&world, writer.into());
    let tried = format!("result=\"dead\"}} {SOME}\n");
    until(&address, "/metrics", "going on", |answer| answer.body.contains(&tried));
    relay.signal(Signal::SIGTERM);
    assert_eq!(relay.end().0, Some(0));
    drop(reader);
}
