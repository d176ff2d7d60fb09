//! What an adopted table is like: where an event's parts stand, how its state is told, how rows are claimed, what success
//! and death do to them. Data only; what it means as SQL is [`crate::sql`]'s.

mod name;
mod reserved;

pub use name::{Name, NameError, Place, TableName};

use std::time::Duration;

use crate::sql::columns::{Columns, Holds};

/// One adopted table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    /// The table.
    pub table: TableName,
    /// The column that names a row; unique.
    pub row: Name,
    /// The columns rows are read in the order of; together with `row` they name a place in it.
    pub order: Vec<Name>,
    /// Whether rows of one key are delivered in that order.
    pub ordered: bool,
    /// Where an event's parts stand.
    pub event: EventPlaces,
    /// How a row tells what became of it.
    pub state: State,
    /// What a dead row looks like.
    pub death: Death,
    /// How rows are claimed.
    pub claim: Claim,
    /// Where rows that are done or dead are moved to, instead of being marked.
    pub log: Option<LogTable>,
    /// Failed tries; in the side table where there is no place.
    pub attempts: Option<Place>,
    /// When it is tried next; in the side table where there is no place.
    pub next_attempt: Option<Place>,
    /// Why it failed last; the side table has it in any case.
    pub error: Option<Place>,
    /// A column that is set to the time when a row is done.
    pub done_at: Option<Name>,
    /// A table that dead events are copied to.
    pub dead_letters: Option<DeadTable>,
    /// Replays are rows of their own, named by the event's id, this and a number. Without it the row is pending again.
    pub replay_suffix: Option<String>,
    /// Whether retention deletes rows that are done; the table is its owner's, so not unless they say so.
    pub prunes: bool,
    /// Where retention copies rows before it deletes them.
    pub archive: Option<TableName>,
    /// The consumers' table of what they have accepted.
    pub inbox: Option<InboxTable>,
    /// SQL of the owner's that makes the table where it is not there, for `store migrate up`; relays never run it.
    pub create: Option<String>,
}

/// Where an event's parts stand.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventPlaces {
    /// Its id.
    pub id: Place,
    /// What happened.
    pub event_type: Place,
    /// The payload; JSON.
    pub payload: Place,
    /// Keys that are left out of the payload when it is sent.
    pub payload_without: Vec<String>,
    /// The ordering key, when it is not the aggregate's id.
    pub key: Option<Place>,
    /// Whose event: the kind.
    pub aggregate_type: Option<Place>,
    /// Whose event: which one.
    pub aggregate_id: Option<Place>,
    /// The tenant.
    pub tenant: Option<Place>,
    /// When it happened; the first time in the order of reading if nothing is said.
    pub occurred_at: Option<Place>,
    /// What it belongs to.
    pub correlation_id: Option<Place>,
    /// What caused it.
    pub causation_id: Option<Place>,
    /// Version of the payload's schema.
    pub schema_version: Option<Place>,
    /// Headers; a JSON object.
    pub headers: Option<Place>,
    /// Scope fields by name.
    pub attributes: Vec<(String, Place)>,
}

/// How a row tells what became of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum State {
    /// By a word.
    Words {
        /// Where it stands.
        place: Place,
        /// To be delivered.
        pending: String,
        /// Delivered.
        done: String,
        /// Words of others that are never written nor claimed.
        known: Vec<String>,
    },
    /// By a time that is null as long as it is pending.
    Stamp(Name),
    /// By a yes or no: whether it is done.
    Flag(Name),
    /// Not at all: what is there is pending, and deleted when it is done.
    Presence,
}

/// What a dead row looks like.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Death {
    /// It has this word.
    Word(String),
    /// Like one that is done: somebody else has the dead letter.
    AsDone,
    /// Like one that is pending; only the side table knows.
    Aside,
}

/// How rows are claimed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Claim {
    /// One relay at a time owns the table; others stand by.
    Lease,
    /// Relays share: each locks its rows in a transaction that it holds while they are delivered. PostgreSQL only.
    RowLocks,
    /// Relays share: a claimed row says so, and counts its claims in the column of `attempts`, which fences them.
    Columns(Claimed),
}

/// What a claimed row looks like.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claimed {
    /// Its word.
    pub word: String,
    /// The column with the time of the claim, refreshed while it is held.
    pub since: Name,
    /// A claim older than this is anybody's.
    pub lease: Duration,
    /// Rows that were claimed more often than this, and never finished, are given up.
    pub claims_max: Option<u32>,
}

/// Where finished rows are moved to. Columns of one name are copied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogTable {
    /// The table.
    pub table: TableName,
    /// A column for errors, as a JSON list of handler and error.
    pub errors: Option<Name>,
    /// A column for the time of the end.
    pub at: Option<Name>,
}

impl LogTable {
    /// The columns it names, with the keys that name them.
    pub(crate) fn columns(&self) -> Vec<(Name, &'static str)> {
        let maybe = [(&self.errors, "log.errors"), (&self.at, "log.at")];
        maybe.into_iter().filter_map(|(name, key)| Some((name.clone()?, key))).collect()
    }
}

/// A table that dead events are copied to. One row per event: a second death updates it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeadTable {
    /// The table.
    pub table: TableName,
    /// The event's id.
    pub id: Name,
    /// What happened.
    pub event_type: Option<Name>,
    /// The payload column, as it stands in the adopted table.
    pub payload: Option<Name>,
    /// Why.
    pub error: Option<Name>,
    /// When it first died.
    pub first_at: Option<Name>,
    /// When it last died.
    pub last_at: Option<Name>,
    /// How often it died.
    pub attempts: Option<Name>,
}

impl DeadTable {
    /// The columns it names, with the keys that name them.
    pub(crate) fn columns(&self) -> Vec<(Name, &'static str)> {
        let maybe = [
            (&self.event_type, "dead_letters.type"),
            (&self.payload, "dead_letters.payload"),
            (&self.error, "dead_letters.error"),
            (&self.first_at, "dead_letters.first_at"),
            (&self.last_at, "dead_letters.last_at"),
            (&self.attempts, "dead_letters.attempts"),
        ];
        let given = maybe.into_iter().filter_map(|(name, key)| Some((name.clone()?, key)));
        std::iter::once((self.id.clone(), "dead_letters.id")).chain(given).collect()
    }
}

/// The consumers' table of what they have accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InboxTable {
    /// The table.
    pub table: TableName,
    /// The consumer.
    pub consumer: Name,
    /// The event's id.
    pub id: Name,
    /// When.
    pub at: Option<Name>,
}

/// What cannot be in a layout.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LayoutProblem {
    /// The key of the layout it is about.
    pub key: &'static str,
    /// What is wrong.
    pub message: String,
    /// What to do about it.
    pub hint: &'static str,
}

impl Layout {
    /// Where the time stands when it happened: as the layout says, else when it was written.
    pub(crate) fn occurred_at(&self, columns: &Columns) -> Option<Place> {
        self.event.occurred_at.clone().or_else(|| self.first_time(columns))
    }

    /// Where the time stands when the row was written: the first time in the order of reading.
    pub(crate) fn appended_at(&self, columns: &Columns) -> Option<Place> {
        self.first_time(columns).or_else(|| self.event.occurred_at.clone())
    }

    fn first_time(&self, columns: &Columns) -> Option<Place> {
        let is_time = |name: &&Name| {
            columns.get(name).is_some_and(|column| matches!(column.holds, Holds::Moment | Holds::LocalTime))
        };
        self.order.iter().find(is_time).cloned().map(Place::column)
    }

    /// What a claimed row looks like, where rows say so.
    pub(crate) fn claimed(&self) -> Option<&Claimed> {
        match &self.claim {
            Claim::Columns(claimed) => Some(claimed),
            Claim::Lease | Claim::RowLocks => None,
        }
    }

    /// The table of rows that are done or dead.
    pub(crate) fn settled(&self) -> &TableName {
        self.log.as_ref().map_or(&self.table, |log| &log.table)
    }

    /// Whether one relay at a time owns the table.
    pub fn has_owner(&self) -> bool {
        self.claim == Claim::Lease
    }

    /// The word of dead rows, if they have one.
    pub fn dead_word(&self) -> Option<&str> {
        match &self.death {
            Death::Word(word) => Some(word),
            Death::AsDone | Death::Aside => None,
        }
    }

    /// What in it contradicts itself.
    pub fn problems(&self) -> Vec<LayoutProblem> {
        let mut found = Vec::new();
        let mut problem = |key, message: &str, hint| {
            found.push(LayoutProblem { key, message: message.to_owned(), hint });
        };
        if self.order.is_empty() {
            problem(
                "order",
                "nothing says in which order rows are read",
                "write for instance order = [\"created_at\", \"id\"]",
            );
        }
        if self.ordered && self.event.key.is_none() && self.event.aggregate_id.is_none() {
            problem(
                "ordered",
                "order is kept by key, but events have none",
                "say where `event.key` or `event.aggregate_id` stands",
            );
        }
        if self.ordered && !self.has_owner() {
            problem(
                "claim",
                "relays share the rows, so the order of a key cannot be kept",
                "leave `claim` out, or set ordered = false",
            );
        }
        if self.claimed().is_some() {
            let counts = self.attempts.as_ref().is_some_and(|place| place.path.is_empty());
            if !counts || !matches!(&self.state, State::Words { place, .. } if place.path.is_empty()) {
                problem(
                    "claim",
                    "a claim in columns needs columns for the word and for `attempts`, which fences it",
                    "name them, or leave `claim` out",
                );
            }
        }
        if self.log.is_some() && !matches!(&self.state, State::Words { place, .. } if place.path.is_empty()) {
            problem(
                "log",
                "rows that move need a column with a word, which the log has too",
                "set state.word, or leave `log` out",
            );
        }
        let words = match &self.state {
            State::Words { pending, done, known, .. } => {
                let claimed = self.claimed().map(|claimed| &claimed.word);
                [pending, done].into_iter().chain(claimed).chain(known).cloned().collect::<Vec<_>>()
            }
            State::Stamp(_) | State::Flag(_) | State::Presence => Vec::new(),
        };
        let twice = words.iter().enumerate().find(|(n, word)| words[..*n].contains(word));
        if let Some((_, word)) = twice {
            problem("state", &format!("the word {word:?} means two things"), "give each state its own word");
        }
        if matches!(&self.death, Death::Word(_)) && !matches!(self.state, State::Words { .. }) {
            problem(
                "state.dead",
                "there is a word for dead rows, but no place for words",
                "set state.word, or leave state.dead out",
            );
        }
        if matches!(&self.death, Death::Word(word) if words.first() == Some(word)) {
            problem("state.dead", "dead rows would look like pending ones", "give them a word of their own");
        }
        found
    }
}
