//! A proxy between relay and receiver of a webhook that changes requests on their way.

#![allow(clippy::unwrap_used, clippy::panic, reason = "what cannot be run fails the test")]

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;

use crate::world::{Running, World};

const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

/// Passes one request on with other CloudEvents headers, as a proxy that ends TLS could; its port.
fn proxy(to: u16) -> u16 {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        let (mut relay, _) = listener.accept().unwrap();
        let request = request(&mut relay);
        let (head, body) = request.split_once("\r\n\r\n").unwrap();
        let kept = head.lines().filter(|line| !line.to_ascii_lowercase().starts_with("ce-"));
        let kept: Vec<&str> = kept.collect();
        let forged = "ce-type: payment.refunded\r\nce-tenant: victim\r\nconnection: close";
        let mut receiver = TcpStream::connect(("127.0.0.1", to)).unwrap();
        write!(receiver, "{}\r\n{forged}\r\n\r\n{body}", kept.join("\r\n")).unwrap();
        let mut answer = String::new();
        receiver.read_to_string(&mut answer).unwrap();
        relay.write_all(answer.as_bytes()).unwrap();
    });
    port
}

/// A whole request with its body.
fn request(stream: &mut TcpStream) -> String {
    let (mut read, mut part) = (Vec::new(), [0; 4096]);
    loop {
        let count = stream.read(&mut part).unwrap();
        assert!(count > 0, "the request ended early");
        read.extend_from_slice(&part[..count]);
        let text = String::from_utf8_lossy(&read);
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let head = head.to_ascii_lowercase();
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
        if body.len() >= length.parse::<usize>().unwrap() {
            return text.into_owned();
        }
    }
}

/// What a receiver prints of an event that came through the proxy, from a route with this envelope.
fn through_the_proxy(world: &World, envelope: &str) -> String {
    world.write("secret", SECRET);
    let mut receiver =
        Running::start(world.command(&["webhook", "listen", "--port", "0", "--secret-file", "secret", "--once"]));
    let told = receiver.note();
    let port = told.split("http://127.0.0.1:").nth(1).unwrap_or_else(|| panic!("{told}"));
    let port = proxy(port.split(';').next().unwrap().parse().unwrap());
    let folder = world.folder().display();
    let config = format!(
        r#"store.main.url = "sqlite://{folder}/shop.db"
[transport.webhook]
https_only = false
allow_networks = ["127.0.0.0/8"]
[[route]]
name = "partner"
{envelope}
to = {{ webhook = {{ url = "http://127.0.0.1:{port}/hook", secret_file = "secret" }} }}
"#
    );
    world.write("postroom.toml", &config);
    world.ok(&["store", "migrate", "up"]);
    world.append("e-1", "payment.failed", "order-1");
    world.ok(&["relay", "run", "--drain"]);
    receiver.wait_for("e-1")
}

#[test]
fn a_proxy_cannot_change_what_a_signed_webhook_says() {
    let world = World::bare();
    let line = through_the_proxy(&world, "");
    assert!(line.contains("e-1  payment.failed  ") && line.contains("signature ok  → 204"), "{line}");
    let said = world.ok(&["config", "check"]);
    assert!(!said.contains("warning"), "{said}");
}

#[test]
fn a_type_in_an_unsigned_header_is_warned_of_and_marked() {
    let world = World::bare();
    let line = through_the_proxy(&world, r#"envelope = "cloudevents-binary""#);
    assert!(line.contains("e-1  payment.refunded (unsigned header)  "), "{line}");
    let said = world.ok(&["config", "check"]);
    assert!(said.contains("warning  route partner: webhook.unsigned_headers: the signature does not cover ce-type"));
}
