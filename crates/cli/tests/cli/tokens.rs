//! Tokens: how they are made, and what they open.

#![allow(clippy::unwrap_used, reason = "what is not as documented fails the test")]

use std::fs::OpenOptions;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;

use crate::adopted::sql;
use crate::http::{ask, free, relay, until};
use crate::world::{Running, World};

#[test]
fn tokens_are_made_listed_and_revoked_and_shown_once() {
    let world = World::new();
    let said = world.run(&["token", "create", "ann", "--role", "admin", "--expires", "30d", "--reason", "on call"]);
    let token = said.stdout.trim().to_owned();
    assert!(said.code == 0 && token.starts_with("prt_") && said.stderr.contains("shown only once"), "{}", said.stderr);
    let made = world.json(&["token", "create", "grafana"]);
    assert!(made["role"] == "viewer" && made["expires_at"].is_string(), "a token ends unless told otherwise: {made}");
    let endless = world.json(&["token", "create", "endless", "--expires", "never"]);
    assert_eq!(endless["expires_at"], serde_json::Value::Null);
    world.ok(&["token", "revoke", "endless"]);
    let listed = world.run(&["token", "ls", "-o", "json"]).stdout;
    assert!(listed.contains("\"ann\"") && !listed.contains(&token) && !listed.contains("hash"), "{listed}");
    for (args, code, says) in [
        (&["token", "create", "ann"][..], 4, "there is a token \"ann\" already"),
        (&["token", "create", "Ann Smith"], 2, "the name of the token is not valid"),
        (&["token", "create", "bob", "--role", "worker"], 2, "a worker's token is limited to routes"),
        (&["token", "create", "bob", "--role", "worker", "--route", "mailr"], 1, "did you mean"),
        (&["token", "rotate", "anne"], 1, "did you mean"),
        (&["token", "create", "bob", "--role", "king"], 2, "use worker, viewer, operator or admin"),
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
    let audit = world.run(&["audit"]).stdout;
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
    world.write(
        "postroom.toml",
        &format!("{config}\n[http]\nlisten = \"0.0.0.0:{port}\"\nanonymous = \"none\"\ntls_by_proxy = true\n"),
    );
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

#[test]
fn a_token_opens_the_store_it_was_made_in_and_no_other() {
    let world = World::bare();
    let config = std::fs::read_to_string(world.path("postroom.toml")).unwrap();
    let folder = world.folder().display();
    let config = config.replace("[[route]]", "[[route]]\nstore = \"*\"");
    world.write("postroom.toml", &format!("{config}\n[store.other]\nurl = \"sqlite://{folder}/other.db\"\n"));
    for store in ["main", "other"] {
        world.ok(&["store", "migrate", "up", "--store", store]);
        world.ok(&["event", "append", "--store", store, "--id", store, "--type", "order.placed", "--payload", "{}"]);
    }
    let token = world.ok(&["token", "create", "ann", "--role", "operator", "--store", "other"]).trim().to_owned();
    world.ok(&["token", "create", "bob", "--store", "main"]);
    let address = free();
    let running = relay(&world, &["--listen", &address], &[]);
    until(&address, "/readyz", "moving", |answer| answer.status == 200);
    let bearer = format!("authorization: Bearer {token}");
    let get = |path: &str| ask(&address, path, &[&bearer]).unwrap();
    let status = get("/api/v1/status");
    assert!(status.body.contains("\"store\":\"other\"") && !status.body.contains("main"), "{}", status.body);
    // Nothing has to be chosen where one sees one only.
    assert!(get("/api/v1/events").body.contains("\"id\":\"other\""));
    assert_eq!(get("/api/v1/events?store=other").status, 200);
    for hidden in ["/api/v1/events?store=main", "/api/v1/events/main", "/api/v1/events/main?store=main&payload=true"] {
        let answer = get(hidden);
        assert!(answer.status == 404 && answer.body.contains("http.no_such"), "{hidden}: {}", answer.body);
    }
    running.signal(Signal::SIGTERM);
    assert_eq!(running.end().0, Some(0));
}

#[test]
fn tokens_are_believed_while_their_store_does_not_answer() {
    let world = World::new();
    let token = world.ok(&["token", "create", "ann", "--role", "admin"]).trim().to_owned();
    let address = free();
    let running = relay(&world, &["--listen", &address], &[]);
    until(&address, "/readyz", "moving", |answer| answer.status == 200);
    let bearer = format!("authorization: Bearer {token}");
    assert_eq!(ask(&address, "/api/v1/status", &[&bearer]).unwrap().status, 200);
    sql(&world, "alter table postroom_token rename to postroom_gone");
    assert!(ask(&address, "/api/v1/tokens", &[&bearer]).unwrap().status >= 500, "they cannot be asked for");
    // Longer than an answer of the store is believed otherwise.
    let begin = Instant::now();
    while begin.elapsed() < Duration::from_millis(1500) {
        assert_eq!(ask(&address, "/api/v1/status", &[&bearer]).unwrap().status, 200);
        assert_eq!(ask(&address, "/api/v1/status", &["authorization: Bearer prt_wrong"]).unwrap().status, 401);
        assert_eq!(ask(&address, "/api/v1/status", &[]).unwrap().status, 401);
    }
    sql(&world, "alter table postroom_gone rename to postroom_token");
    world.ok(&["token", "revoke", "ann"]);
    let deadline = Instant::now() + Duration::from_mins(2);
    while ask(&address, "/api/v1/status", &[&bearer]).unwrap().status != 401 {
        assert!(Instant::now() < deadline, "a revoked token is still believed");
    }
    assert_eq!(ask(&address, "/api/v1/status", &[]).unwrap().status, 401, "revoking the last one opens nothing");
    running.signal(Signal::SIGTERM);
    assert_eq!(running.end().0, Some(0));
}

#[test]
fn whoever_looks_at_a_payload_is_in_the_log_and_the_payload_is_not() {
    let world = World::new();
    world.ok(&["event", "append", "--id", "e-1", "--type", "order.placed", "--payload", r#"{"card":"canary"}"#]);
    let token = world.ok(&["token", "create", "ann", "--role", "operator"]).trim().to_owned();
    let (address, log) = (free(), world.path("log"));
    let mut command = world.command(&["relay", "run", "--listen", &address]);
    command.stderr(OpenOptions::new().create(true).append(true).open(&log).unwrap());
    let running = Running::start(command);
    until(&address, "/readyz", "moving", |answer| answer.status == 200);
    let bearer = format!("authorization: Bearer {token}");
    let shown = ask(&address, "/api/v1/events/e-1?payload=true", &[&bearer]).unwrap();
    assert!(shown.body.contains("canary"), "{}", shown.body);
    running.signal(Signal::SIGTERM);
    assert_eq!(running.end().0, Some(0));
    let log = std::fs::read_to_string(log).unwrap();
    let line = log.lines().find(|line| line.contains("payload shown")).unwrap_or_else(|| panic!("{log}"));
    assert!(line.contains("\"by\":\"ann\"") && line.contains("\"event_id\":\"e-1\""), "{line}");
    assert!(!log.contains("canary") && !log.contains(&token), "{log}");
}
