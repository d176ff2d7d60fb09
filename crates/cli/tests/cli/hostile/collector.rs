//! Collectors of traces that hang, answer garbage, or never stop answering. Deliveries do not wait for them.

#![allow(clippy::unwrap_used, reason = "what cannot be made or run fails the test")]

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use serde_json::Value;

use crate::adopted::sql;
use crate::http::relay;
use crate::network::wait;
use crate::world::World;

/// Memory that a relay may need more than before, in bytes.
const MORE_MEMORY_MAX: u64 = 32 << 20;

/// Accepts clients, tells of each one, and treats it so.
fn collector(treat: fn(TcpStream)) -> (String, mpsc::Receiver<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let (came, clients) = mpsc::channel();
    thread::spawn(move || {
        while let Ok((stream, _)) = listener.accept() {
            let _ = came.send(());
            thread::spawn(move || treat(stream));
        }
    });
    (address, clients)
}

fn hangs(mut stream: TcpStream) {
    let mut part = [0; 4096];
    while stream.read(&mut part).is_ok_and(|count| count > 0) {}
}

fn garbage(mut stream: TcpStream) {
    let _ = stream.read(&mut [0; 4096]);
    let _ = stream.write_all(&[0xff; 8192]);
}

fn endless(mut stream: TcpStream) {
    let _ = stream.read(&mut [0; 4096]);
    let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-type: application/x-protobuf\r\n\r\n");
    while stream.write_all(&[b'A'; 65_536]).is_ok() {}
}

#[test]
fn a_hostile_collector_stops_no_delivery_and_no_relay() {
    for treat in [hangs as fn(TcpStream), garbage, endless] {
        let (address, clients) = collector(treat);
        let world = World::new();
        let config = std::fs::read_to_string(world.path("postroom.toml")).unwrap();
        let telemetry = format!("[telemetry]\notlp = \"http://{address}\"\nsample = 1.0\n\n");
        world.write("postroom.toml", &config.replacen("[[route]]", &format!("{telemetry}[[route]]"), 1));
        let relay = relay(&world, &[], &[]);
        // By hand, so that only the relay has traces to send.
        let append = |from: u64, count: u64| {
            let rows: Vec<String> = (from..from + count).map(|n| format!("('e-{n}', 'order.placed', '1')")).collect();
            sql(&world, &format!("insert into postroom_log (id, type, payload) values {}", rows.join(",")));
            wait("they are delivered", || {
                let routes = world.json(&["status"])["routes"].take();
                let all = |route: &Value| route["route"] == "mailer" && route["delivered"] == from + count;
                routes.as_array().unwrap().iter().any(all)
            });
        };
        append(0, 200);
        clients.recv_timeout(Duration::from_mins(2)).unwrap();
        let before = relay.peak_memory();
        // It answers, or does not, while these are delivered.
        for n in 0..5 {
            append(200 + n * 50, 50);
        }
        assert!(relay.peak_memory() - before < MORE_MEMORY_MAX);
        let began = Instant::now();
        relay.signal(Signal::SIGTERM);
        assert_eq!(relay.end().0, Some(0));
        assert!(began.elapsed() < Duration::from_mins(1), "it stops in time");
    }
}
