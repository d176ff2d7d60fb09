//! The child process of the tests' exec routes: `e2e-child JOURNAL MODE`.
//!
//! Writes every event it receives into the journal, then answers as the file MODE says at that moment.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "what cannot be done ends the child, which the relay notices"
)]

use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, BufRead, Write};
use std::os::unix::process::parent_id;
use std::thread;
use std::time::Duration;

use postroom_e2e::{Answer, Journal, Reception};
use serde_json::{Value, json};

/// How long one event takes, so that several are on their way at any moment.
const WORK: Duration = Duration::from_millis(1);

fn main() {
    let mut args = std::env::args().skip(1);
    let journal = Journal::at(args.next().expect("a journal"));
    let mode = args.next().expect("a file with the mode");
    let mode = || fs::read_to_string(&mode).unwrap_or_default();
    let relay = parent_id();
    for line in io::stdin().lock().lines() {
        let request: Value = serde_json::from_str(&line.unwrap()).unwrap();
        let now = mode();
        let mut reception = Reception {
            relay,
            route: text(&request["route"]),
            id: text(&request["id"]),
            key: text(&request["envelope"]["data"]["key"]),
            number: request["envelope"]["data"]["number"].as_u64().unwrap_or(0),
            attempt: u32::try_from(request["attempt"].as_u64().unwrap()).unwrap(),
            answer: Answer::Ok,
        };
        reception.answer = match now.trim() {
            "die" | "babble" | "silence" => Answer::None,
            "flaky" if is_unlucky(&reception) => Answer::Again,
            _ => Answer::Ok,
        };
        journal.add(&reception);
        match now.trim() {
            "die" => return,
            "babble" => say("{ this is not an answer"),
            "silence" => {}
            "hold" => {
                while mode() == now {
                    thread::park_timeout(WORK);
                }
                answer(&reception);
            }
            _ => {
                thread::park_timeout(WORK);
                answer(&reception);
            }
        }
    }
}

/// Every twentieth event fails at its first try, on each route another.
fn is_unlucky(reception: &Reception) -> bool {
    let mut hasher = DefaultHasher::new();
    (&reception.route, &reception.id).hash(&mut hasher);
    reception.attempt == 1 && hasher.finish().is_multiple_of(20)
}

fn answer(reception: &Reception) {
    let id = &reception.id;
    match reception.answer {
        Answer::Ok => say(&json!({"id": id, "ok": true}).to_string()),
        Answer::Again => say(&json!({"id": id, "error": "not now"}).to_string()),
        Answer::None => {}
    }
}

fn say(line: &str) {
    // A relay that was killed does not read any more; what it handed over is still received.
    let _ = writeln!(io::stdout(), "{line}");
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or("-").to_owned()
}
