//! `postroom webhook`: the receiver for trying things, signatures by hand, and a relay that delivers to it.

#![allow(clippy::unwrap_used, clippy::panic, reason = "what cannot be run fails the test")]

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use serde_json::Value;

use crate::world::{Running, World};

const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

/// A world with a secret in a file.
fn world() -> World {
    let world = World::bare();
    world.write("secret", &format!("{SECRET}\n"));
    world.write("body.json", r#"{"card":"canary"}"#);
    world
}

/// A receiver with these options, and its port.
fn listen(world: &World, options: &[&str]) -> (Running, u16) {
    let mut receiver = Running::start(world.command(&[&["webhook", "listen", "--port", "0"], options].concat()));
    let told = receiver.note();
    let port = told.split("http://127.0.0.1:").nth(1).unwrap_or_else(|| panic!("{told}"));
    let port = port.split(';').next().unwrap().parse().unwrap();
    (receiver, port)
}

/// The headers that sign the body of the world's file.
fn headers(world: &World, id: &str) -> String {
    world.ok(&["webhook", "sign", "--secret-file", "secret", "--id", id, "body.json"]).replace('\n', "\r\n")
}

/// Posts the body with these headers; the answer's head.
fn post(port: u16, headers: &str) -> String {
    let body = r#"{"card":"canary"}"#;
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    let length = body.len();
    let request = format!(
        "POST /hook HTTP/1.1\r\nhost: x\r\nconnection: close\r\nce-type: order.pl%C3%A4ced\r\ncontent-length: {length}\r\n{headers}\r\n{body}"
    );
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn a_receiver_verifies_tells_repeats_and_keeps_bodies_to_itself() {
    let world = world();
    let (mut receiver, port) = listen(&world, &["--secret-file", "secret", "--count", "4"]);
    let signed = headers(&world, "e-1");
    assert!(post(port, &signed).starts_with("HTTP/1.1 204"));
    assert!(post(port, &signed).starts_with("HTTP/1.1 204"));
    assert!(post(port, &signed.replace("webhook-id: e-1", "webhook-id: e-2")).starts_with("HTTP/1.1 401"));
    assert!(post(port, "webhook-id: e-3\r\nwebhook-timestamp: 1\r\n").starts_with("HTTP/1.1 401"));
    let mut lines = Vec::new();
    for id in ["e-1", "e-1", "e-2", "e-3"] {
        lines.push(receiver.wait_for(id));
    }
    assert!(lines[0].contains("e-1  order.pläced (unsigned header)  17 bytes  signature ok  → 204"), "{lines:?}");
    assert!(lines[1].contains("signature ok  duplicate (time 2)  → 204"), "{lines:?}");
    assert!(lines[2].contains("signature wrong (no signature fits: ") && lines[2].contains("→ 401"), "{lines:?}");
    assert!(lines[3].contains("signature none (there is no webhook-signature header)"), "{lines:?}");
    assert!(!lines.concat().contains("canary"), "a body was shown unasked");
    assert_eq!(receiver.end(), (Some(0), String::new()), "it ends after four requests");
}

#[test]
fn a_receiver_misbehaves_as_it_is_told_and_writes_objects() {
    let world = world();
    let options = ["--status", "503", "--retry-after", "5s", "--show-body", "--once", "-o", "jsonl"];
    let (mut receiver, port) = listen(&world, &options);
    let answer = post(port, &headers(&world, "e-1"));
    assert!(answer.starts_with("HTTP/1.1 503") && answer.contains("retry-after: 5\r\n"), "{answer}");
    let row: Value = serde_json::from_str(&receiver.wait_for("e-1")).unwrap();
    assert_eq!((&row["id"], &row["type"], &row["status"]), (&"e-1".into(), &"order.pläced".into(), &503.into()));
    assert_eq!((&row["signature"], &row["times"], &row["duplicate"]), (&"unchecked".into(), &1.into(), &false.into()));
    assert_eq!((&row["bytes"], &row["body"]), (&17.into(), &r#"{"card":"canary"}"#.into()));
    assert_eq!(receiver.end().0, Some(0));
}

#[test]
fn a_receiver_fails_some_of_the_time() {
    let world = world();
    let (receiver, port) = listen(&world, &["--fail", "50%", "--count", "60"]);
    let answers: Vec<String> = (0..60).map(|n| post(port, &format!("webhook-id: e-{n}\r\n"))).collect();
    let failed = answers.iter().filter(|answer| answer.starts_with("HTTP/1.1 503")).count();
    assert!((5..=55).contains(&failed), "{failed} of 60 failed");
    assert_eq!(receiver.end().0, Some(0));
}

#[test]
fn a_receiver_ends_well_when_it_is_interrupted_and_says_when_its_port_is_taken() {
    let world = world();
    let (receiver, port) = listen(&world, &[]);
    let said = world.run(&["webhook", "listen", "--port", &port.to_string()]);
    assert_eq!((said.code, said.stdout.as_str()), (1, ""));
    assert!(said.stderr.contains(&format!("cannot listen on port {port} of 127.0.0.1: ")), "{}", said.stderr);
    assert!(said.stderr.contains("hint: choose another with --port"), "{}", said.stderr);
    receiver.signal(Signal::SIGINT);
    assert_eq!(receiver.end(), (Some(0), String::new()));
}

#[test]
fn what_is_signed_can_be_verified_and_what_was_changed_is_7() {
    let world = world();
    world.write("other.json", "{}");
    let signed = world.ok(&["webhook", "sign", "--secret-file", "secret", "--id", "e-1", "body.json"]);
    let lines: Vec<&str> = signed.lines().collect();
    let check = |file: &str, headers: &[&str]| {
        let mut args = vec!["webhook", "verify", "--secret-file", "secret", file];
        args.extend(headers.iter().flat_map(|header| ["--header", header]));
        let said = world.run(&args);
        assert_eq!(said.stderr, "");
        (said.code, said.stdout)
    };
    assert_eq!(check("body.json", &lines), (0, "the signature is good\n".to_owned()));
    let (code, said) = check("other.json", &lines);
    assert!(code == 7 && said.starts_with("the signature is not valid: no signature fits"), "{said}");
    let (code, said) = check("body.json", &lines[..2]);
    assert!(code == 7 && said.contains("there is no webhook-signature header"), "{said}");
    let old = ["webhook", "sign", "--secret-file", "secret", "--id", "e-1", "--timestamp", "1614265330", "body.json"];
    let old = world.ok(&old);
    let (code, said) = check("body.json", &old.lines().collect::<Vec<_>>());
    assert!(code == 7 && said.contains("seconds ago; at most 300 are allowed"), "{said}");
    let vector = ["webhook", "sign", "--secret-file", "secret", "--id", "msg_p5jXN8AQM9LWM0D4loKWxJek"];
    let fed = world.feed(
        &[&vector[..], &["--timestamp", "2021-02-25T15:02:10Z", "-o", "json"]].concat(),
        r#"{"test": 2432232314}"#,
    );
    let headers: Value = serde_json::from_str(&fed.stdout).unwrap();
    assert_eq!(headers["webhook-signature"], "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
    assert_eq!(headers["webhook-timestamp"], "1614265330");
}

#[test]
fn a_secret_comes_from_a_file_the_environment_or_an_argument() {
    let world = world();
    let sign = ["webhook", "sign", "--id", "e-1", "--timestamp", "1614265330", "body.json"];
    let from_file = world.ok(&[&sign[..], &["--secret-file", "secret"]].concat());
    assert_eq!(world.ok(&[&sign[..], &["--secret", SECRET]].concat()), from_file);
    let output = world.command(&sign).env("WEBHOOK_SECRET", SECRET).output().unwrap();
    assert_eq!(String::from_utf8(output.stdout).unwrap(), from_file);
    let both = world.command(&sign).env("WEBHOOK_SECRET", format!("{SECRET} {SECRET}")).output().unwrap();
    assert_eq!(String::from_utf8(both.stdout).unwrap().matches("v1,").count(), 2);
}

#[test]
fn new_keys_are_printed_and_work() {
    let world = world();
    let secret = world.ok(&["webhook", "key"]);
    assert!(secret.starts_with("whsec_") && secret.lines().count() == 1, "{secret}");
    assert_ne!(secret, world.ok(&["webhook", "key"]));
    let pair = world.json(&["webhook", "key", "--ed25519"]);
    world.write("private", pair["private"].as_str().unwrap());
    world.write("public", pair["public"].as_str().unwrap());
    let signed = world.ok(&["webhook", "sign", "--secret-file", "private", "--id", "e-1", "body.json"]);
    let mut args = vec!["webhook", "verify", "--secret-file", "public", "body.json"];
    args.extend(signed.lines().flat_map(|header| ["--header", header]));
    assert_eq!(world.ok(&args), "the signature is good\n");
}

#[test]
fn wrong_input_is_2_and_shows_no_secret() {
    let world = world();
    world.write("bad", "whsec_canary!");
    for (args, why) in [
        (&["webhook", "sign", "--id", "e-1", "body.json"][..], "no secret is given"),
        (&["webhook", "sign", "--secret", "canary", "--id", "e-1", "body.json"], "begins with `whsec_` or `whsk_`"),
        (&["webhook", "sign", "--secret-file", "bad", "--id", "e-1", "body.json"], "the secret in bad: what follows"),
        (&["webhook", "sign", "--secret-file", "nowhere", "--id", "e-1"], "nowhere cannot be read"),
        (&["webhook", "sign", "--secret-file", "secret", "--id", "e-1", "nowhere"], "nowhere cannot be read"),
        (&["webhook", "sign", "--secret-file", "secret", "--id", "e.1", "body.json"], "cannot be a webhook-id"),
        (&["webhook", "sign", "--secret-file", "secret", "--id", "e-1", "--timestamp", "noon"], "is not a time"),
        (&["webhook", "verify", "--secret-file", "secret", "--header", "canary-less", "body.json"], "is not a header"),
        (&["webhook", "verify", "body.json"], "no secret is given"),
        (&["webhook", "listen", "--fail", "often"], "is not a share"),
        (&["webhook", "listen", "--fail", "101%"], "is not a share"),
        (&["webhook", "listen", "--status", "99"], "is not a status"),
        (&["webhook", "listen", "--count", "0"], "invalid value"),
        (&["webhook", "listen", "--once", "--count", "2"], "cannot be used with"),
        (&["webhook", "listen", "--secret", "whsec_canary!"], "is not base64"),
        (&["webhook", "listen", "--port", "70000"], "invalid value"),
    ] {
        let said = world.run(args);
        assert_eq!((said.code, said.stdout.as_str()), (2, ""), "{args:?}: {}", said.stderr);
        assert!(said.stderr.contains(why), "{args:?}: {}", said.stderr);
        assert!(!said.stderr.contains("canary!"), "{args:?}: {}", said.stderr);
    }
}

/// A route to a receiver on this port.
fn route(world: &World, port: u16) {
    let folder = world.folder().display();
    world.write(
        "postroom.toml",
        &format!(
            r#"[store.main]
url = "sqlite://{folder}/shop.db"
[transport.webhook]
https_only = false
allow_networks = ["127.0.0.0/8"]
[[route]]
name = "partner"
retry = {{ base = "10ms", max = "10ms", jitter = 0, attempts = 50 }}
to = {{ webhook = {{ url = "http://127.0.0.1:{port}/hook", secret_file = "secret" }} }}
"#
        ),
    );
}

#[test]
fn a_relay_delivers_to_a_receiver_that_fails_half_of_the_time() {
    let world = world();
    let (receiver, port) =
        listen(&world, &["--secret-file", "secret", "--fail", "50%", "--status", "500", "-o", "jsonl"]);
    route(&world, port);
    world.ok(&["store", "migrate", "up"]);
    for n in 0..10 {
        world.append(&format!("e-{n}"), "order.placed", &format!("order-{}", n % 3));
    }
    world.ok(&["relay", "run", "--drain"]);
    receiver.signal(Signal::SIGTERM);
    let (code, printed) = receiver.end();
    assert_eq!(code, Some(0));
    let rows: Vec<Value> = printed.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(rows.iter().all(|row| row["signature"] == "ok" && row["duplicate"] == false), "{printed}");
    let taken: Vec<&str> = rows.iter().filter(|r| r["status"] == 204).map(|r| r["id"].as_str().unwrap()).collect();
    assert_eq!(taken.len(), 10, "each once: {taken:?}");
    for key in 0..3 {
        let of_key: Vec<&&str> = taken.iter().filter(|id| id[2..].parse::<usize>().unwrap() % 3 == key).collect();
        assert!(of_key.is_sorted(), "out of order: {of_key:?}");
    }
    assert_eq!(world.json(&["status"])["routes"][0]["delivered"], 10);
}

#[test]
fn a_webhook_that_is_gone_is_disabled_until_it_is_resumed() {
    let world = world();
    let (gone, port) = listen(&world, &["--status", "410"]);
    route(&world, port);
    world.ok(&["store", "migrate", "up"]);
    world.append("e-1", "order.placed", "order-1");
    let mut command = world.command(&["relay", "run"]);
    command.stderr(std::process::Stdio::null());
    let relay = Running::start(command);
    let until = |what: &str, so: &dyn Fn(&Value) -> bool| {
        let deadline = Instant::now() + Duration::from_mins(5);
        let mut status = world.json(&["status"]);
        while !so(&status["routes"][0]) {
            assert!(Instant::now() < deadline, "{what}: {status}");
            status = world.json(&["status"]);
        }
    };
    until("not disabled", &|route| route["state"] == "disabled");
    drop(gone);
    // Another receiver takes its place.
    assert!(TcpListener::bind(("127.0.0.1", port)).is_ok(), "the port is free again");
    let back = ["webhook", "listen", "--secret-file", "secret", "--port", &port.to_string(), "--once"];
    let mut back = Running::start(world.command(&back));
    back.note();
    world.ok(&["route", "resume", "partner"]);
    assert!(back.wait_for("e-1").contains("signature ok"));
    until("not delivered", &|route| route["delivered"] == 1);
    relay.signal(Signal::SIGTERM);
    assert_eq!(relay.end().0, Some(0));
}
