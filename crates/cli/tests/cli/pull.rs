//! Workers in Python and Go, as the page about them says.

#![allow(clippy::unwrap_used, reason = "what is not as documented fails the test")]

use std::process::{Command, Output};
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;

use crate::docs::{blocks, page, root};
use crate::http::{free, relay, until};
use crate::world::{Running, World};

/// A relay with the page's route, and events for its workers.
fn shop(ids: &[&str]) -> (World, Running, String, String) {
    let world = World::bare();
    world.write("postroom.toml", &blocks(&page("docs/pull.md"), "toml")[0]);
    world.ok(&["store", "migrate", "up"]);
    let token = world.ok(&["token", "create", "mailer", "--role", "operator"]).trim().to_owned();
    for id in ids {
        let payload = format!(r#"{{"email": "{id}@example.com"}}"#);
        world.ok(&["event", "append", "--type", "order.placed", "--id", id, "--key", id, "--payload", &payload]);
    }
    world.ok(&["event", "append", "--type", "order.placed", "--id", "nobody", "--payload", "{}"]);
    let address = free();
    let running = relay(&world, &["--listen", &address], &[]);
    until(&address, "/readyz", "moving", |answer| answer.status == 200);
    (world, running, address, token)
}

/// Runs a worker again and again until everything is settled; what it printed, in order.
fn work(world: &World, address: &str, token: &str, mut worker: impl FnMut() -> Command) -> Vec<String> {
    let deadline = Instant::now() + Duration::from_mins(2);
    let mut lines = Vec::new();
    loop {
        let run = worker().env("WORKER_URL", format!("http://{address}")).env("WORKER_TOKEN", token).output();
        let Output { status, stdout, stderr } = run.unwrap();
        assert!(status.success(), "{}", String::from_utf8_lossy(&stderr));
        lines.extend(String::from_utf8_lossy(&stdout).lines().map(str::to_owned));
        let status = world.json(&["status"]);
        let route = &status["routes"][0];
        if route["dead"] == 1 && route["delivered"] == 2 {
            break;
        }
        assert!(Instant::now() < deadline, "{status}");
    }
    lines.sort();
    lines
}

#[test]
fn workers_in_python_and_go_get_every_event_and_say_what_came_of_it() {
    let folder = root().join("examples/pull-worker");
    let go = tempfile::tempdir().unwrap();
    let built = Command::new("go")
        .args(["build", "-o"])
        .arg(go.path().join("worker"))
        .arg("worker.go")
        .current_dir(&folder)
        .output()
        .unwrap();
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    let python = || {
        let mut command = Command::new("python3");
        command.arg("worker.py").arg("--once").current_dir(&folder);
        command
    };
    let program = || {
        let mut command = Command::new(go.path().join("worker"));
        command.arg("--once");
        command
    };
    let wanted = ["mail to ann@example.com about ann", "mail to bob@example.com about bob"];
    let (world, running, address, token) = shop(&["ann", "bob"]);
    assert_eq!(work(&world, &address, &token, python), wanted);
    let dead = world.json(&["dead", "ls"]);
    assert_eq!((&dead[0]["id"], &dead[0]["code"]), (&"nobody".into(), &"pull.error".into()), "{dead}");
    running.signal(Signal::SIGTERM);
    assert_eq!(running.end().0, Some(0));

    let (world, running, address, token) = shop(&["ann", "bob"]);
    assert_eq!(work(&world, &address, &token, program), wanted);
    // Without a token a worker is told so.
    let mut without = python();
    let said = without.env("WORKER_URL", format!("http://{address}")).env("WORKER_TOKEN", "x").output().unwrap();
    assert!(!said.status.success() && String::from_utf8_lossy(&said.stderr).contains("http.unauthorized"));
    running.signal(Signal::SIGTERM);
    assert_eq!(running.end().0, Some(0));
}

#[test]
fn the_example_is_the_one_of_the_page() {
    let page = page("docs/pull.md");
    let shown = blocks(&page, "toml")[0].replace("# postroom.toml\n", "");
    assert_eq!(shown, std::fs::read_to_string(root().join("examples/pull-worker/postroom.toml")).unwrap());
}

#[test]
fn a_route_that_workers_pull_from_needs_an_address() {
    let world = World::bare();
    let config = std::fs::read_to_string(world.path("postroom.toml")).unwrap();
    world.write("postroom.toml", &config.replace("exec = { command = [\"sh\", \"mailer.sh\"] }", "pull = {}"));
    world.ok(&["store", "migrate", "up"]);
    let said = world.run(&["relay", "run"]);
    assert_eq!(said.code, 2, "{}", said.stderr);
    assert!(
        said.stderr.contains("ask over HTTP, and nothing listens") && said.stderr.contains("--listen"),
        "{}",
        said.stderr
    );
}
