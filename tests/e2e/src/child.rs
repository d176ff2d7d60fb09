//! The child process of the tests' exec routes: `e2e-child JOURNAL MODE`.
//!
//! Writes every event it receives into the journal, then answers as the file MODE says at that moment. What is there at
//! once is received and answered at once, so that the child is not what a campaign waits for.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "what cannot be done ends the child, which the relay notices"
)]

use std::collections::VecDeque;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::process::parent_id;
use std::thread;
use std::time::Duration;

use postroom_e2e::{Answer, Journal, Reception};
use serde::Deserialize;
use serde_json::{Value, json};

/// How long what came together takes, so that something is on its way at any moment.
const WORK: Duration = Duration::from_millis(1);
/// Most that is read at once, in bytes.
const READ_MAX: usize = 64 * 1024;

/// What the tests look at of a line.
#[derive(Deserialize)]
struct Request {
    id: String,
    attempt: u32,
    route: String,
    envelope: Envelope,
}

#[derive(Deserialize)]
struct Envelope {
    #[serde(default)]
    data: Value,
}

fn main() {
    let mut args = std::env::args().skip(1);
    let journal = Journal::at(args.next().expect("a journal"));
    let mode = args.next().expect("a file with the mode");
    let mode = || fs::read_to_string(&mode).unwrap_or_default();
    let relay = parent_id();
    let mut input = BufReader::with_capacity(READ_MAX, io::stdin());
    let mut waiting = VecDeque::new();
    while read(&mut input, &mut waiting) {
        let now = mode();
        let together = if matches!(now.trim(), "" | "flaky" | "rarely flaky") { waiting.len() } else { 1 };
        let receptions: Vec<Reception> =
            waiting.drain(..together).map(|request| receive(relay, request, now.trim())).collect();
        journal.add(&receptions);
        match now.trim() {
            "die" => return,
            "babble" => say("{ this is not an answer\n"),
            "silence" => {}
            "hold" => {
                while mode() == now {
                    thread::park_timeout(WORK);
                }
                say(&answers(&receptions));
            }
            _ => {
                thread::park_timeout(WORK);
                say(&answers(&receptions));
            }
        }
    }
}

/// Waits for a line unless some are waiting already, and reads those that came with it. Whether there are any.
fn read<R: Read>(input: &mut BufReader<R>, waiting: &mut VecDeque<Request>) -> bool {
    while waiting.is_empty() || input.buffer().contains(&b'\n') {
        let mut line = String::new();
        if input.read_line(&mut line).unwrap() == 0 {
            break;
        }
        waiting.push_back(serde_json::from_str(&line).unwrap());
    }
    !waiting.is_empty()
}

fn receive(relay: u32, request: Request, mode: &str) -> Reception {
    let Request { id, attempt, route, envelope: Envelope { data } } = request;
    let (key, number) = (data["key"].as_str().unwrap_or("-").to_owned(), data["number"].as_u64().unwrap_or(0));
    let mut reception = Reception { relay, route, id, key, number, attempt, answer: Answer::Ok };
    reception.answer = match mode {
        "die" | "babble" | "silence" => Answer::None,
        "flaky" if is_unlucky(&reception, 20) => Answer::Again,
        "rarely flaky" if is_unlucky(&reception, 100) => Answer::Again,
        _ => Answer::Ok,
    };
    reception
}

/// One event in so many fails at its first try, on each route another.
fn is_unlucky(reception: &Reception, one_in: u64) -> bool {
    let mut hasher = DefaultHasher::new();
    (&reception.route, &reception.id).hash(&mut hasher);
    reception.attempt == 1 && hasher.finish().is_multiple_of(one_in)
}

fn answers(receptions: &[Reception]) -> String {
    let answer = |reception: &Reception| match reception.answer {
        Answer::Ok => format!("{}\n", json!({"id": reception.id, "ok": true})),
        Answer::Again => format!("{}\n", json!({"id": reception.id, "error": "not now"})),
        Answer::None => String::new(),
    };
    receptions.iter().map(answer).collect()
}

fn say(lines: &str) {
    // A relay that was killed does not read any more; what it handed over is still received.
    let mut output = io::stdout();
    let _ = output.write_all(lines.as_bytes()).and_then(|()| output.flush());
}
