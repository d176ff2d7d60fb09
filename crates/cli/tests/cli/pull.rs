//! Workers in Python and Go, as the page about them says; and the tokens they need.

#![allow(clippy::unwrap_used, reason = "what is not as documented fails the test")]

use std::process::{Command, Output};
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;

use crate::docs::{blocks, page, root};
use crate::http::{ask, free, relay, until};
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
        let run = worker().env("POSTROOM_URL", format!("http://{address}")).env("POSTROOM_TOKEN", token).output();
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
        .env("GOCACHE", go.path().join("cache"))
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
    let said = without.env("POSTROOM_URL", format!("http://{address}")).env("POSTROOM_TOKEN", "x").output().unwrap();
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

#[test]
fn tokens_are_made_listed_and_revoked_and_shown_once() {
    let world = World::new();
    let said = world.run(&["token", "create", "ann", "--role", "admin", "--expires", "30d", "--reason", "on call"]);
    let token = said.stdout.trim().to_owned();
    assert!(said.code == 0 && token.starts_with("prt_") && said.stderr.contains("shown this once"), "{}", said.stderr);
    let made = world.json(&["token", "create", "grafana"]);
    assert_eq!((&made["role"], &made["expires_at"]), (&"viewer".into(), &serde_json::Value::Null), "{made}");
    let listed = world.run(&["token", "ls", "-o", "json"]).stdout;
    assert!(listed.contains("\"ann\"") && !listed.contains(&token) && !listed.contains("hash"), "{listed}");
    for (args, code, says) in [
        (&["token", "create", "ann"][..], 4, "there is a token \"ann\" already"),
        (&["token", "create", "Ann Smith"], 2, "cannot be the name of a token"),
        (&["token", "create", "bob", "--role", "king"], 2, "there are viewer, operator and admin"),
        (&["token", "create", "bob", "--expires", "soon"], 2, "is not a duration"),
        (&["token", "revoke", "anne"], 1, "did you mean"),
    ] {
        let said = world.run(args);
        assert_eq!(said.code, code, "{args:?}: {}", said.stderr);
        assert!(said.stderr.contains(says), "{args:?}: {}", said.stderr);
    }
    assert!(world.run(&["token", "revoke", "grafana", "--dry-run"]).stderr.contains("nothing was changed"));
    world.ok(&["token", "revoke", "grafana"]);
    assert_eq!(world.json(&["token", "ls"]).as_array().unwrap().len(), 1);
    let audit = world.run(&["audit", "--actions"]).stdout;
    assert!(audit.contains("token.revoke") && audit.contains("on call") && !audit.contains(&token), "{audit}");
}

#[test]
fn an_open_address_needs_tokens_for_everything() {
    let world = World::new();
    let config = std::fs::read_to_string(world.path("postroom.toml")).unwrap();
    world.write("postroom.toml", &format!("{config}\n[http]\nlisten = \"0.0.0.0:7480\"\nanonymous = \"viewer\"\n"));
    let said = world.run(&["config", "check"]);
    assert_eq!(said.code, 2, "{}", said.stderr);
    assert!(said.stderr.contains("can be reached from other machines"), "{}", said.stderr);
    let port = free().split(':').nth(1).unwrap().to_owned();
    world.write("postroom.toml", &format!("{config}\n[http]\nlisten = \"0.0.0.0:{port}\"\nanonymous = \"none\"\n"));
    let token = world.ok(&["token", "create", "vic"]).trim().to_owned();
    let running = relay(&world, &[], &[]);
    let address = format!("127.0.0.1:{port}");
    until(&address, "/readyz", "moving", |answer| answer.status == 200);
    for path in ["/metrics", "/api/v1/status"] {
        assert_eq!(ask(&address, path, &[]).unwrap().status, 401);
        assert_eq!(ask(&address, path, &[&format!("authorization: Bearer {token}")]).unwrap().status, 200);
    }
    running.signal(Signal::SIGTERM);
    assert_eq!(running.end().0, Some(0));
}
