//! Reads along in PostgreSQL's protocol, version 3: which statements a client executes, and when the server is done.
//!
//! Each simple query, function call and sync is answered by exactly one "ready for query", also after errors. So the
//! answer to a statement has come when the server was ready as often as it was asked to be.

use std::collections::HashMap;

const PROTOCOL_3: u32 = 196_608;
const SSL_REQUEST: u32 = 80_877_103;
const GSS_REQUEST: u32 = 80_877_104;

/// A statement that the client asks the server to execute.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Executed {
    pub(super) text: String,
    /// Where its message begins in the chunk that completed it; 0 if in an earlier chunk.
    pub(super) start: usize,
    /// How many times the server has been ready once this is done.
    pub(super) ready: u64,
}

impl Executed {
    pub(super) fn commits(&self) -> bool {
        let first_words = self.text.split(';').filter_map(|statement| statement.split_whitespace().next());
        first_words.into_iter().any(|word| word.eq_ignore_ascii_case("commit") || word.eq_ignore_ascii_case("end"))
    }
}

/// One connection's protocol, from its first byte.
#[derive(Debug, Default)]
pub(super) struct Follower {
    client: Framer,
    server: Framer,
    /// The first messages of a client have no type.
    started: bool,
    /// Requests for encryption are answered by one byte without a frame.
    bare_answers: usize,
    statements: HashMap<Vec<u8>, String>,
    portals: HashMap<Vec<u8>, String>,
    asked: u64,
    ready: u64,
}

impl Follower {
    /// How many times the server has said that it is ready.
    pub(super) fn ready(&self) -> u64 {
        self.ready
    }

    /// Whether the server has answered all that it was asked.
    pub(super) fn is_idle(&self) -> bool {
        self.ready >= self.asked
    }

    pub(super) fn client_says(&mut self, chunk: &[u8]) -> Vec<Executed> {
        let mut executed = Vec::new();
        self.client.push(chunk);
        while let Some(message) = self.client.next(self.started) {
            let Some(kind) = message.kind else {
                self.start(&message.body);
                continue;
            };
            let mut texts = message.body.split(|byte| *byte == 0);
            let mut text = || texts.next().unwrap_or_default().to_vec();
            let mut run = |text: String, ready: u64| executed.push(Executed { text, start: message.start, ready });
            match kind {
                b'Q' => {
                    self.asked += 1;
                    run(readable(&text()), self.asked);
                }
                b'F' | b'S' => self.asked += 1,
                b'P' => {
                    self.statements.insert(text(), readable(&text()));
                }
                b'B' => {
                    let (portal, statement) = (text(), text());
                    self.portals.insert(portal, self.statements.get(&statement).cloned().unwrap_or_default());
                }
                b'E' => run(self.portals.get(&text()).cloned().unwrap_or_default(), self.asked + 1),
                _ => {}
            }
        }
        executed
    }

    pub(super) fn server_says(&mut self, chunk: &[u8]) {
        self.server.push(chunk);
        while self.bare_answers > 0 && self.server.skip_byte() {
            self.bare_answers -= 1;
        }
        while let Some(message) = self.server.next(true) {
            self.ready += u64::from(message.kind == Some(b'Z'));
        }
    }

    fn start(&mut self, body: &[u8]) {
        match body.first_chunk().map(|code| u32::from_be_bytes(*code)) {
            Some(SSL_REQUEST | GSS_REQUEST) => self.bare_answers += 1,
            Some(PROTOCOL_3) => {
                self.started = true;
                // The server is ready for the first time when it has let the client in.
                self.asked = 1;
            }
            _ => {}
        }
    }
}

fn readable(text: &[u8]) -> String {
    String::from_utf8_lossy(text).into_owned()
}

struct Message {
    kind: Option<u8>,
    body: Vec<u8>,
    start: usize,
}

/// Cuts a stream into messages: a type, a length that includes itself, a body.
#[derive(Debug, Default)]
struct Framer {
    bytes: Vec<u8>,
    /// How many of them came before the last chunk.
    before: usize,
    /// How many of the last chunk's are used up.
    used: usize,
}

impl Framer {
    fn push(&mut self, chunk: &[u8]) {
        self.before = self.bytes.len();
        self.used = 0;
        self.bytes.extend_from_slice(chunk);
    }

    fn next(&mut self, typed: bool) -> Option<Message> {
        let head = usize::from(typed);
        let length = u32::from_be_bytes(*self.bytes.get(head..)?.first_chunk()?) as usize;
        let body = self.bytes.get(head + 4..head + length.max(4))?.to_vec();
        let kind = self.bytes.first().copied().filter(|_| typed);
        let start = self.used.saturating_sub(self.before);
        self.take(head + length.max(4));
        Some(Message { kind, body, start })
    }

    fn skip_byte(&mut self) -> bool {
        let is_there = !self.bytes.is_empty();
        self.take(usize::from(is_there));
        is_there
    }

    fn take(&mut self, count: usize) {
        self.bytes.drain(..count);
        self.used += count;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(kind: u8, body: &[u8]) -> Vec<u8> {
        let length = u32::try_from(body.len() + 4).unwrap().to_be_bytes();
        [&[kind][..], &length, body].concat()
    }

    fn untyped(code: u32, rest: &[u8]) -> Vec<u8> {
        message(0, &[&code.to_be_bytes()[..], rest].concat()).split_off(1)
    }

    #[test]
    fn statements_are_found_wherever_the_stream_is_split() {
        let stream = [
            untyped(SSL_REQUEST, b""),
            untyped(PROTOCOL_3, b"user\0postgres\0\0"),
            message(b'Q', b"begin\0"),
            message(b'P', b"s1\0commit\0\0\0"),
            message(b'S', b""),
            message(b'B', b"\0s1\0\0\0\0\0\0\0"),
            message(b'E', b"\0\0\0\0\0"),
            message(b'S', b""),
        ]
        .concat();
        for split in 0..=stream.len() {
            let (first, second) = stream.split_at(split);
            let mut follower = Follower::default();
            let mut executed = follower.client_says(first);
            executed.extend(follower.client_says(second));
            let found: Vec<_> = executed.iter().map(|one| (one.text.as_str(), one.ready, one.commits())).collect();
            assert_eq!(found, [("begin", 2, false), ("commit", 4, true)], "split at {split}");
        }
    }

    #[test]
    fn the_server_is_ready_as_often_as_it_says_so() {
        let stream = [
            b"N".to_vec(),
            message(b'R', b"\0\0\0\0"),
            message(b'Z', b"I"),
            message(b'N', b"Z\0"),
            message(b'Z', b"T"),
        ];
        let stream = stream.concat();
        for split in 0..=stream.len() {
            let (first, second) = stream.split_at(split);
            let mut follower = Follower::default();
            follower.client_says(&untyped(SSL_REQUEST, b""));
            follower.server_says(first);
            follower.server_says(second);
            assert_eq!(follower.ready(), 2, "split at {split}");
        }
    }
}
