//! Tables as teams have them, one for each way to tell a row's state.

use std::time::Duration;

use postroom_adopted::Dialect;
use postroom_adopted::mapping::{
    Claim, Claimed, ColumnPath, DeadTable, Death, EventColumns, InboxTable, LogTable, Mapping, Name, State, TableName,
};

/// How long a claim in columns holds.
pub(super) const LEASE: Duration = Duration::from_mins(1);
/// How often a row may be claimed.
pub(super) const CLAIMS_MAX: u32 = 3;

/// One kind of table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sample {
    /// A word in a column, a time for the next try.
    Words,
    /// Words, counts and times inside the JSON payload.
    Inside,
    /// A time that is null as long as the row is pending; no column for the next try.
    Stamp,
    /// Whether it is done.
    Flag,
    /// Rows are deleted when they are done.
    Presence,
    /// Names that must be quoted, everywhere.
    Quoted,
    /// Relays share the rows by claims in columns; finished ones move to a log.
    Queue,
    /// Relays share the rows by locks.
    Locks,
}

impl Sample {
    /// The table.
    pub fn mapping(self) -> Mapping {
        let path = |text: &str| ColumnPath::parse(text).unwrap();
        let own = |name: &str| ColumnPath::column(self.column(name));
        let words = |at: ColumnPath, done: &str| State::Words {
            path: at,
            pending: "pending".to_owned(),
            done: done.to_owned(),
            ignored: vec!["failed".to_owned()],
        };
        let queue = State::Words {
            path: own("status"),
            pending: "PENDING".to_owned(),
            done: "COMPLETED".to_owned(),
            ignored: vec!["failed".to_owned()],
        };
        let (state, death) = match self {
            Self::Words | Self::Quoted | Self::Locks => (words(own("status"), "sent"), Death::Word("dead".to_owned())),
            Self::Queue => (queue, Death::Word("COMPLETED_WITH_ERRORS".to_owned())),
            Self::Inside => (words(path("payload.outbox_status"), "dispatched"), Death::Word("dead_letter".to_owned())),
            Self::Stamp => (State::Stamp(Name::new("published_at")), Death::AsDone),
            Self::Flag => (State::Flag(Name::new("processed")), Death::Parked),
            Self::Presence => (State::Presence, Death::Parked),
        };
        let (attempts, next_attempt) = match self {
            Self::Words | Self::Quoted | Self::Locks => (Some(own("attempts")), Some(own("available_at"))),
            Self::Queue => (Some(own("attempts")), None),
            Self::Inside => (Some(path("payload.outbox_retry_count")), Some(path("payload.outbox_next_attempt_at"))),
            Self::Stamp => (Some(path("retry_count")), None),
            Self::Flag | Self::Presence => (None, None),
        };
        let hidden = ["outbox_status", "outbox_retry_count", "outbox_next_attempt_at", "outbox_last_error"];
        Mapping {
            table: TableName { schema: None, table: Name::new(self.table()) },
            row: self.column("id"),
            order: vec![self.column("created_at"), self.column("id")],
            ordered: !self.is_shared(),
            event: EventColumns {
                id: own("id"),
                event_type: own("type"),
                payload: own("payload"),
                payload_without: if self == Self::Inside { hidden.map(str::to_owned).to_vec() } else { Vec::new() },
                key: Some(own("key")),
                aggregate_type: None,
                aggregate_id: None,
                tenant: None,
                occurred_at: Vec::new(),
                correlation_id: None,
                causation_id: None,
                schema_version: None,
                headers: None,
                attributes: Vec::new(),
            },
            state,
            death,
            claim: match self {
                Self::Queue => Claim::Columns(Claimed {
                    word: "PROCESSING".to_owned(),
                    since: Name::new("updated_at"),
                    lease: LEASE,
                    claims_max: Some(CLAIMS_MAX),
                }),
                Self::Locks => Claim::RowLocks,
                _ => Claim::Lease,
            },
            log: (self == Self::Queue).then(|| LogTable {
                table: TableName::parse("event_log").unwrap(),
                errors: Some(Name::new("errors")),
                at: Some(Name::new("finished_at")),
            }),
            attempts,
            next_attempt,
            error: (self == Self::Inside).then(|| path("payload.outbox_last_error")),
            done_at: None,
            dead_letters: (self == Self::Words).then(|| DeadTable {
                table: TableName::parse("dead_letter_events").unwrap(),
                id: Name::new("event_id"),
                event_type: Some(Name::new("event_type")),
                payload: Some(Name::new("payload")),
                error: Some(Name::new("error")),
                first_at: Some(Name::new("first_seen_at")),
                last_at: Some(Name::new("last_seen_at")),
                attempts: Some(Name::new("attempts")),
            }),
            replay_suffix: None,
            marked_by: None,
            create: None,
            prunes: true,
            archive: (self == Self::Words).then(|| TableName::parse("outbox_archive").unwrap()),
            inbox: (self == Self::Words).then(|| InboxTable {
                table: TableName::parse("processed_events").unwrap(),
                consumer: Name::new("consumer_name"),
                id: Name::new("event_id"),
                at: Some(Name::new("processed_at")),
            }),
        }
    }

    /// Whether relays share the rows.
    pub fn is_shared(self) -> bool {
        matches!(self, Self::Queue | Self::Locks)
    }

    fn table(self) -> &'static str {
        if self == Self::Quoted { "My \"Outbox\"; drop table x" } else { "outbox" }
    }

    /// The table in SQL of ours, with its schema where there are any.
    pub(super) fn in_sql(self, dialect: Dialect) -> String {
        let table = Name::new(self.table()).quoted();
        if dialect == Dialect::Postgres { format!("public.{table}") } else { table }
    }

    fn column(self, name: &str) -> Name {
        if self == Self::Quoted { Name::new(format!("part. {name}'s \"column\"")) } else { Name::new(name) }
    }

    /// The SQL that makes it.
    pub fn create(self, dialect: Dialect) -> String {
        let (time, json, now, flag) = match dialect {
            Dialect::Postgres => ("timestamptz", "jsonb", "now()", "boolean"),
            Dialect::Sqlite => ("datetime", "text", "current_timestamp", "boolean"),
        };
        let name = |text: &str| self.column(text).quoted();
        let mut columns = vec![
            format!("{} text primary key", name("id")),
            format!("{} text not null", name("type")),
            format!("{} {json} not null", name("payload")),
            format!("{} text", name("key")),
            format!("{} {time} not null default {now}", name("created_at")),
        ];
        match self {
            Self::Queue => {
                columns.push("status text not null default 'PENDING'".to_owned());
                columns.push("attempts integer not null default 0".to_owned());
                columns.push(format!("updated_at {time} not null default {now}"));
            }
            Self::Words | Self::Quoted | Self::Locks => {
                columns.push(format!("{} text not null default 'pending'", name("status")));
                columns.push(format!("{} integer not null default 0", name("attempts")));
                columns.push(format!("{} {time} not null default {now}", name("available_at")));
            }
            Self::Stamp => {
                columns.push(format!("published_at {time}"));
                columns.push("retry_count integer not null default 0".to_owned());
            }
            Self::Flag => columns.push(format!("processed {flag} not null default false")),
            Self::Inside | Self::Presence => {}
        }
        let schema = if dialect == Dialect::Postgres { "public." } else { "" };
        let letters = format!(
            "create table {schema}dead_letter_events (event_id text, event_type text, payload {json}, error text, \
             first_seen_at {time}, last_seen_at {time}, attempts integer); \
             create table {schema}processed_events (event_id text, consumer_name text, processed_at {time} default {now})"
        );
        let log = format!(
            "create table {schema}event_log (id text primary key, type text, payload {json}, key text, created_at {time}, \
             status text, attempts integer, errors {json}, finished_at {time})"
        );
        // The archive has the same columns, not in the same order.
        let mut archive: Vec<&str> = columns.iter().map(String::as_str).collect();
        archive.reverse();
        let archive = format!("create table {schema}outbox_archive ({})", archive.join(", "));
        format!("create table {} ({}); {letters}; {archive}; {log}", self.in_sql(dialect), columns.join(", "))
    }

    /// The SQL that inserts a row; rows are in the order of `n`.
    pub fn insert(self, dialect: Dialect, n: usize, id: &str, key: Option<&str>) -> String {
        let payload = match self {
            Self::Inside => format!(r#"{{"n": {n}, "outbox_status": "pending", "outbox_retry_count": 0}}"#),
            _ => format!(r#"{{"n": {n}}}"#),
        };
        self.insert_payload(dialect, n, id, key, &payload)
    }

    /// The same with any payload.
    pub fn insert_payload(self, dialect: Dialect, n: usize, id: &str, key: Option<&str>, payload: &str) -> String {
        let name = |text: &str| self.column(text).quoted();
        let key = key.map_or_else(|| "null".to_owned(), |key| format!("'{key}'"));
        format!(
            "insert into {} ({}, {}, {}, {}, {}) values ('{id}', 'order.placed', '{payload}', {key}, '2026-01-02 03:{:02}:{:02}')",
            self.in_sql(dialect),
            name("id"),
            name("type"),
            name("payload"),
            name("key"),
            name("created_at"),
            n / 60,
            n % 60
        )
    }

    /// The SQL that moves the time of a row's next try, wherever that stands.
    pub fn reschedule(self, dialect: Dialect, id: &str, time: &str) -> String {
        let (table, row) = (self.in_sql(dialect), self.column("id").quoted());
        let change = match (self, dialect) {
            (Self::Words | Self::Quoted | Self::Locks, _) => {
                format!("{} = '{time}'", self.column("available_at").quoted())
            }
            (Self::Inside, Dialect::Postgres) => {
                format!("payload = jsonb_set(payload, '{{outbox_next_attempt_at}}', '\"{time}Z\"')")
            }
            (Self::Inside, Dialect::Sqlite) => {
                format!("payload = json_set(payload, '$.outbox_next_attempt_at', '{time}Z')")
            }
            (Self::Stamp | Self::Flag | Self::Presence | Self::Queue, Dialect::Postgres) => {
                return format!("update postroom.sidecar set due = '{time}Z' where row_id = '{id}'");
            }
            (Self::Stamp | Self::Flag | Self::Presence | Self::Queue, Dialect::Sqlite) => {
                return format!(
                    "update postroom_sidecar set due = strftime('%s', '{time}') * 1000000 where row_id = '{id}'"
                );
            }
        };
        format!("update {table} set {change} where {row} = '{id}'")
    }

    /// The SQL that makes every row due that waits for its time, wherever that stands.
    pub fn all_are_due(self, dialect: Dialect) -> String {
        let table = self.in_sql(dialect);
        let (beside, past) = match dialect {
            Dialect::Postgres => ("postroom.sidecar", "'2026-01-01 00:00:00Z'"),
            Dialect::Sqlite => ("postroom_sidecar", "1767225600000000"),
        };
        let beside = format!("update {beside} set due = {past} where due is not null");
        match (self, dialect) {
            (Self::Words | Self::Quoted | Self::Locks, _) => {
                let column = self.column("available_at").quoted();
                format!("{beside}; update {table} set {column} = '2026-01-01 00:00:00'")
            }
            (Self::Inside, Dialect::Postgres) => {
                format!("{beside}; update {table} set payload = payload - 'outbox_next_attempt_at'")
            }
            (Self::Inside, Dialect::Sqlite) => {
                format!("{beside}; update {table} set payload = json_remove(payload, '$.outbox_next_attempt_at')")
            }
            (Self::Stamp | Self::Flag | Self::Presence | Self::Queue, _) => beside,
        }
    }

    /// The SQL that makes a row pending again, as an operator does by hand.
    pub fn set_back(self, dialect: Dialect, id: &str) -> String {
        let (table, row) = (self.in_sql(dialect), self.column("id").quoted());
        let change = match (self, dialect) {
            (Self::Words | Self::Quoted | Self::Locks, _) => format!("{} = 'pending'", self.column("status").quoted()),
            (Self::Queue, _) => "status = 'PENDING'".to_owned(),
            (Self::Inside, Dialect::Postgres) => {
                "payload = jsonb_set(payload, '{outbox_status}', '\"pending\"')".to_owned()
            }
            (Self::Inside, Dialect::Sqlite) => "payload = json_set(payload, '$.outbox_status', 'pending')".to_owned(),
            (Self::Stamp, _) => "published_at = null".to_owned(),
            (Self::Flag, _) => "processed = false".to_owned(),
            (Self::Presence, _) => format!("{row} = {row}"),
        };
        format!("update {table} set {change} where {row} = '{id}'")
    }

    /// A query for a row's state as people see it: pending, done, dead, gone.
    pub fn seen(self, dialect: Dialect, id: &str) -> String {
        let table = self.in_sql(dialect);
        let row = self.column("id").quoted();
        let state = match self {
            Self::Queue => {
                let log = if dialect == Dialect::Postgres { "public.event_log" } else { "event_log" };
                return format!(
                    "select case status when 'COMPLETED' then 'done' when 'COMPLETED_WITH_ERRORS' then 'dead' \
                     when 'PENDING' then 'pending' else 'claimed' end from \
                     (select id, status from {table} union all select id, status from {log}) t where id = '{id}'"
                );
            }
            Self::Words | Self::Quoted | Self::Locks => {
                let status = self.column("status").quoted();
                format!("case {status} when 'sent' then 'done' else {status} end")
            }
            Self::Inside => {
                let status = match dialect {
                    Dialect::Postgres => "payload ->> 'outbox_status'",
                    Dialect::Sqlite => "json_extract(payload, '$.outbox_status')",
                };
                format!("case {status} when 'dispatched' then 'done' when 'dead_letter' then 'dead' else {status} end")
            }
            Self::Stamp => "case when published_at is null then 'pending' else 'done' end".to_owned(),
            Self::Flag => "case when processed then 'done' else 'pending' end".to_owned(),
            Self::Presence => "'pending'".to_owned(),
        };
        format!("select {state} from {table} where {row} = '{id}'")
    }

    /// What a dead row looks like to people who look into the table.
    pub fn dead_seen(self) -> &'static str {
        match self {
            Self::Words | Self::Quoted | Self::Inside | Self::Queue | Self::Locks => "dead",
            Self::Stamp => "done",
            Self::Flag | Self::Presence => "pending",
        }
    }
}
