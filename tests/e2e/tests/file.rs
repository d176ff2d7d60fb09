//! A folder of files as a destination: what is delivered stands there in whole lines, whatever happens to relay and disk.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "what cannot be read or started fails the test")]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use postroom_e2e::{Answer, Producer, Reception, Relays, Terms, World, scale, until};
use postroom_testbed::{Database, Servers};
use serde_json::Value;

const IN_FLIGHT_MAX: usize = 16;
const TERMS: Terms<'_> = Terms { routes: &["archive"], in_flight_max: IN_FLIGHT_MAX };

fn world(url: &str, rotate_size: &str) -> World {
    let world = World::new(env!("CARGO_BIN_EXE_e2e-child"));
    fs::create_dir(world.path("out")).unwrap();
    world.configure(&format!(
        "[store.main]\nurl = \"{url}\"\n[relay]\nlease = \"1s\"\nin_flight_max = {IN_FLIGHT_MAX}\n[retry]\nbase = \"50ms\"\n\
         [[route]]\nname = \"archive\"\nto = {{ file = {{ folder = \"out\", rotate_size = \"{rotate_size}\" }} }}\n"
    ));
    world.ok(&["store", "migrate", "up"]);
    world
}

/// Files in the folder by age.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

fn bytes(folder: &Path) -> u64 {
    files(folder).iter().map(|file| fs::metadata(file).map_or(0, |data| data.len())).sum()
}

/// The lines of all files, which must be complete: none is being written, and none holds half a line.
fn lines(folder: &Path) -> Vec<Value> {
    let mut lines = Vec::new();
    for file in files(folder) {
        assert!(file.extension().is_some_and(|end| end == "jsonl"), "{} is not complete", file.display());
        let text = fs::read_to_string(&file).unwrap();
        assert!(text.ends_with('\n'), "{} ends in the middle of a line", file.display());
        lines.extend(text.lines().map(|line| serde_json::from_str::<Value>(line).expect("a whole line")));
    }
    lines
}

fn reception(line: &Value) -> Reception {
    let text = |value: &Value| value.as_str().expect("a text").to_owned();
    Reception {
        relay: 0,
        route: "archive".to_owned(),
        id: text(&line["id"]),
        key: text(&line["data"]["key"]),
        number: line["data"]["number"].as_u64().expect("a number"),
        attempt: 1,
        answer: Answer::Ok,
    }
}

#[test]
fn relays_that_are_killed_while_they_write_leave_whole_lines_and_lose_nothing() {
    let kills = 10 * scale();
    let world = world("sqlite://shop.db", "4KiB");
    let out = world.path("out");
    let producer = Producer::start(world.path("shop.db"), Duration::from_millis(3));
    // One at a time: so the names of the files tell their order.
    let mut relays = Relays::start(&world, 1);
    for _ in 0..kills {
        let then = bytes(&out) + fastrand::u64(1..12_000);
        until("the relay writes", || bytes(&out) >= then);
        relays.kill(0);
    }
    let ledger = producer.stop();
    // A file does not say which process wrote it.
    let faults = BTreeMap::from([(0, relays.stop().values().sum())]);
    Terms::settle(&world);
    let receptions: Vec<Reception> = lines(&out).iter().map(reception).collect();
    let findings = TERMS.check(&ledger, &receptions, &faults);
    println!("{} events in {} files, {kills} kills, {findings}", ledger.committed.len(), files(&out).len());
}

#[test]
fn a_write_that_fails_half_way_is_taken_back_and_done_again_elsewhere() {
    const EVENTS: usize = 2_000;
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let database = runtime.block_on(Database::create(&Servers::find()));
    let world = world(&database.url(), "64MiB");
    world.append(EVENTS);
    // No file of this process may be larger than 40 KiB: the write that would make it so is cut short, and the next one fails.
    let relay = world.command(&["relay", "run", "--drain"]);
    let limited = "trap '' XFSZ; ulimit -f 40; exec \"$@\"";
    let mut command = Command::new("bash");
    command.args(["-c", limited, "bash"]).arg(relay.get_program()).args(relay.get_args());
    command
        .current_dir(world.path(""))
        .env_clear()
        .envs(relay.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let ended = command.stdin(Stdio::null()).output().unwrap();
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));

    let out = world.path("out");
    let (lines, files) = (lines(&out), files(&out));
    assert!(files.len() > 3, "the limit was never met: {files:?}");
    assert!(files.iter().all(|file| fs::metadata(file).unwrap().len() <= 40 * 1024));
    let mut ids: Vec<&str> = lines.iter().map(|line| line["id"].as_str().unwrap()).collect();
    assert_eq!(ids.len(), EVENTS, "what was taken back is there once, like everything else");
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), EVENTS);
    let mut last: BTreeMap<&str, u64> = BTreeMap::new();
    for line in &lines {
        let (key, number) = (line["partitionkey"].as_str().expect("a key"), line["data"]["number"].as_u64().unwrap());
        assert!(last.insert(key, number).is_none_or(|before| before < number), "{key}: {number} came late");
    }
    assert_eq!(world.json(&["dead", "ls"]), serde_json::json!([]), "no event is to blame for a disk");
    let verified = world.run(&["verify"]);
    assert_eq!(verified.code, 0, "{}{}", verified.stdout, verified.stderr);
}
