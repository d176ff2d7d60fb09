//! A hostile network: clients that take places and say nothing, clients without TLS, pages of other sites, workers that
//! settle what is not theirs.

#![allow(clippy::unwrap_used, clippy::panic, reason = "what is not as documented fails the test")]

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::signal::Signal;
use postroom_testbed::Certificates;
use serde_json::{Value, json};

use crate::http::{ask, free, relay, until};
use crate::world::{Running, World};

/// Waits for something that happens by itself.
pub(crate) fn wait(what: &str, mut so: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_mins(2);
    while !so() {
        assert!(Instant::now() < deadline, "{what}");
        std::thread::yield_now();
    }
}

fn value_of(metrics: &str, name: &str) -> f64 {
    let line = metrics.lines().find(|line| line.starts_with(name)).unwrap_or_else(|| panic!("{name}\n{metrics}"));
    line.rsplit(' ').next().unwrap().parse().unwrap()
}

/// H-124: each of them would have held a place, and one of the files that deliveries need, for ever.
#[test]
fn two_thousand_clients_that_say_nothing_stop_neither_deliveries_nor_health() {
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    setrlimit(Resource::RLIMIT_NOFILE, hard.min(8192), hard).unwrap();
    let world = World::new();
    let address = free();
    // As few files as a small service has.
    let limited = "ulimit -n 256; exec \"$0\" relay run --listen \"$1\"";
    let mut command = world.program("sh", &["-c", limited, env!("CARGO_BIN_EXE_postroom"), &address]);
    command.stderr(Stdio::null());
    let relay = Running::start(command);
    until(&address, "/readyz", "ready", |answer| answer.status == 200);
    let host = format!("host: {address}\r\n");
    let heads = [
        String::new(),
        format!("GET /livez HTTP/1.1\r\n{host}x: "),
        format!("POST /api/v1/routes/mailer/pause HTTP/1.1\r\n{host}content-length: 1000\r\n\r\n{{"),
    ];
    let mut clients = Vec::new();
    for n in 0..2000 {
        if let Ok(mut client) = TcpStream::connect(&address) {
            let _ = client.write_all(heads[n % heads.len()].as_bytes());
            clients.push(client);
        }
        // Now and then, as whoever watches and whoever appends does.
        if n % 200 == 0 {
            world.append(&format!("e-{n}"), "order.placed", &format!("k-{n}"));
            assert_eq!(ask(&address, "/livez", &[]).unwrap().status, 200, "after {n} clients");
        }
        if n % 50 == 0 {
            for client in &mut clients {
                let _ = client.write_all(b"x");
            }
        }
    }
    wait("what was appended meanwhile is delivered", || {
        let routes = world.json(&["status"])["routes"].take();
        routes.as_array().unwrap().iter().any(|route| route["route"] == "mailer" && route["delivered"] == 10)
    });
    let metrics = ask(&address, "/metrics", &[]).unwrap().body;
    assert!(value_of(&metrics, "postroom_http_connections ") <= 128.0, "half of the files at most");
    assert!(value_of(&metrics, "postroom_http_connections_closed_total{reason=\"displaced\"}") >= 1000.0);
    relay.signal(Signal::SIGTERM);
    assert_eq!(relay.end().0, Some(0));
}

/// A byte every few seconds is no silence; what counts is how long the whole takes.
#[test]
fn a_client_that_drips_is_sent_away_whatever_it_drips() {
    let world = World::new();
    let address = free();
    let relay = relay(&world, &["--listen", &address], &[]);
    until(&address, "/readyz", "ready", |answer| answer.status == 200);
    let head = format!("POST /api/v1/routes/mailer/pause HTTP/1.1\r\nhost: {address}\r\n");
    let body = format!("{head}content-type: application/json\r\ncontent-length: 1000\r\n\r\n");
    for start in [head, body] {
        let mut client = TcpStream::connect(&address).unwrap();
        client.write_all(start.as_bytes()).unwrap();
        let began = Instant::now();
        client.set_read_timeout(Some(Duration::from_secs(2))).unwrap();
        let mut answer = [0; 1024];
        // An answer, the end or an error: each is the end of it. A time-out is not.
        while let Err(error) = client.read(&mut answer) {
            if !matches!(error.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut) {
                break;
            }
            assert!(began.elapsed() < Duration::from_mins(2), "it may drip for ever");
            let _ = client.write_all(b"x");
        }
    }
    relay.signal(Signal::SIGTERM);
    assert_eq!(relay.end().0, Some(0));
}

/// What an operator has not seen in the preview is not discarded with it.
#[test]
fn a_dead_letter_that_came_after_the_preview_stays() {
    let world = World::new();
    let token = world.ok(&["token", "create", "ann", "--role", "admin"]).trim().to_owned();
    let address = free();
    let relay = relay(&world, &["--listen", &address], &[]);
    until(&address, "/readyz", "ready", |answer| answer.status == 200);
    let dies = |id: &str, count: usize| {
        world.append(id, "order.bad", id);
        wait("it dies", || world.json(&["dead", "ls"]).as_array().unwrap().len() == count);
    };
    dies("seen", 1);
    let preview = post(&address, &token, "/api/v1/dead/discard", &json!({ "route": "mailer", "dry_run": true })).1;
    assert_eq!(preview["deliveries"], 1, "{preview}");
    dies("unseen", 2);
    let both = json!({ "route": "mailer", "confirm": 1 });
    assert_eq!(post(&address, &token, "/api/v1/dead/discard", &both).0, 409, "there are two by now");
    let seen = json!({ "route": "mailer", "confirm": 1, "died_by": preview["died_by"] });
    let (status, done) = post(&address, &token, "/api/v1/dead/discard", &seen);
    assert_eq!((status, &done["deliveries"]), (200, &json!(1)), "{done}");
    let left = world.json(&["dead", "ls"]);
    assert_eq!((left.as_array().unwrap().len(), &left[0]["id"]), (1, &json!("unseen")));
    // By command: the question is asked, another one dies, and then it is answered.
    let mut command = world.terminal(200, "postroom dead discard --route mailer");
    command.stdin(Stdio::piped());
    let mut asked = Running::start(command);
    asked.read_until("[y/N] ");
    dies("later", 2);
    asked.type_in("y\n");
    assert_eq!(asked.end().0, Some(0));
    let left = world.json(&["dead", "ls"]);
    assert_eq!((left.as_array().unwrap().len(), &left[0]["id"]), (1, &json!("later")));
    relay.signal(Signal::SIGTERM);
    assert_eq!(relay.end().0, Some(0));
}

/// Each relay asks the store: what one has made or revoked counts at the other.
#[test]
fn a_token_that_one_relay_revokes_is_refused_by_the_other() {
    let world = World::new();
    let token = |name: &str| world.ok(&["token", "create", name, "--role", "admin"]).trim().to_owned();
    let (ann, bob) = (token("ann"), token("bob"));
    let addresses = [free(), free()];
    let relays = addresses.each_ref().map(|address| relay(&world, &["--listen", address], &[]));
    let get = |address: &str, token: &str| ask(address, "/api/v1/events", &[&format!("authorization: Bearer {token}")]);
    for address in &addresses {
        until(address, "/livez", "alive", |answer| answer.status == 200);
        wait("both are known to both", || {
            [&ann, &bob].iter().all(|token| get(address, token).is_some_and(|answer| answer.status == 200))
        });
    }
    let mut stream = TcpStream::connect(&addresses[0]).unwrap();
    let host = &addresses[0];
    write!(
        stream,
        "DELETE /api/v1/tokens/bob HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\nauthorization: Bearer {ann}\r\n\r\n"
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    for address in &addresses {
        wait("it is refused", || get(address, &bob).is_some_and(|answer| answer.status == 401));
        assert_eq!(get(address, &ann).unwrap().status, 200);
    }
    for relay in relays {
        relay.signal(Signal::SIGTERM);
        assert_eq!(relay.end().0, Some(0));
    }
}

#[test]
fn only_http_1_is_spoken() {
    let world = World::new();
    let address = free();
    let relay = relay(&world, &["--listen", &address], &[]);
    until(&address, "/readyz", "ready", |answer| answer.status == 200);
    let mut client = TcpStream::connect(&address).unwrap();
    client.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").unwrap();
    let mut answer = Vec::new();
    let _ = client.read_to_end(&mut answer);
    assert!(!answer.starts_with(&[0, 0]), "no frame of HTTP/2 comes back: {answer:?}");
    relay.signal(Signal::SIGTERM);
    assert_eq!(relay.end().0, Some(0));
}

/// What curl says of a page of the relay, and whether it got one.
fn curl(port: &str, more: &[&str]) -> (bool, String) {
    let url = format!("https://localhost:{port}/livez");
    let said = Command::new("curl").args(["-sS", "--max-time", "30", &url]).args(more).output().unwrap();
    (said.status.success(), String::from_utf8_lossy(&said.stdout).into_owned() + &String::from_utf8_lossy(&said.stderr))
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn the_door_speaks_tls_knows_its_clients_and_takes_a_new_certificate_without_a_restart() {
    let world = World::new();
    let (first, second) = (Certificates::at(world.path("first")), Certificates::at(world.path("second")));
    first.make().unwrap();
    second.make().unwrap();
    let (cert, key) = (world.path("cert.pem"), world.path("key.pem"));
    let put = |from: &Certificates| {
        let server = from.server();
        std::fs::copy(&server.key, &key).unwrap();
        std::fs::copy(&server.cert, &cert).unwrap();
    };
    put(&first);
    let config = std::fs::read_to_string(world.path("postroom.toml")).unwrap();
    let address = free();
    let port = address.rsplit(':').next().unwrap();
    let http = |more: &str| {
        world.write(
            "postroom.toml",
            &format!(
                "{config}\n[http]\nlisten = \"{address}\"\n\
                 tls = {{ cert_file = \"cert.pem\", key_file = \"key.pem\"{more} }}\n"
            ),
        );
    };
    http("");
    let running = relay(&world, &[], &[]);
    let trusting =
        ["--cacert", text(&first.ca()), "--resolve", &format!("localhost:{port}:127.0.0.1")].map(str::to_owned);
    let trusting: Vec<&str> = trusting.iter().map(String::as_str).collect();
    wait("it answers over TLS", || curl(port, &trusting) == (true, "ok\n".to_owned()));
    assert!(ask(&address, "/livez", &[]).is_none(), "nothing is answered without TLS");
    let other_ca = second.ca();
    let distrusting = ["--cacert", text(&other_ca)];
    assert!(!curl(port, &distrusting).0, "a certificate of another authority is not trusted");

    std::fs::write(&cert, "not a certificate").unwrap();
    let looked_at = Instant::now() + Duration::from_secs(3);
    while Instant::now() < looked_at {
        assert!(curl(port, &trusting).0, "a file that cannot be used changes nothing");
    }
    put(&second);
    wait("the new certificate is used", || curl(port, &distrusting).0);
    running.signal(Signal::SIGTERM);
    assert_eq!(running.end().0, Some(0));

    std::fs::copy(first.ca(), world.path("clients.pem")).unwrap();
    http(", client_ca_file = \"clients.pem\"");
    let running = relay(&world, &[], &[]);
    let client = first.client();
    let known = ["--cacert", text(&other_ca), "--cert", text(&client.cert), "--key", text(&client.key)];
    wait("a client with a certificate is let in", || curl(port, &known).0);
    assert!(!curl(port, &distrusting).0, "a client without one is not");
    running.signal(Signal::SIGTERM);
    assert_eq!(running.end().0, Some(0));
}

#[test]
fn an_address_that_others_reach_needs_tls_or_a_proxy_that_is_spelled_out() {
    let world = World::new();
    let config = std::fs::read_to_string(world.path("postroom.toml")).unwrap();
    let http = |more: &str| {
        let http = format!("{config}\n[http]\nlisten = \"0.0.0.0:7480\"\nanonymous = \"none\"\n{more}\n");
        world.write("postroom.toml", &http);
        world.run(&["config", "check"])
    };
    let said = http("");
    assert_eq!(said.code, 2, "{}", said.stderr);
    assert!(said.stderr.contains("in clear") && said.stderr.contains("tls_by_proxy"), "{}", said.stderr);
    assert_eq!(http("tls_by_proxy = true").code, 0);
    let said = http("tls = { cert_file = \"missing.pem\", key_file = \"missing.key\" }");
    assert!(said.code == 2 && said.stderr.contains("missing.pem cannot be read"), "{}", said.stderr);
    let said = http("tls = { cert_file = \"missing.pem\" }");
    assert!(said.code == 2 && said.stderr.contains("belong together"), "{}", said.stderr);
}

/// By a name of its own that leads here, or by a picture: no page of another site learns or does anything, on any path.
#[test]
fn a_page_of_another_site_gets_nothing_on_any_path() {
    let world = World::new();
    let config = std::fs::read_to_string(world.path("postroom.toml")).unwrap();
    world.write("postroom.toml", &format!("{config}\n[http]\nhosts = [\"postroom.example\"]\n"));
    let address = free();
    let relay = relay(&world, &["--listen", &address], &[]);
    until(&address, "/readyz", "ready", |answer| answer.status == 200);
    let get = |path: &str, host: &str, header: &str| {
        let mut stream = TcpStream::connect(&address).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n{header}\r\n").unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        assert!(text.to_lowercase().contains("x-content-type-options: nosniff"), "{text}");
        text.split(' ').nth(1).unwrap().parse::<u16>().unwrap()
    };
    for path in ["/livez", "/readyz?verbose", "/metrics", "/v1/health", "/v1/metrics", "/api/v1/status", "/nothing"] {
        let usual = if path == "/nothing" { 404 } else { 200 };
        assert_eq!(get(path, &address, ""), usual, "{path}");
        assert_eq!(get(path, "postroom.example", ""), usual, "{path}: a name that is listed");
        assert_eq!(get(path, "evil.example", ""), 421, "{path}");
        assert_eq!(get(path, &address, "origin: https://evil.example\r\n"), 403, "{path}");
        assert_eq!(get(path, &address, "sec-fetch-site: cross-site\r\n"), 403, "{path}");
        assert_eq!(get(path, &address, "sec-fetch-site: same-origin\r\n"), usual, "{path}");
    }
    relay.signal(Signal::SIGTERM);
    assert_eq!(relay.end().0, Some(0));
}

/// What a worker is answered.
pub(crate) fn post(address: &str, token: &str, path: &str, body: &Value) -> (u16, Value) {
    let body = body.to_string();
    let mut stream = TcpStream::connect(address).unwrap();
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\nauthorization: Bearer {token}\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all((head + &body).as_bytes()).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    (head.split(' ').nth(1).unwrap().parse().unwrap(), serde_json::from_str(body).unwrap())
}

/// A worker with a bug, or a stolen token, takes nobody else's events, and holds its own no longer than the route allows.
#[test]
fn a_worker_settles_its_own_leases_only_and_does_nothing_else() {
    let world = World::new();
    let config = std::fs::read_to_string(world.path("postroom.toml")).unwrap();
    let start = config.find("[[route]]").unwrap();
    let routes = "[[route]]\nname = \"mailer\"\nmatch = [\"order.*\"]\nto = { pull = { lease = \"2s\" } }\n\
                  [[route]]\nname = \"bills\"\nmatch = [\"bill.*\"]\nto = { pull = {} }\n";
    world.write("postroom.toml", &format!("{}{routes}", &config[..start]));
    world.ok(&["store", "migrate", "up"]);
    let token = |name: &str, route: &str| {
        let args = ["token", "create", name, "--role", "worker", "--route", route];
        world.ok(&args).trim().to_owned()
    };
    let (ann, bob, bills) = (token("ann", "mailer"), token("bob", "mailer"), token("bills", "bills"));
    let address = free();
    let relay = relay(&world, &["--listen", &address], &[]);
    until(&address, "/readyz", "ready", |answer| answer.status == 200);
    for id in ["one", "two"] {
        world.append(id, "order.placed", id);
    }
    let lease = json!({ "limit": 1, "wait": "20s", "lease": "1h" });
    let leased = |token: &str| {
        let (status, events) = post(&address, token, "/api/v1/pull/mailer", &lease);
        assert_eq!(status, 200, "{events}");
        (events[0]["lease"].as_str().unwrap().to_owned(), events[0]["id"].as_str().unwrap().to_owned())
    };
    let ((of_ann, id), (of_bob, _)) = (leased(&ann), leased(&bob));
    assert!(of_ann.len() == 32 && of_bob.len() == 32 && of_ann[..8] != of_bob[..8], "{of_ann} {of_bob}");
    let settle = |token: &str, lease: &str| {
        let result = json!({ "results": [{ "lease": lease, "error": "mine now", "permanent": true }] });
        post(&address, token, "/api/v1/pull/mailer/settle", &result)
    };
    assert_eq!(settle(&bob, &of_ann), (200, json!({ "settled": 0, "unknown": [of_ann] })));
    assert_eq!(post(&address, &bills, "/api/v1/pull/mailer", &lease).0, 403, "another route's worker");
    for path in ["/api/v1/status", "/api/v1/events", "/api/v1/dead", "/metrics"] {
        let bearer = format!("authorization: Bearer {ann}");
        assert_eq!(ask(&address, path, &[&bearer]).unwrap().status, 403, "{path}");
    }
    assert_eq!(post(&address, &ann, "/api/v1/routes/mailer/pause", &json!({})).0, 403);
    // An hour was asked for, and the route allows two seconds: the event comes again.
    wait("a lease ends when the route says", || {
        let (_, events) = post(&address, &bob, "/api/v1/pull/mailer", &json!({ "limit": 9, "wait": "1s" }));
        events.as_array().unwrap().iter().any(|event| event["id"] == id.as_str())
    });
    assert_eq!(world.json(&["dead", "ls"]), json!([]));
    let metrics = ask(&address, "/metrics", &[]).unwrap().body;
    let foreign = "postroom_pull_foreign_settles_total{store=\"main\",route=\"mailer\"}";
    assert!((value_of(&metrics, foreign) - 1.0).abs() < 0.1, "{metrics}");
    relay.signal(Signal::SIGTERM);
    assert_eq!(relay.end().0, Some(0));
}
