//! Servers that pretend to be ours, and networks that listen.

#![allow(clippy::unwrap_used, reason = "what cannot be run fails the test")]

use std::io::{Read, Write};
use std::net::TcpListener;
use std::thread::{self, JoinHandle};

use crate::postgres::Shop;
use crate::world::World;

/// A PostgreSQL server without TLS that asks for the password in clear: its port, and everything that one client sent.
fn impostor() -> (u16, JoinHandle<Vec<u8>>) {
    let listener = TcpListener::bind(("0.0.0.0", 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    let received = thread::spawn(move || {
        let (mut client, _) = listener.accept().unwrap();
        let mut received = Vec::new();
        let mut part = [0; 1024];
        let mut hear = |client: &mut std::net::TcpStream| {
            let count = client.read(&mut part).unwrap_or(0);
            received.extend_from_slice(&part[..count]);
            count > 0
        };
        if hear(&mut client) && client.write_all(b"N").is_ok() && hear(&mut client) {
            // AuthenticationCleartextPassword
            let _ = client.write_all(&[b'R', 0, 0, 0, 8, 0, 0, 0, 3]);
            hear(&mut client);
        }
        received
    });
    (port, received)
}

#[test]
fn a_server_that_cannot_prove_who_it_is_gets_no_password() {
    let world = World::bare();
    // An address that leads here, and does not say so.
    let ask = |url: String| {
        world.write("postroom.toml", &format!("store.main.url = \"{url}\"\n"));
        world.run(&["store", "migrate", "status"])
    };
    let (port, received) = impostor();
    let said = ask(format!("postgres://relay:canary@0.0.0.0:{port}/shop"));
    assert_eq!(said.code, 3, "{}", said.stderr);
    assert!(said.stderr.contains("no TLS connection to shop at 0.0.0.0"), "{}", said.stderr);
    assert!(said.stderr.contains("hint: the server's certificate must be valid for its name"), "{}", said.stderr);
    let received = received.join().unwrap();
    assert_eq!(received.len(), 8, "only the wish for TLS: {}", String::from_utf8_lossy(&received));
    // The control: the old default sends it.
    let (port, received) = impostor();
    ask(format!("postgres://relay:canary@0.0.0.0:{port}/shop?sslmode=prefer"));
    assert!(String::from_utf8_lossy(&received.join().unwrap()).contains("canary"));
}

#[test]
fn sessions_that_travel_in_the_open_are_warned_of() {
    let shop = Shop::new();
    let doctor = || shop.world.run(&["doctor", "--verbose"]).stdout;
    let here = doctor();
    assert!(here.contains("sessions stay on this machine"), "{here}");
    let open = shop.database.url().replace("127.0.0.1", "0.0.0.0");
    let with = if open.contains('?') { '&' } else { '?' };
    shop.config(&format!("{open}{with}sslmode=prefer"), "");
    let there = doctor();
    assert!(there.contains("doctor.plaintext: sessions to "), "{there}");
}

#[test]
fn a_password_in_clear_over_a_network_is_refused_unless_it_is_allowed_in_words() {
    let world = World::bare();
    let check = |to: &str| {
        let config = format!("store.main.url = \"sqlite://shop.db\"\n[[route]]\nname = \"out\"\nto = {{ {to} }}\n");
        world.write("postroom.toml", &config);
        world.run(&["config", "check"])
    };
    let sasl = "sasl = { mechanism = \"plain\", username = \"relay\", password = \"canary\" }";
    for to in [
        format!("kafka = {{ brokers = [\"kafka.example:9092\"], topic = \"orders\", {sasl} ALLOWED }}"),
        "rabbitmq = { url = \"amqp://relay:canary@rabbit.example\" ALLOWED }".to_owned(),
        "nats = { url = \"nats://relay:canary@nats.example\", subject = \"orders\" ALLOWED }".to_owned(),
        "nats = { url = \"nats://nats.example\", token = \"canary\", subject = \"orders\" ALLOWED }".to_owned(),
        "redis = { url = \"redis://:canary@redis.example\", stream = \"orders\" ALLOWED }".to_owned(),
    ] {
        let said = check(&to.replace("ALLOWED", ""));
        assert_eq!(said.code, 2, "{to}");
        assert!(said.stderr.contains(".example without TLS: the network could read it"), "{}", said.stderr);
        assert!(!said.stderr.contains("canary"), "{}", said.stderr);
        assert_eq!(check(&to.replace("ALLOWED", ", allow_plain_password = true")).code, 0, "{to}");
        let here = to.replace("ALLOWED", "");
        let here = ["kafka", "rabbit", "nats", "redis"]
            .iter()
            .fold(here, |text, name| text.replace(&format!("{name}.example"), "localhost"));
        assert_eq!(check(&here).code, 0, "{here}");
    }
}
