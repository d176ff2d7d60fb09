//! `dev`: the whole demo as a newcomer sees it.

use std::process::Stdio;

use nix::sys::signal::Signal;

use crate::world::{Running, World};

#[test]
fn the_demo_tells_appends_deliveries_a_retry_and_a_dead_letter_and_leaves_nothing_behind() {
    let world = World::bare();
    let mut command = world.command(&["dev", "--rate", "20/s"]);
    command.stderr(Stdio::null());
    let mut demo = Running::start(command);
    demo.wait_for("appended");
    let retried = demo.wait_for("will be retried");
    assert!(retried.contains("order.paid") && retried.contains("the mail server is busy"), "{retried}");
    let dead = demo.wait_for("dead letter");
    assert!(dead.contains("order.shipped") && dead.contains("address does not exist"), "{dead}");
    demo.wait_for("delivered");
    demo.signal(Signal::SIGINT);
    let (code, rest) = demo.end();
    assert_eq!(code, Some(0));
    let last = rest.lines().last().unwrap_or_default();
    assert!(last.contains("stopped") && last.contains(" appended, ") && last.contains(" delivered, "), "{rest}");
    let left: Vec<_> = std::fs::read_dir(world.folder())
        .unwrap()
        .map(|e| e.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.starts_with("postroom-dev-"))
        .collect();
    assert!(left.is_empty(), "left behind: {left:?}");
}

#[test]
fn the_other_commands_work_on_the_running_demo() {
    let world = World::bare();
    let mut command = world.command(&["dev", "--rate", "20/s", "--dir", "demo"]);
    command.stderr(Stdio::null());
    let mut demo = Running::start(command);
    demo.wait_for("dead letter");
    let config = ["--config", "demo/postroom.toml"];
    let on = |args: &[&str]| world.json(&[args, &config[..]].concat());
    let status = on(&["status"]);
    assert_eq!((&status["routes"][0]["route"], &status["routes"][0]["state"]), (&"mailer".into(), &"running".into()));
    assert!(on(&["dead", "replay", "--all", "--yes"])["deliveries"].as_u64().unwrap() >= 1);
    demo.wait_for("delivered        order.shipped  order-4\n");
    on(&["route", "pause", "mailer"]);
    demo.wait_for("mailer is paused");
    on(&["route", "resume", "mailer"]);
    demo.wait_for("mailer is running");
    demo.signal(Signal::SIGTERM);
    assert_eq!(demo.end().0, Some(0));
    assert!(world.path("demo/shop.db").exists(), "a named folder stays");
    assert_eq!(world.run(&[&["verify"], &config[..]].concat()).code, 0);
}

#[test]
fn the_demo_stops_by_itself_when_asked_to() {
    let world = World::bare();
    let said = world.run(&["dev", "--for", "500ms", "--rate", "20/s", "-o", "jsonl"]);
    assert_eq!(said.code, 0, "{}", said.stderr);
    let lines: Vec<serde_json::Value> = said.stdout.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    assert!(lines.iter().any(|l| l["what"] == "appended" && l["type"] == "order.placed"), "{}", said.stdout);
    assert!(said.stderr.contains("Try to break it"), "{}", said.stderr);
}

#[test]
fn a_demo_killed_with_9_goes_on_in_its_folder() {
    let world = World::bare();
    let start = || {
        let mut command = world.command(&["dev", "--rate", "20/s", "--dir", "demo"]);
        command.stderr(Stdio::null());
        Running::start(command)
    };
    let mut first = start();
    first.wait_for("delivered");
    first.signal(Signal::SIGKILL);
    drop(first.end());
    let mut second = start();
    second.wait_for("delivered");
    second.signal(Signal::SIGINT);
    assert_eq!(second.end().0, Some(0));
    assert_eq!(world.run(&["verify", "--config", "demo/postroom.toml"]).code, 0);
}
