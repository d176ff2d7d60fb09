//! What people see at a terminal: tables that fit it, ages, and the help in groups.

#![allow(clippy::unwrap_used, reason = "what cannot be made or run fails the test")]

use crate::world::{Running, World};

const ID: &str = "0199a3f2-7c1e-7d3a-9b58-6f2f0f6f1c11";

fn world() -> World {
    let world = World::new();
    world.append(ID, "order.confirmation.bad", "customer-4711-order-000000017");
    world.append("held-bad", "held.bad", "h-1");
    world.append("held-good", "held.good", "h-1");
    world.ok(&["relay", "run", "--drain"]);
    world.ok(&["route", "pause", "mailer", "--reason", "the mail server of the provider moves to another data centre"]);
    world
}

const LISTS: [&str; 14] = [
    "status",
    "route ls",
    "route show mailer",
    "route show held",
    "dead ls",
    "dead groups",
    "dead compare --payload",
    "delivery ls --state retrying,blocked,dead",
    "delivery groups",
    "key ls --blocked",
    "event ls",
    "audit",
    "verify --lanes",
    "preset ls",
];

#[test]
fn every_table_fits_the_terminal_and_a_pipe_has_everything() {
    let world = world();
    for list in LISTS {
        for columns in [60, 80] {
            let shown = world.at_terminal(columns, &format!("postroom {list}"));
            // The last line of `status` is a sentence.
            for line in shown.lines().filter(|line| !line.contains(" · ")) {
                let width = line.chars().count();
                assert!(width <= usize::from(columns), "{list} at {columns} has {width}: {line}\n{shown}");
            }
        }
    }
    let shown = world.at_terminal(60, "postroom status");
    assert!(shown.contains("mailer") && shown.contains("paused") && !shown.contains("mailer.sh"), "{shown}");
    let dead = world.at_terminal(60, "postroom dead ls");
    assert!(dead.contains(&ID[..11]) && !dead.contains(ID), "{dead}");
    assert!(world.at_terminal(60, "postroom dead ls -o wide").contains(ID));
    assert!(world.ok(&["dead", "ls"]).contains(ID));
    assert_eq!(world.ok(&["dead", "ls", "-o", "wide"]), world.ok(&["dead", "ls"]));
    let presets = world.ok(&["preset", "ls"]);
    assert!(!presets.contains('…'), "{presets}");
}

#[test]
fn lists_tell_ages_at_a_terminal_and_times_elsewhere() {
    let world = world();
    for list in ["event ls", "dead ls", "dead groups", "audit"] {
        let shown = world.at_terminal(200, &format!("postroom {list}"));
        assert!(shown.contains("s ago") || shown.contains("now"), "{list}: {shown}");
        let exact = world.at_terminal(200, &format!("postroom {list} --time utc"));
        let args: Vec<&str> = list.split(' ').collect();
        let piped = world.ok(&args);
        for text in [exact, piped] {
            assert!(text.contains('T') && text.contains("Z ") && !text.contains("s ago"), "{list}: {text}");
        }
        let ages = world.ok(&[&args[..], &["--time", "age"]].concat());
        assert!(ages.contains("s ago") || ages.contains("now"), "{list}: {ages}");
    }
    assert!(world.json(&["event", "ls"])[0]["appended_at"].as_str().unwrap().ends_with('Z'));
}

#[test]
fn colours_are_for_terminals_that_want_them_and_a_reader_that_leaves_is_no_error() {
    let world = world();
    let coloured = world.at_terminal(200, "unset NO_COLOR; postroom status");
    assert!(coloured.contains("\u{1b}["), "{coloured}");
    assert!(!world.at_terminal(200, "postroom status").contains('\u{1b}'));
    assert!(!world.ok(&["status"]).contains('\u{1b}'));
    // More than a pipe holds, so that writing fails.
    let left = world.at_terminal(80, "(postroom config schema; echo code $? > code) | head -n 1; cat code");
    assert_eq!(left, "{\ncode 0\n");
}

#[test]
fn the_help_lists_the_commands_in_groups() {
    let world = World::bare();
    let help = world.ok(&["--help"]);
    let at = |text: &str| help.find(text).unwrap_or_else(|| panic!("{text:?} is not in {help}"));
    let places = [
        "Usage: postroom",
        "\nStart:\n  dev ",
        "\nLook:\n  status ",
        "\nAct:\n  dead ",
        "\nSet up:\n  config ",
        "\nMore:\n",
    ]
    .map(at);
    assert!(places.is_sorted(), "{help}");
    assert!(at("--config <FILE>") > places[5] && at("Examples:\n") > places[5], "{help}");
    assert_eq!(world.ok(&["help"]), help);
    assert_eq!(world.ok(&["help", "dead"]), world.ok(&["dead", "--help"]));
}

/// Another program holds the file until the progress is on the screen: had nothing been drawn, this would not end.
#[test]
fn what_takes_longer_than_a_second_says_what_it_does_and_for_how_long() {
    use sqlx::ConnectOptions;
    let world = World::new();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let file = sqlx::sqlite::SqliteConnectOptions::new().filename(world.path("shop.db"));
    let mut other = runtime.block_on(file.connect()).unwrap();
    runtime.block_on(sqlx::query("begin immediate").execute(&mut other)).unwrap();
    let mut waiting = Running::start(world.terminal(80, "postroom event append --id slow --type order.placed"));
    waiting.read_until("appending 1 event: 1.");
    runtime.block_on(sqlx::query("commit").execute(&mut other)).unwrap();
    let (code, rest) = waiting.end();
    assert!(code == Some(0) && rest.contains("slow"), "{rest}");
}
