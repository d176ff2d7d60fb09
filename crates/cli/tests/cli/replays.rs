//! Replays as they go: in the foreground, by a relay, stopped and gone on with.

use nix::sys::signal::Signal;

use crate::world::{Running, World};

/// So many events that were delivered.
fn delivered(many: usize) -> World {
    let world = World::new();
    let lines: Vec<String> =
        (0..many).map(|n| format!(r#"{{"id":"e-{n}","type":"order.placed","key":"k-{n}","payload":{{}}}}"#)).collect();
    let said = world.feed(&["event", "append", "-"], &lines.join("\n"));
    assert_eq!(said.code, 0, "{}", said.stderr);
    world.ok(&["relay", "run", "--drain"]);
    world
}

/// Waits until the replay is so.
fn wait(world: &World, id: &str, fits: impl Fn(&serde_json::Value) -> bool) -> serde_json::Value {
    loop {
        let row = world.json(&["replay", "show", id]);
        if fits(&row) {
            return row;
        }
    }
}

fn id(row: &serde_json::Value) -> String {
    row["replay"].as_str().unwrap_or_default().to_owned()
}

#[test]
fn a_replay_is_shown_with_what_it_did() {
    let world = delivered(3);
    let done = world.json(&["replay", "--type", "order.*", "--yes", "--reason", "index lost"]);
    assert_eq!((&done["deliveries"], &done["keys"], &done["state"]), (&3.into(), &3.into(), &"delivering".into()));
    world.ok(&["relay", "run", "--drain"]);
    let row = world.json(&["replay", "show", &id(&done)]);
    assert_eq!((&row["total"], &row["done"], &row["selection"]["type"]), (&3.into(), &3.into(), &"order.*".into()));
    assert_eq!(world.json(&["replay", "ls"])[0]["id"], row["id"]);
    assert!(world.json(&["replay", "ls", "--state", "running"]).as_array().unwrap().is_empty());
    let text = world.ok(&["replay", "show", &id(&done)]);
    assert!(
        text.contains("is done, 3 of 3 deliveries made due: 3 delivered, 0 pending, 0 dead again")
            && text.contains("(index lost)"),
        "{text}"
    );
    for wherever in
        [&["-o", "json", "replay", "ls"][..], &["replay", "-o", "json", "ls"], &["replay", "ls", "-o", "json"]]
    {
        assert!(world.ok(wherever).starts_with('['), "{wherever:?}");
    }
    for both in [&["replay", "--route", "mailer", "ls"][..], &["replay", "e-1", "ls"], &["replay", "--detach", "ls"]] {
        assert_eq!(world.run(both).code, 2, "{both:?}");
    }
    let said = world.run(&["replay", "pause", &id(&done)]);
    assert_eq!(said.code, 4, "{}", said.stderr);
    let said = world.run(&["replay", "show", "nothing"]);
    assert_eq!(said.code, 1, "{}", said.stderr);
    assert!(said.stderr.contains(&id(&done)), "{}", said.stderr);
}

#[test]
fn an_interrupted_replay_is_paused_and_can_be_resumed_or_cancelled() {
    let world = delivered(3);
    let mut command = world.command(&["replay", "--all", "--rate", "1/h", "--yes", "-o", "json"]);
    command.stderr(std::process::Stdio::null());
    let running = Running::start(command);
    let row = loop {
        let rows = world.json(&["replay", "ls"]);
        if rows[0]["done"] == 1 {
            break rows[0].clone();
        }
    };
    let id = row["id"].as_str().unwrap();
    running.signal(Signal::SIGINT);
    let (code, printed) = running.end();
    let printed: serde_json::Value = serde_json::from_str(&printed).unwrap();
    assert_eq!((code, &printed["state"], &printed["deliveries"]), (Some(5), &"paused".into(), &1.into()));
    assert_eq!(world.json(&["replay", "show", id])["state"], "paused");

    assert!(world.ok(&["replay", "resume", id, "--detach"]).contains("is running, 1 of 3 deliveries made due"));
    assert!(world.ok(&["replay", "pause", id]).contains("is paused"));
    assert!(world.ok(&["replay", "pause", id]).contains("is already paused"));
    assert_eq!(world.run(&["replay", "cancel", id, "--dry-run"]).code, 0);
    assert!(world.ok(&["replay", "cancel", id, "--reason", "wrong one"]).contains("is cancelled"));
    assert_eq!(world.run(&["replay", "resume", id]).code, 4);
    let actions = world.json(&["audit"]);
    let said: Vec<&str> = actions.as_array().unwrap().iter().map(|row| row["action"].as_str().unwrap()).collect();
    assert_eq!(said, ["replay.cancel", "replay.pause", "replay.resume", "replay.pause", "replay"]);
    assert_eq!((&actions[0]["count"], &actions[0]["reason"]), (&1.into(), &"wrong one".into()));
    assert_eq!(actions[3]["reason"], "interrupted");
}

#[test]
fn a_resumed_replay_goes_on_in_the_foreground() {
    let world = delivered(3);
    let begun = world.json(&["replay", "--all", "--rate", "100/s", "--detach", "--yes"]);
    assert_eq!((&begun["state"], &begun["deliveries"]), (&"running".into(), &0.into()));
    world.ok(&["replay", "pause", &id(&begun)]);
    let row = world.json(&["replay", "resume", &id(&begun)]);
    assert_eq!((&row["state"], &row["done"]), (&"delivering".into(), &3.into()));
    world.ok(&["relay", "run", "--drain"]);
    assert_eq!(world.json(&["replay", "show", &id(&begun)])["state"], "done");
}

#[test]
fn a_detached_replay_is_done_by_a_relay() {
    let world = delivered(3);
    let mut command = world.command(&["relay", "run"]);
    command.stderr(std::process::Stdio::null());
    let relay = Running::start(command);
    let begun = world.json(&["replay", "--all", "--detach", "--yes"]);
    let row = wait(&world, &id(&begun), |row| row["state"] == "done");
    assert_eq!(row["done"], 3);
    relay.signal(Signal::SIGTERM);
    assert_eq!(relay.end().0, Some(0));
    assert_eq!(world.run(&["verify"]).code, 0);
}

#[test]
fn dead_letters_are_replayed_by_a_relay_too() {
    let world = World::new();
    world.append("b", "order.bad", "o-2");
    world.ok(&["relay", "run", "--drain"]);
    let begun = world.json(&["dead", "replay", "--route", "mailer", "--detach", "--yes"]);
    assert_eq!(world.json(&["replay", "show", &id(&begun)])["what"], "dead");
    let row = world.json(&["replay", "resume", &id(&begun)]);
    assert_eq!(row["done"], 1);
    assert!(world.json(&["dead", "ls"]).as_array().unwrap().is_empty());
}
