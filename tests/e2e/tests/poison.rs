//! A receiver that refuses many events: how fast those behind them arrive, on PostgreSQL.

#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "the receiver takes its time; what fails fails the test"
)]

use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use postroom_e2e::{Server, World, within};

const EVENTS: usize = 2000;
/// How long it thinks before it refuses.
const DELAY: Duration = Duration::from_millis(20);
/// Other programs share the machine, so that a round may be unlucky.
const ROUNDS: usize = 3;

/// Answers 204 to `good…` and, after a while, 500 to everything else. Keeps when it said yes.
#[derive(Clone, Default)]
struct Receiver(Arc<Mutex<Vec<Instant>>>);

impl Receiver {
    fn start(&self) -> u16 {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let receiver = self.clone();
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let receiver = receiver.clone();
                thread::spawn(move || receiver.serve(stream));
            }
        });
        port
    }

    /// One connection, request by request, until its end.
    fn serve(&self, stream: TcpStream) -> Option<()> {
        stream.set_nodelay(true).ok()?;
        let mut answers = stream.try_clone().ok()?;
        let mut requests = BufReader::new(stream);
        loop {
            let (mut good, mut length) = (false, 0);
            loop {
                let mut line = String::new();
                requests.read_line(&mut line).ok().filter(|read| *read > 0)?;
                let line = line.trim_end().to_ascii_lowercase();
                if line.is_empty() {
                    break;
                }
                good |= line.starts_with("webhook-id: good");
                length = line.strip_prefix("content-length: ").map_or(length, |text| text.parse().unwrap());
            }
            requests.read_exact(&mut vec![0; length]).ok()?;
            if good {
                self.0.lock().unwrap().push(Instant::now());
                answers.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").ok()?;
            } else {
                thread::sleep(DELAY);
                answers.write_all(b"HTTP/1.1 500 Internal Server Error\r\ncontent-length: 0\r\n\r\n").ok()?;
            }
        }
    }
}

/// How long the good events take from the start of the relay on, and from the first to the last of them.
fn good_behind(server: &Server, schema: &str, bad: usize) -> (Duration, Duration) {
    let receiver = Receiver::default();
    let world = World::with(
        env!("CARGO_BIN_EXE_e2e-child"),
        &format!(
            "[store.main]\nurl = \"{}\"\nschema = \"{schema}\"\n\
             [[route]]\nname = \"hook\"\nstart = \"beginning\"\n\
             to = {{ webhook = {{ url = \"http://127.0.0.1:{}/\", https_only = false, allow_networks = [\"127.0.0.0/8\"] }} }}\n",
            server.url(),
            receiver.start(),
        ),
    );
    let mut lines = String::new();
    for (what, count) in [("bad", bad), ("good", EVENTS)] {
        for n in 0..count {
            writeln!(lines, "{{\"id\":\"{what}-{n}\",\"type\":\"t\",\"key\":\"{what}-{n}\",\"payload\":{{}}}}")
                .unwrap();
        }
    }
    let said = world.feed(&["event", "append", "-"], &lines);
    assert_eq!(said.code, 0, "{}", said.stderr);
    let began = Instant::now();
    let relay = world.relay("relay");
    within(Duration::from_mins(3), "all good events have arrived", || {
        (receiver.0.lock().unwrap().len() >= EVENTS).then_some(())
    });
    let yes = receiver.0.lock().unwrap().clone();
    assert_eq!(world.route("hook")["state"], "running");
    relay.stop();
    (yes[EVENTS - 1] - began, yes[EVENTS - 1] - yes[0])
}

#[test]
fn two_thousand_refused_events_leave_half_the_rate_to_those_behind_them() {
    let server = Server::start();
    let mut best = 0.0_f64;
    for round in 0..ROUNDS {
        let (control, control_flow) = good_behind(&server, &format!("control_{round}"), 0);
        let (behind, flow) = good_behind(&server, &format!("behind_{round}"), EVENTS);
        let ratio = control_flow.as_secs_f64() / flow.as_secs_f64();
        println!(
            "{control:?} alone, {behind:?} behind {EVENTS} refused; first to last {control_flow:?} and {flow:?}: {ratio:.2}"
        );
        best = best.max(ratio);
        if best >= 0.5 {
            return;
        }
    }
    panic!("at best {best:.2} of the rate without refused events");
}
