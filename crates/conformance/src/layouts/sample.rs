//! Tables as teams have them, one for each way to tell a row's state.

use postroom_adopted::Dialect;
use postroom_adopted::layout::{DeadTable, Death, EventPlaces, Layout, Name, Place, State, TableName};

/// One kind of table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sample {
    /// A word in a column, a time for the next try.
    Words,
    /// Words, counts and times inside the JSON payload.
    Inside,
    /// A time that is null as long as the row is pending; no place for the next try.
    Stamp,
    /// Whether it is done.
    Flag,
    /// Rows are deleted when they are done.
    Presence,
    /// Names that must be quoted, everywhere.
    Quoted,
}

impl Sample {
    /// The table.
    pub fn layout(self) -> Layout {
        let place = |text: &str| Place::parse(text).unwrap();
        let own = |name: &str| Place::column(self.column(name));
        let words = |at: Place, done: &str| State::Words {
            place: at,
            pending: "pending".to_owned(),
            done: done.to_owned(),
            known: vec!["failed".to_owned()],
        };
        let (state, death) = match self {
            Self::Words | Self::Quoted => (words(own("status"), "sent"), Death::Word("dead".to_owned())),
            Self::Inside => {
                (words(place("payload.outbox_status"), "dispatched"), Death::Word("dead_letter".to_owned()))
            }
            Self::Stamp => (State::Stamp(Name::new("published_at")), Death::AsDone),
            Self::Flag => (State::Flag(Name::new("processed")), Death::Aside),
            Self::Presence => (State::Presence, Death::Aside),
        };
        let (attempts, next_attempt) = match self {
            Self::Words | Self::Quoted => (Some(own("attempts")), Some(own("available_at"))),
            Self::Inside => (Some(place("payload.outbox_retry_count")), Some(place("payload.outbox_next_attempt_at"))),
            Self::Stamp => (Some(place("retry_count")), None),
            Self::Flag | Self::Presence => (None, None),
        };
        let hidden = ["outbox_status", "outbox_retry_count", "outbox_next_attempt_at", "outbox_last_error"];
        Layout {
            table: TableName { schema: None, table: Name::new(self.table()) },
            row: self.column("id"),
            order: vec![self.column("created_at"), self.column("id")],
            ordered: true,
            event: EventPlaces {
                id: own("id"),
                event_type: own("type"),
                payload: own("payload"),
                payload_without: if self == Self::Inside { hidden.map(str::to_owned).to_vec() } else { Vec::new() },
                key: Some(own("key")),
                aggregate_type: None,
                aggregate_id: None,
                tenant: None,
                occurred_at: None,
                correlation_id: None,
                causation_id: None,
                schema_version: None,
                headers: None,
                attributes: Vec::new(),
            },
            state,
            death,
            attempts,
            next_attempt,
            error: (self == Self::Inside).then(|| place("payload.outbox_last_error")),
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
            prunes: true,
            archive: None,
            inbox: None,
        }
    }

    fn table(self) -> &'static str {
        if self == Self::Quoted { "My \"Outbox\"; drop table x" } else { "outbox" }
    }

    /// The table in SQL of ours, whose sessions have no search path.
    fn in_sql(self, dialect: Dialect) -> String {
        let table = Name::new(self.table()).quoted();
        if dialect == Dialect::Postgres { format!("public.{table}") } else { table }
    }

    fn column(self, name: &str) -> Name {
        if self == Self::Quoted { Name::new(format!("the {name}'s \"column\"")) } else { Name::new(name) }
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
            Self::Words | Self::Quoted => {
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
             first_seen_at {time}, last_seen_at {time}, attempts integer)"
        );
        format!("create table {} ({}); {letters}", self.in_sql(dialect), columns.join(", "))
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

    /// A query for a row's state as people see it: pending, done, dead, gone.
    pub fn seen(self, dialect: Dialect, id: &str) -> String {
        let table = self.in_sql(dialect);
        let row = self.column("id").quoted();
        let state = match self {
            Self::Words | Self::Quoted => {
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
            Self::Words | Self::Quoted | Self::Inside => "dead",
            Self::Stamp => "done",
            Self::Flag | Self::Presence => "pending",
        }
    }
}
