//! A consumers' table that is there already, as statements: accepting is one insert that a unique constraint decides.
//!
//! Checked once, when it is opened: without the constraint every event would be new for ever, and with one on the id
//! alone the second consumer would never get anything.

use std::sync::Arc;
use std::time::Duration;

use postroom_core::{CONSUMER_BYTES_MAX, ID_BYTES_MAX, StoreError, StoreErrorKind};

use crate::catalogue::{Catalogue, Kind, refused};
use crate::executor::Dialect;
use crate::mapping::{InboxTable, Name, NameError, TableName};
use crate::sql::Writer;
use crate::sql::columns::{Column, Holds};

/// Rows deleted in one transaction, so that nobody waits for more than that.
pub const ROWS_AT_ONCE: u64 = 1_000;

impl InboxTable {
    /// `event_inbox(consumer_name, event_id, processed_at)`.
    pub fn event_inbox() -> Self {
        let at = Some(Name::new("processed_at"));
        Self { at, ..Self::named(TableName { schema: None, table: Name::new("event_inbox") }) }
    }

    /// `processed_events(event_id, consumer_name)`; other columns fill themselves.
    pub fn processed_events() -> Self {
        Self::named(TableName { schema: None, table: Name::new("processed_events") })
    }

    /// Any other table, with the columns `consumer_name` and `event_id` until told otherwise.
    pub fn new(table: &str) -> Result<Self, NameError> {
        Ok(Self::named(TableName::parse(table)?))
    }

    /// The column with the consumer's name.
    pub fn consumer_column(mut self, name: &str) -> Result<Self, NameError> {
        self.consumer = Name::parse(name)?;
        Ok(self)
    }

    /// The column with the event's id; text or uuid.
    pub fn id_column(mut self, name: &str) -> Result<Self, NameError> {
        self.id = Name::parse(name)?;
        Ok(self)
    }

    /// The column with the time of the acceptance; [`InboxTexts::prune`] needs one.
    pub fn at_column(mut self, name: &str) -> Result<Self, NameError> {
        self.at = Some(Name::parse(name)?);
        Ok(self)
    }

    fn named(table: TableName) -> Self {
        Self { table, consumer: Name::new("consumer_name"), id: Name::new("event_id"), at: None }
    }
}

/// What is said to an inbox table. `$1` is the consumer, `$2` the event's id, `$3` the time where the database has no clock
/// of its own.
#[derive(Debug, Clone)]
pub struct InboxTexts {
    /// Accepts: one row when it is new, none when it is there.
    pub accept: Arc<str>,
    /// Deletes up to [`ROWS_AT_ONCE`] rows; `$1` is how long they are kept, in microseconds, `$2` the time as above.
    prune: Option<Arc<str>>,
    table: TableName,
    consumer: Slot,
    id: Slot,
}

/// What a column can hold.
#[derive(Debug, Clone)]
struct Slot {
    name: Name,
    kind: Kind,
    chars_max: Option<usize>,
}

impl Slot {
    fn new(dialect: Dialect, name: &Name, column: &Column) -> Self {
        // SQLite writes lengths down and does not keep to them.
        let chars_max = if dialect == Dialect::Postgres { chars_max(&column.sql_type) } else { None };
        Self { name: name.clone(), kind: Kind::of(column), chars_max }
    }

    /// Says no to what is too long for it.
    fn check_length(&self, what: &str, value: &str, kind: StoreErrorKind) -> Result<(), StoreError> {
        let chars = value.chars().count();
        match self.chars_max {
            Some(limit) if chars > limit => {
                let message =
                    format!("the {what} {value:?} has {chars} characters, column {} takes {limit}", self.name);
                Err(StoreError::new(kind, "accept", message).hint("make the column text"))
            }
            _ => Ok(()),
        }
    }
}

impl InboxTexts {
    /// Checks the table, and makes what is said to it.
    pub fn new(dialect: Dialect, inbox: &InboxTable, found: &Catalogue) -> Result<Self, StoreError> {
        let consumer = found.column(&inbox.consumer, "the consumer")?;
        let id = found.column(&inbox.id, "the event's id")?;
        let consumer_slot = Slot::new(dialect, &inbox.consumer, consumer);
        let id_slot = Slot::new(dialect, &inbox.id, id);
        if consumer_slot.kind != Kind::Text {
            return Err(unfit(found, &inbox.consumer, &consumer.sql_type, "it holds names: make it text"));
        }
        if !matches!(id_slot.kind, Kind::Text | Kind::Uuid) {
            return Err(unfit(found, &inbox.id, &id.sql_type, "ids are text or uuid"));
        }
        check_unique(inbox, found)?;
        let given = [Some(&inbox.consumer), Some(&inbox.id), inbox.at.as_ref()];
        if let Some(name) = found.wanted.iter().find(|name| !given.contains(&Some(name))) {
            let message =
                format!("column {name} of {} must be given, and nothing says what to write there", found.table);
            return Err(refused(message).hint("give it a default, or allow nulls"));
        }
        let writer = Writer { dialect, schema: "", columns: &found.columns, alias: "t" };
        let moment = match &inbox.at {
            Some(at) => Some((at, moment(&writer, found, at)?)),
            None => None,
        };
        let (table, key) = (found.table.quoted(), format!("{}, {}", inbox.consumer.quoted(), inbox.id.quoted()));
        let id_value = match (dialect, id_slot.kind) {
            (Dialect::Postgres, Kind::Uuid) => "$2::text::uuid",
            (Dialect::Postgres, _) => "$2::text",
            (Dialect::Sqlite, _) => "$2",
        };
        let (at_column, at_value) = match &moment {
            Some((at, _)) => {
                let now = writer.stored_moment(at, &writer.now("$3"));
                (format!(", {}", at.quoted()), format!(", {now}"))
            }
            None => Default::default(),
        };
        let consumer_value = if dialect == Dialect::Postgres { "$1::text" } else { "$1" };
        let accept = format!(
            "insert into {table} ({key}{at_column}) values ({consumer_value}, {id_value}{at_value}) \
             on conflict ({key}) do nothing"
        );
        let prune = moment.map(|(_, at)| {
            let before = match dialect {
                Dialect::Postgres => "statement_timestamp() - $1::text::int8 * interval '1 microsecond'".to_owned(),
                Dialect::Sqlite => format!("{} - cast($1 as integer)", writer.now("$2")),
            };
            let old = format!("select {key} from {table} t where {at} < {before} limit {ROWS_AT_ONCE}");
            Arc::from(format!("delete from {table} where ({key}) in ({old})"))
        });
        Ok(Self { accept: accept.into(), prune, table: found.table.clone(), consumer: consumer_slot, id: id_slot })
    }

    /// Says no before the database does: its no would spoil the caller's transaction.
    pub fn check(&self, consumer: &str, id: &str) -> Result<(), StoreError> {
        self.check_consumer(consumer)?;
        self.check_id(id)
    }

    /// The same of the consumer alone.
    pub(crate) fn check_consumer(&self, consumer: &str) -> Result<(), StoreError> {
        check_bytes("consumer", consumer, CONSUMER_BYTES_MAX)?;
        self.consumer.kind.check("consumer", &self.consumer.name, consumer, "accept")?;
        // Not the event's fault: whoever takes `Invalid` for a dead event would dead-letter all of them.
        self.consumer.check_length("consumer", consumer, StoreErrorKind::UnexpectedSchema)
    }

    /// The same of the event's id alone.
    pub(crate) fn check_id(&self, id: &str) -> Result<(), StoreError> {
        check_bytes("event id", id, ID_BYTES_MAX)?;
        self.id.kind.check("event id", &self.id.name, id, "accept")?;
        self.id.check_length("event id", id, StoreErrorKind::Invalid)
    }

    /// An event's id, which is an expression of text, as the column holds it.
    pub(crate) fn id_value(&self, text: &str) -> String {
        if self.id.kind == Kind::Uuid { format!("{text}::uuid") } else { text.to_owned() }
    }

    /// What removes rows that are older, and for how long they are kept as a text of microseconds.
    pub fn prune(&self, keep: Duration) -> Result<(&Arc<str>, String), StoreError> {
        let Some(text) = &self.prune else {
            let message = format!("table {} has no column that says when an event was accepted", self.table);
            return Err(StoreError::new(StoreErrorKind::Invalid, "prune", message)
                .hint("name one with `at_column`, or delete old rows yourself"));
        };
        Ok((text, i64::try_from(keep.as_micros()).unwrap_or(i64::MAX).to_string()))
    }

    /// The table, for people.
    pub fn table(&self) -> String {
        self.table.to_string()
    }
}

fn check_bytes(what: &str, value: &str, limit: usize) -> Result<(), StoreError> {
    if (1..=limit).contains(&value.len()) {
        return Ok(());
    }
    let message = format!("the {what} is {} bytes, it must be 1 to {limit}", value.len());
    Err(StoreError::new(StoreErrorKind::Invalid, "accept", message))
}

/// How many characters fit, in PostgreSQL's words for a type: `character varying(36)`.
fn chars_max(sql_type: &str) -> Option<usize> {
    let limit = sql_type.strip_prefix("character varying(").or_else(|| sql_type.strip_prefix("character("))?;
    limit.strip_suffix(')')?.parse().ok()
}

/// Consumer and id, together and not alone.
fn check_unique(inbox: &InboxTable, found: &Catalogue) -> Result<(), StoreError> {
    let (consumer, id, table) = (&inbox.consumer, &inbox.id, &found.table);
    if let Some(alone) = [id, consumer].into_iter().find(|name| found.is_unique(&[name])) {
        let what =
            if alone == id { "a second consumer could accept nothing" } else { "a consumer could accept one event" };
        return Err(refused(format!("{alone} is unique by itself in {table}: {what}"))
            .hint(format!("make ({consumer}, {id}) unique instead")));
    }
    if found.is_unique(&[consumer, id]) {
        return Ok(());
    }
    let message = format!("({consumer}, {id}) of {table} is not unique: every copy of an event would be new");
    Err(refused(message).hint(format!(
        "create unique index on {} ({}, {}); not partial, not deferrable, the columns as they are",
        table.in_sql(),
        consumer.in_sql(),
        id.in_sql()
    )))
}

/// The time in a column, to compare with.
fn moment(writer: &Writer<'_>, found: &Catalogue, at: &Name) -> Result<String, StoreError> {
    let column = found.column(at, "the time of the acceptance")?;
    match (writer.dialect, column.holds) {
        (Dialect::Postgres, Holds::Moment | Holds::LocalTime) | (Dialect::Sqlite, _) => {
            Ok(writer.moment(&crate::mapping::ColumnPath::column(at.clone())))
        }
        _ => Err(unfit(found, at, &column.sql_type, "make it a timestamptz, or leave it to its default")),
    }
}

fn unfit(found: &Catalogue, name: &Name, sql_type: &str, hint: &str) -> StoreError {
    refused(format!("column {name} of {} is of type {sql_type}", found.table)).hint(hint.to_owned())
}
