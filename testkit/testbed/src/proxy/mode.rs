//! What the proxy can do, and what it has done.

use std::time::Duration;

/// What happens to connections.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Mode {
    /// Nothing.
    Pass,
    /// The server is gone: open connections are reset, new ones refused.
    Refuse,
    /// A firewall forgot us: connections stay open and what is sent over them, in both directions, vanishes. New ones are
    /// accepted and hear nothing. Afterwards those that lost something are reset, the others go on.
    Hold,
    /// The same for the connections that are open now; new ones go through.
    Forget,
    /// What is read waits this long before it is sent on, in both directions.
    Delay(Duration),
    /// At most this many bytes a second, per connection and direction.
    Throttle(u32),
    /// A connection is closed once this many bytes have gone over it, both directions together, since the mode began.
    CutAfter(u64),
    /// Open connections are reset, new ones right after they were accepted.
    Reset,
    /// The client reads the end of the stream, while what it sends still reaches the server.
    HalfClose,
    /// A connection is closed at something the client sends.
    CutAt(Trigger, Moment),
    /// The client vanishes at something it sends: when the server has answered it, [`Mode::Hold`] begins for all connections.
    HoldAt(Trigger),
}

/// What in the client's stream is waited for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Trigger {
    /// These bytes.
    Bytes(Vec<u8>),
    /// PostgreSQL executes a `COMMIT` or `END`, as a simple query or as a prepared statement.
    Commit,
    /// PostgreSQL executes a statement whose text contains this, in whatever case.
    Statement(String),
}

/// When a connection is closed at a [`Trigger`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moment {
    /// Before the server has it.
    Before,
    /// When the server has answered it, which the client never hears. In PostgreSQL's protocol: has answered that it is
    /// done and ready for the next.
    AfterReply,
}

/// What the proxy has done since it began. A fault is counted when the connection it hit is closed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Connections accepted.
    pub accepted: u64,
    /// Connections accepted that have ended, for whatever reason.
    pub ended: u64,
    /// Bytes sent on to the server.
    pub to_server: u64,
    /// Bytes sent on to clients.
    pub to_client: u64,
    /// Bytes that vanished, of both directions.
    pub swallowed: u64,
    /// Connections closed by [`Mode::CutAfter`] and [`Mode::CutAt`].
    pub cuts: u64,
    /// Connections reset.
    pub resets: u64,
    /// Connections half closed.
    pub half_closes: u64,
}

impl Counts {
    /// Connections that are open now.
    pub fn open(&self) -> usize {
        usize::try_from(self.accepted.saturating_sub(self.ended)).unwrap_or(usize::MAX)
    }
}

pub(super) fn seeded(seed: u64, faults: usize, postgres: bool) -> Vec<Mode> {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut modes: Vec<Mode> = std::iter::repeat_with(|| match random.u8(0..if postgres { 6 } else { 3 }) {
        0 => Mode::CutAfter(random.u64(1..4000)),
        1 => Mode::Reset,
        2 => Mode::HalfClose,
        3 | 4 => Mode::CutAt(Trigger::Commit, Moment::AfterReply),
        _ => Mode::CutAt(Trigger::Commit, Moment::Before),
    })
    .take(faults)
    .collect();
    modes.push(Mode::Pass);
    modes
}
