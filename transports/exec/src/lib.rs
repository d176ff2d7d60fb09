//! Delivers to a child process, or to whoever listens on a unix socket, that speaks JSON lines: handlers in any language.
//!
//! One line per event goes out:
//!
//! ```json
//! {"id": "0190…", "type": "order.placed", "attempt": 1, "route": "mailer", "envelope": {"specversion": "1.0", "type": "order.placed", "data": {}}}
//! ```
//!
//! and one answer per event comes back, in any order, with several events in flight:
//!
//! ```json
//! {"id": "0190…", "ok": true}
//! {"id": "0190…", "error": "mailbox is full", "permanent": false, "retry_after": "5s"}
//! {"id": "0190…", "errors": [{"handler": "mailer", "error": "mailbox is full"}], "permanent": false}
//! ```
//!
//! The envelope is the route's encoded JSON (structured CloudEvents by default); line breaks between its tokens become
//! spaces, everything else is byte for byte. An event in flight twice is answered in the order it was handed over.
//!
//! # The life of the child
//!
//! It is started at the first delivery, in its own process group, with our working folder and our environment less
//! `POSTROOM_*` and `DATABASE_URL`, and with [`ExecOptions::env`]. When it dies, does not answer an event within
//! [`ExecOptions::timeout`], or answers with a line over [`ANSWER_BYTES_MAX`], the whole group is killed. Events that lie
//! unread in its input are given to the next child. Those that it had begun to read are tried once more, one by one, in a
//! child of their own; the one that ends that one too has `Crashed`, and is tried there from then on.
//!
//! A child that ends without having read anything, or whatever event it is given, is down: everything in flight is `Unavailable`. The next delivery starts
//! it again, but not before its backoff is over (100 ms, doubling to 10 s, forgotten after a successful answer); until
//! then deliveries are `Unavailable` at once, with the remaining time as `retry_after`, so that the relay's breaker does
//! the waiting and nothing is kept here. The end of a socket's other side is always that of the destination.
//!
//! A line that is not an answer is logged (what is wrong with it, never what it says) and ignored; so is an answer
//! nobody waits for. The child's stderr goes line by line into our log, target `postroom::exec`.
//!
//! At the end ([`Transport::close`](postroom_core::Transport::close), or when the transport is dropped) its stdin is
//! closed; it has five seconds to answer what it has and to leave, then the group is killed.

mod backoff;
mod check;
mod codes;
#[cfg(feature = "config")]
mod config;
mod connection;
mod deliver;
mod in_flight;
mod lines;
mod options;
mod process;
mod program;
mod protocol;
mod suspicion;

pub use codes::CODES;
#[cfg(feature = "config")]
pub use config::{ExecConfig, KIND};
pub use deliver::Exec;
pub use options::{Environment, ExecOptions, Target};
pub use protocol::ANSWER_BYTES_MAX;

/// The target of everything this crate logs.
const LOG: &str = "postroom::exec";
