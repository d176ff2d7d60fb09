//! Brokers that are not those that were meant, and names that would reach another tenant's place.

#![allow(clippy::unwrap_used, reason = "what cannot be made or run fails the test")]

use std::io::{Read, Write};
use std::net::TcpStream;

use nix::sys::signal::Signal;
use postroom_testbed::brokers::Redis;
use postroom_testbed::{Certificates, Identity, Impostor, OwnServer};
use tokio::runtime::Runtime;

use crate::http::relay;
use crate::network::wait;
use crate::world::World;

/// What a NATS server says in the open before both turn to TLS.
const NATS: &[u8] =
    b"INFO {\"server_id\":\"x\",\"version\":\"2.9.10\",\"max_payload\":1048576,\"tls_required\":true}\r\n";

/// A route to a broker at this address, with a password.
fn route(kind: &str, name: &str, host: &str, port: u16, ca: &str) -> String {
    let tls = format!("tls = {{ ca_file = \"{ca}\" }}");
    let to = match kind {
        "kafka" => format!(
            "brokers = [\"{host}:{port}\"], topic = \"t\", {tls}, \
             sasl = {{ mechanism = \"plain\", username = \"u\", password = \"canary\" }}"
        ),
        "rabbitmq" => format!("url = \"amqps://u:canary@{host}:{port}\", exchange = \"e\", {tls}"),
        "nats" => {
            format!("url = \"nats://u:canary@{host}:{port}\", stream = \"S\", subject = \"s.{{type}}\", {tls}")
        }
        _ => format!("url = \"rediss://u:canary@{host}:{port}\", stream = \"s\", {tls}"),
    };
    format!("[[route]]\nname = \"{name}\"\nto = {{ {kind} = {{ {to} }} }}\n")
}

fn impostor(runtime: &Runtime, kind: &str, shows: &Identity) -> Impostor {
    runtime.block_on(Impostor::greeting(shows, if kind == "nats" { NATS } else { b"" })).unwrap()
}

#[test]
fn a_relay_tells_nothing_to_brokers_that_cannot_prove_who_they_are_and_keeps_its_events() {
    let world = World::bare();
    let certificates = Certificates::at(world.path("certificates"));
    certificates.make().unwrap();
    let ca = certificates.ca().display().to_string();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let config = std::fs::read_to_string(world.path("postroom.toml")).unwrap();
    let (store, _) = config.split_once("[[route]]").unwrap();
    let (mut routes, mut wrong, mut right) = (String::new(), Vec::new(), Vec::new());
    for kind in ["kafka", "rabbitmq", "nats", "redis"] {
        for (why, shows, host) in [
            ("expired", certificates.expired(), "localhost"),
            ("foreign", certificates.stranger(), "localhost"),
            ("misnamed", certificates.server(), "127.0.0.1"),
        ] {
            let impostor = impostor(&runtime, kind, &shows);
            let name = format!("{kind}-{why}");
            routes += &route(kind, &name, host, impostor.port(), &ca);
            wrong.push((name, impostor));
        }
        // The control: to one that can, it speaks.
        let proper = impostor(&runtime, kind, &certificates.server());
        routes += &route(kind, &format!("{kind}-right"), "localhost", proper.port(), &ca);
        right.push((kind, proper));
    }
    world.write("postroom.toml", &format!("{store}{routes}"));
    world.ok(&["store", "migrate", "up"]);
    world.append("e-1", "order.placed", "k");
    let relay = relay(&world, &[], &[]);
    wait("all have been tried", || {
        wrong.iter().all(|(_, impostor)| impostor.refused() > 0) && right.iter().all(|(_, proper)| proper.told() > 0)
    });
    wait("each route says why", || {
        let status = world.json(&["status"]);
        let said = |(name, _): &(String, Impostor)| {
            let (kind, _) = name.split_once('-').unwrap();
            let is = |route: &serde_json::Value| {
                route["route"] == name.as_str()
                    && route["message"].as_str().is_some_and(|message| message.contains(&format!("{kind}.tls")))
            };
            status["routes"].as_array().unwrap().iter().any(is)
        };
        wrong.iter().all(said)
    });
    for (name, impostor) in &wrong {
        assert_eq!(impostor.told(), 0, "{name} was told something");
    }
    let status = world.json(&["status"]);
    for route in status["routes"].as_array().unwrap() {
        let counts = (route["delivered"].as_u64().unwrap_or(0), route["dead"].as_u64().unwrap_or(0));
        assert_eq!(counts, (0, 0), "its event waits: {route}");
    }
    relay.signal(Signal::SIGTERM);
    assert_eq!(relay.end().0, Some(0));
}

/// What the server answers to a command.
fn redis(server: &OwnServer, command: &str) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", server.site.port)).unwrap();
    write!(stream, "{command}\r\nQUIT\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn a_tenant_with_a_colon_reaches_no_stream_of_another() {
    let server = OwnServer::start(&Redis).unwrap();
    let world = World::bare();
    let config = std::fs::read_to_string(world.path("postroom.toml")).unwrap();
    let (store, _) = config.split_once("[[route]]").unwrap();
    let to = format!("url = \"redis://127.0.0.1:{}\", stream = \"{{tenant}}:{{aggregate_id}}\"", server.site.port);
    world.write("postroom.toml", &format!("{store}[[route]]\nname = \"r\"\nto = {{ redis = {{ {to} }} }}\n"));
    world.ok(&["store", "migrate", "up"]);
    // Both would be `acme:eu:7`.
    for (id, tenant, aggregate) in [("honest", "acme", "eu:7"), ("forged", "acme:eu", "7")] {
        let args = ["event", "append", "--id", id, "--type", "order.placed", "--tenant", tenant];
        world.ok(&[&args[..], &["--aggregate-type", "order", "--aggregate-id", aggregate]].concat());
    }
    world.ok(&["relay", "run", "--drain"]);
    assert!(redis(&server, "XLEN acme:eu:7").starts_with(":1\r\n"));
    let dead = world.json(&["dead", "ls"]);
    assert_eq!(dead.as_array().unwrap().len(), 1, "{dead}");
    assert_eq!((&dead[0]["id"], &dead[0]["code"]), (&"forged".into(), &"template.value".into()), "{dead}");
}
