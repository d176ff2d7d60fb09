//! What a connection has said so far, and what the mode makes of its next chunk. Pure: nothing here waits or writes.

use super::connection::End;
use super::postgres::Follower;
use super::{Mode, Moment, Now, Trigger};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Direction {
    ToServer,
    ToClient,
}

/// What is to be done with a chunk: send on its first bytes, swallow the others, then perhaps end the connection, or hold all.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Step {
    pub(super) forward: usize,
    pub(super) end: Option<End>,
    /// The mode of this generation becomes [`Mode::Hold`].
    pub(super) hold: Option<u64>,
    /// The first statement that the chunk asks the server to execute.
    pub(super) statement: Option<String>,
    /// Whether the server is done with all it was asked.
    pub(super) answered: bool,
}

impl Step {
    fn forward(forward: usize) -> Self {
        Self { forward, end: None, hold: None, statement: None, answered: false }
    }

    fn end(forward: usize, end: Option<End>) -> Self {
        Self { end, ..Self::forward(forward) }
    }
}

/// One connection's memory.
#[derive(Debug)]
pub(super) struct Conversation {
    /// Reads along from the first byte, whatever the mode, or it would not know where a message begins.
    postgres: Option<Follower>,
    /// The modes that were before it.
    born: u64,
    generation: u64,
    /// Bytes since this generation began.
    passed: u64,
    /// The last bytes of the client, in which the searched ones may have begun.
    recent: Vec<u8>,
    /// The trigger has gone through; the connection ends, or all are held, with the server's answer.
    awaited: Option<Awaited>,
    torn: bool,
    /// The first statement of the last chunk.
    statement: Option<String>,
}

#[derive(Debug, Clone, Copy)]
struct Awaited {
    generation: u64,
    /// Whether the connections stay open.
    holds: bool,
    /// How many times PostgreSQL has then been ready; any answer counts where we do not read along.
    ready: Option<u64>,
}

/// Where the trigger begins in the chunk, and what PostgreSQL's answer to it is.
struct TriggerMatch {
    start: usize,
    ready: Option<u64>,
}

impl Conversation {
    pub(super) fn new(reads_postgres: bool, born: u64) -> Self {
        Self {
            postgres: reads_postgres.then(Follower::default),
            born,
            generation: 0,
            passed: 0,
            recent: Vec::new(),
            awaited: None,
            torn: false,
            statement: None,
        }
    }

    /// Whether bytes are missing in it, so that the two peers do not understand each other any more.
    pub(super) fn is_torn(&self) -> bool {
        self.torn
    }

    /// Whether what it says now vanishes.
    pub(super) fn vanishes(&self, now: &Now) -> bool {
        now.mode == Mode::Hold || (now.mode == Mode::Forget && self.born < now.generation)
    }

    pub(super) fn step(&mut self, direction: Direction, chunk: &[u8], now: &Now) -> Step {
        self.statement = None;
        let before = self.postgres.as_ref().map_or(0, Follower::ready);
        let step = self.decide(direction, chunk, now);
        let ready = self.postgres.as_ref().is_some_and(|postgres| postgres.ready() > before && postgres.is_idle());
        Step { statement: self.statement.take(), answered: ready, ..step }
    }

    fn decide(&mut self, direction: Direction, chunk: &[u8], now: &Now) -> Step {
        if self.generation != now.generation {
            self.generation = now.generation;
            self.passed = 0;
            self.recent.clear();
        }
        let found = match direction {
            Direction::ToServer => self.client_says(chunk, &now.mode),
            Direction::ToClient => {
                if let Some(postgres) = &mut self.postgres {
                    postgres.server_says(chunk);
                }
                None
            }
        };
        if let Some(awaited) = self.awaited {
            return self.while_awaited(awaited, direction, chunk);
        }
        if self.vanishes(now) {
            self.torn = true;
            return Step::forward(0);
        }
        match (&now.mode, found) {
            (Mode::CutAfter(limit), _) => {
                let left = usize::try_from(limit.saturating_sub(self.passed)).unwrap_or(usize::MAX);
                self.passed += chunk.len() as u64;
                let end = (chunk.len() >= left).then_some(End::Cut(now.generation));
                Step::end(chunk.len().min(left), end)
            }
            (Mode::CutAt(_, Moment::Before), Some(found)) => Step::end(found.start, Some(End::Cut(now.generation))),
            (Mode::CutAt(_, Moment::AfterReply) | Mode::HoldAt(_), Some(found)) => {
                let holds = matches!(now.mode, Mode::HoldAt(_));
                self.awaited = Some(Awaited { generation: now.generation, holds, ready: found.ready });
                Step::forward(chunk.len())
            }
            _ => Step::forward(chunk.len()),
        }
    }

    /// The client may go on talking, and hears nothing.
    fn while_awaited(&mut self, awaited: Awaited, direction: Direction, chunk: &[u8]) -> Step {
        if direction == Direction::ToServer {
            return Step::forward(chunk.len());
        }
        let answered = match (awaited.ready, &self.postgres) {
            (Some(ready), Some(postgres)) => postgres.ready() >= ready,
            _ => true,
        };
        if !awaited.holds {
            return Step::end(0, answered.then_some(End::Cut(awaited.generation)));
        }
        self.torn = true;
        if answered {
            self.awaited = None;
        }
        Step { hold: answered.then_some(awaited.generation), ..Step::forward(0) }
    }

    fn client_says(&mut self, chunk: &[u8], mode: &Mode) -> Option<TriggerMatch> {
        let executed = self.postgres.as_mut().map(|postgres| postgres.client_says(chunk)).unwrap_or_default();
        self.statement = executed.first().map(|executed| executed.text.clone());
        let (Mode::CutAt(trigger, _) | Mode::HoldAt(trigger)) = mode else { return None };
        if let Trigger::Bytes(wanted) = trigger {
            return self.search(chunk, wanted).map(|start| TriggerMatch { start, ready: None });
        }
        let hit = executed.into_iter().find(|executed| match trigger {
            Trigger::Statement(words) => executed.text.to_lowercase().contains(&words.to_lowercase()),
            _ => executed.commits(),
        });
        hit.map(|executed| TriggerMatch { start: executed.start, ready: Some(executed.ready) })
    }

    /// Where in the chunk the wanted bytes begin; at its start if they began before it.
    fn search(&mut self, chunk: &[u8], wanted: &[u8]) -> Option<usize> {
        let before = self.recent.len();
        self.recent.extend_from_slice(chunk);
        let found = self.recent.windows(wanted.len().max(1)).position(|window| window == wanted);
        let keep = wanted.len().saturating_sub(1).min(self.recent.len());
        self.recent.drain(..self.recent.len() - keep);
        found.map(|start| start.saturating_sub(before))
    }
}
