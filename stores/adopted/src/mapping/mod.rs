//! What an adopted table is like: where an event's parts stand, how its state is told, how rows are claimed, what success
//! and death do to them. Data only; what it means as SQL is [`crate::sql`]'s.

mod name;
mod reserved;

pub use name::{ColumnPath, Name, NameError, TableName};

use std::time::Duration;

use crate::sql::columns::{Columns, Holds};

/// One adopted table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mapping {
    /// The table.
    pub table: TableName,
    /// The column that names a row; unique.
    pub row: Name,
    /// The columns rows are read in the order of; together with `row` they name a column in it.
    pub order: Vec<Name>,
    /// Whether rows of one key are delivered in that order.
    pub ordered: bool,
    /// Where an event's parts stand.
    pub event: EventColumns,
    /// How a row tells what became of it.
    pub state: State,
    /// What a dead row looks like.
    pub death: Death,
    /// How rows are claimed.
    pub claim: Claim,
    /// Where rows that are done or dead are moved to, instead of being marked.
    pub log: Option<LogTable>,
    /// Failed tries; in the side table where there is no column.
    pub attempts: Option<ColumnPath>,
    /// When it is tried next; in the side table where there is no column.
    pub next_attempt: Option<ColumnPath>,
    /// Why it failed last; the side table has it in any case.
    pub error: Option<ColumnPath>,
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
    /// The route that marks the rows, where the table has several. The others keep their state beside the table.
    pub marked_by: Option<String>,
    /// SQL of the owner's that makes the table where it is not there, for `store migrate up`; relays never run it.
    pub create: Option<String>,
}

/// Where an event's parts stand.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventColumns {
    /// Its id.
    pub id: ColumnPath,
    /// What happened.
    pub event_type: ColumnPath,
    /// The payload; JSON.
    pub payload: ColumnPath,
    /// Keys that are left out of the payload when it is sent.
    pub payload_without: Vec<String>,
    /// The ordering key, when it is not the aggregate's id.
    pub key: Option<ColumnPath>,
    /// Whose event: the kind.
    pub aggregate_type: Option<ColumnPath>,
    /// Whose event: which one.
    pub aggregate_id: Option<ColumnPath>,
    /// The tenant.
    pub tenant: Option<ColumnPath>,
    /// When it happened: the first of these with a value, else the first time in the order of reading.
    pub occurred_at: Vec<ColumnPath>,
    /// What it belongs to.
    pub correlation_id: Option<ColumnPath>,
    /// What caused it.
    pub causation_id: Option<ColumnPath>,
    /// Version of the payload's schema.
    pub schema_version: Option<ColumnPath>,
    /// Headers; a JSON object.
    pub headers: Option<ColumnPath>,
    /// Scope fields by name.
    pub attributes: Vec<(String, ColumnPath)>,
}

/// How a row tells what became of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum State {
    /// By a word.
    Words {
        /// Where it stands.
        path: ColumnPath,
        /// To be delivered.
        pending: String,
        /// Delivered.
        done: String,
        /// Words of others that are never written nor claimed.
        ignored: Vec<String>,
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
    /// Like one that is done, once the transport has published the dead letter; until then like one that is pending, and the
    /// side table knows.
    AsDone,
    /// Like one that is pending; only the side table knows.
    Parked,
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

/// What cannot be in a mapping.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MappingProblem {
    /// The key of the mapping it is about.
    pub key: &'static str,
    /// What is wrong.
    pub message: String,
    /// What to do about it.
    pub hint: &'static str,
}

impl Mapping {
    /// Where the time stands when it happened: the first with a value counts. As the mapping says, else when it was written.
    pub(crate) fn occurred_at(&self, columns: &Columns) -> Vec<ColumnPath> {
        let mut paths = self.event.occurred_at.clone();
        paths.extend(self.first_time(columns).filter(|time| !paths.contains(time)));
        // What always has a value is the last; alone, it is a bare column that an index serves.
        let always = |path: &ColumnPath| {
            path.as_column().and_then(|name| columns.get(name)).is_some_and(|column| !column.nullable)
        };
        if let Some(last) = paths.iter().position(always) {
            paths.truncate(last + 1);
        }
        paths
    }

    /// Where the time stands when the row was written: the first time in the order of reading.
    pub(crate) fn appended_at(&self, columns: &Columns) -> Option<ColumnPath> {
        self.first_time(columns).or_else(|| self.event.occurred_at.first().cloned())
    }

    fn first_time(&self, columns: &Columns) -> Option<ColumnPath> {
        let is_time = |name: &&Name| {
            columns.get(name).is_some_and(|column| matches!(column.holds, Holds::Moment | Holds::LocalTime))
        };
        self.order.iter().find(is_time).cloned().map(ColumnPath::column)
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

    /// Whether further routes may stand beside the one that marks the rows: not where others mark them too, where replays are
    /// rows of their own, and where finished rows move to another table.
    pub(crate) fn may_have_several(&self) -> bool {
        self.has_owner() && self.replay_suffix.is_none() && self.log.is_none()
    }

    /// Whether a route keeps its state beside the table.
    pub fn is_further(&self, route: &str) -> bool {
        self.marked_by.as_ref().is_some_and(|first| first != route)
    }

    /// Whether dead letters are kept where the transport publishes them, and nowhere else.
    pub(crate) fn leaves_dead_letters_to_the_transport(&self) -> bool {
        self.death == Death::AsDone && self.dead_letters.is_none()
    }

    /// Whether the side table keeps a dead row from being read again, as the statements want it: dead rows look like done
    /// ones, and nobody has published this one.
    pub(crate) fn held(&self, published: bool) -> &'static str {
        if self.leaves_dead_letters_to_the_transport() && !published { "1" } else { "0" }
    }

    /// The word of dead rows, if they have one.
    pub fn dead_word(&self) -> Option<&str> {
        match &self.death {
            Death::Word(word) => Some(word),
            Death::AsDone | Death::Parked => None,
        }
    }

    /// What in it contradicts itself.
    pub fn problems(&self) -> Vec<MappingProblem> {
        let mut found = Vec::new();
        let mut problem = |key, message: &str, hint| {
            found.push(MappingProblem { key, message: message.to_owned(), hint });
        };
        if self.order.is_empty() {
            problem(
                "order",
                "nothing says in which order rows are read",
                "write for instance order = [\"created_at\", \"id\"]",
            );
        }
        if self.ordered && self.event.key.is_none() && self.event.aggregate_id.is_none() {
            problem("ordered", "order is kept by key, but events have none", "set `event.key` or `event.aggregate_id`");
        }
        if self.ordered && !self.has_owner() {
            problem(
                "claim",
                "relays share the rows, so the order of a key cannot be kept",
                "leave `claim` out, or set ordered = false",
            );
        }
        if self.claimed().is_some() {
            let counts = self.attempts.as_ref().is_some_and(|path| path.path.is_empty());
            if !counts || !matches!(&self.state, State::Words { path, .. } if path.path.is_empty()) {
                problem(
                    "claim",
                    "a claim in columns needs columns for the word and for `attempts`, which fences it",
                    "name them, or leave `claim` out",
                );
            }
        }
        if self.log.is_some() && !matches!(&self.state, State::Words { path, .. } if path.path.is_empty()) {
            problem(
                "log",
                "rows that move need a column with a word, which the log has too",
                "set state.word, or leave `log` out",
            );
        }
        if self.marked_by.is_some() && !self.has_owner() {
            problem(
                "marked_by",
                "rows are claimed in the table itself, whose one claim says nothing of a second route",
                "leave `claim` out, so that one relay owns the table; or give the store one route",
            );
        }
        if self.marked_by.is_some() && self.replay_suffix.is_some() {
            problem(
                "marked_by",
                "replays are rows of their own, which every route would deliver",
                "leave `replay_suffix` out, so that a row itself becomes pending again; or give the store one route",
            );
        }
        if self.marked_by.is_some() && self.log.is_some() {
            problem(
                "marked_by",
                "finished rows move to a log, where those of a second route would not be found",
                "leave `log` out, so that rows are marked; or give the store one route",
            );
        }
        let words = match &self.state {
            State::Words { pending, done, ignored, .. } => {
                let claimed = self.claimed().map(|claimed| &claimed.word);
                [pending, done].into_iter().chain(claimed).chain(ignored).cloned().collect::<Vec<_>>()
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
                "there is a word for dead rows, but no path for words",
                "set state.word, or leave state.dead out",
            );
        }
        if matches!(&self.death, Death::Word(word) if words.first() == Some(word)) {
            problem("state.dead", "dead rows would look like pending ones", "give them a word of their own");
        }
        found
    }
}
