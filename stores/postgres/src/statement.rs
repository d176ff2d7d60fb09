//! The statements of producers and consumers, for any client: a text, and values that every client can bind.
//!
//! Texts, bytes and 32-bit integers, and arrays of them; the texts say what else they become. Our own path through sqlx
//! (`append`, `inbox`) and the adapters run nothing but these, so what is checked here is checked for all. A role that
//! may only call the functions gets texts that do: found out when the store is opened, because a refused statement would
//! spoil the caller's transaction.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use postroom_core::{Appended, CONSUMER_BYTES_MAX, Event, ID_BYTES_MAX, JSON, StoreError, StoreErrorKind, ToEvent};

use crate::clock::timestamp;
use crate::database::Database;
use crate::error::by_state;
use crate::schema::Partitioning;
use crate::sql::Sql;
use crate::store::PostgresStore;

/// Longest word of `append_once`, in bytes.
const IDEMPOTENCY_KEY_BYTES_MAX: usize = 255;

/// Value of a [`Statement`], by the PostgreSQL type it is bound as.
#[derive(Clone, PartialEq, Eq)]
pub enum Value {
    /// `text`
    Text(Option<String>),
    /// `int4`
    Int(i32),
    /// `bytea`
    Bytes(Vec<u8>),
    /// `text[]`
    Texts(Vec<Option<String>>),
    /// `int4[]`
    Ints(Vec<i32>),
    /// `bytea[]`
    ByteStrings(Vec<Vec<u8>>),
}

impl fmt::Debug for Value {
    /// The type only: payloads are not for logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Text(_) => "text",
            Self::Int(_) => "int4",
            Self::Bytes(_) => "bytea",
            Self::Texts(_) => "text[]",
            Self::Ints(_) => "int4[]",
            Self::ByteStrings(_) => "bytea[]",
        })
    }
}

/// Statement to execute in the caller's own transaction: `$1` is the first value, and so on.
///
/// The server's answer counts the rows: as many as there are events, and 0 when [`PostgresStore::statement_once`] or
/// [`PostgresStore::statement_accept`] found that it was done before.
#[derive(Debug, Clone)]
#[must_use = "execute it in your transaction"]
pub struct Statement {
    /// The text.
    pub sql: Arc<str>,
    /// The values.
    pub values: Vec<Value>,
    /// Ids of the events that it appends, in order.
    pub ids: Vec<String>,
}

/// The texts as they read in this store.
#[derive(Debug, Clone)]
pub(crate) struct Texts {
    /// Whether we may insert into the log ourselves.
    direct: bool,
    one: Arc<str>,
    many: Arc<str>,
    once: Arc<str>,
    many_by_function: Arc<str>,
    once_by_function: Arc<str>,
    accept: Arc<str>,
}

impl Texts {
    pub(crate) fn new(sql: &Sql, partitioning: Partitioning, direct: bool) -> Self {
        let made = |text: &str| Arc::from(sql.made(&partitioning.into_text(text)));
        Self {
            direct,
            one: made(include_str!("sql/append.sql")),
            many: made(include_str!("sql/append_many.sql")),
            once: made(include_str!("sql/append_once.sql")),
            many_by_function: made(include_str!("sql/append_by_function.sql")),
            once_by_function: made(include_str!("sql/append_once_by_function.sql")),
            accept: made(include_str!("sql/accept.sql")),
        }
    }

    /// Finds out which of them our role may use.
    pub(crate) async fn load(db: &Database, partitioning: Partitioning) -> Result<Self, StoreError> {
        let direct = db
            .read("open", |session| {
                Box::pin(async move {
                    let direct = session.sql.scalar(
                        "select has_table_privilege('postroom.log', 'insert') \
                         and has_sequence_privilege('postroom.log_seq', 'usage') \
                         and has_table_privilege('postroom.append_key', 'insert')",
                    );
                    Ok(direct.fetch_one(&mut *session.conn).await?)
                })
            })
            .await?;
        Ok(Self::new(&db.sql, partitioning, direct))
    }
}

impl PostgresStore {
    /// Builds a statement that appends an event, for a client without an adapter. After the commit, [`PostgresStore::wake`] tells the relays of
    /// this process.
    pub fn statement<E: ToEvent>(&self, event: &E) -> Result<Statement, StoreError> {
        let event = self.checked(event)?;
        if !self.inner.texts.direct {
            return Ok(self.many(&[event]));
        }
        let values = self.values_of(&event).collect();
        Ok(Statement { sql: Arc::clone(&self.inner.texts.one), values, ids: vec![event.id] })
    }

    /// Builds a statement that appends several events in order; the list may be empty.
    pub fn statement_many<E: ToEvent>(&self, events: &[E]) -> Result<Statement, StoreError> {
        let events = events.iter().map(|event| self.checked(event)).collect::<Result<Vec<_>, _>>()?;
        Ok(self.many(&events))
    }

    /// Builds a statement that appends an event unless an earlier committed append used the same idempotency key.
    pub fn statement_once<E: ToEvent>(&self, idempotency_key: &str, event: &E) -> Result<Statement, StoreError> {
        if idempotency_key.is_empty() || idempotency_key.len() > IDEMPOTENCY_KEY_BYTES_MAX {
            let message = format!(
                "the idempotency key is {} bytes, it must be 1 to {IDEMPOTENCY_KEY_BYTES_MAX}",
                idempotency_key.len()
            );
            return Err(StoreError::new(StoreErrorKind::Invalid, "append", message)
                .hint("use the id of the request that must not be repeated"));
        }
        let event = self.checked(event)?;
        let texts = &self.inner.texts;
        let sql = Arc::clone(if texts.direct { &texts.once } else { &texts.once_by_function });
        let values = self.values_of(&event).chain([Value::Text(Some(idempotency_key.to_owned()))]).collect();
        Ok(Statement { sql, values, ids: vec![event.id] })
    }

    /// Builds a statement that accepts the event for the consumer.
    pub fn statement_accept(&self, consumer: &str, id: &str) -> Result<Statement, StoreError> {
        self.inner.check_migrated("accept")?;
        for (what, value, limit) in [("consumer", consumer, CONSUMER_BYTES_MAX), ("event id", id, ID_BYTES_MAX)] {
            if value.is_empty() || value.len() > limit {
                let message = format!("the {what} is {} bytes, it must be 1 to {limit}", value.len());
                return Err(StoreError::new(StoreErrorKind::Invalid, "accept", message));
            }
        }
        let values = vec![Value::Text(Some(consumer.to_owned())), Value::Text(Some(id.to_owned())), self.time()];
        Ok(Statement { sql: Arc::clone(&self.inner.texts.accept), values, ids: Vec::new() })
    }

    /// Returns the result of an append from the number of affected rows.
    pub fn appended(&self, statement: Statement, rows: u64) -> Appended {
        let ids = if rows == 0 { Vec::new() } else { statement.ids };
        Appended::new(ids, self.inner.wake.clone())
    }

    /// Converts the server's error of a statement, by its SQLSTATE and message, whichever client returned it.
    pub fn refused(&self, operation: &'static str, state: &str, said: &str) -> StoreError {
        let (kind, message, hint) = by_state(state, said, operation, &self.inner.db.place);
        StoreError::new(kind, operation, message).hint(hint)
    }

    fn checked<E: ToEvent>(&self, event: &E) -> Result<Event, StoreError> {
        self.inner.check_migrated("append")?;
        let event = event.to_event()?;
        self.inner.limits.check(&event)?;
        if let Some(contract) = &self.inner.contract {
            contract.check(&event)?;
        }
        Ok(event)
    }

    /// The parts of an event in the order of the texts.
    fn values_of(&self, event: &Event) -> impl Iterator<Item = Value> {
        let texts = texts(event).map(Value::Text);
        let [occurred_at, available_at] = times(event).map(Value::Text);
        let rest = [
            Value::Int(event.schema_version),
            occurred_at,
            available_at,
            Value::Bytes(event.payload.to_vec()),
            self.time(),
        ];
        texts.into_iter().chain(rest)
    }

    /// The same, column by column.
    fn many(&self, events: &[Event]) -> Statement {
        let mut columns: [Vec<Option<String>>; 11] = Default::default();
        let mut moments: [Vec<Option<String>>; 2] = Default::default();
        for event in events {
            columns.iter_mut().zip(texts(event)).for_each(|(column, text)| column.push(text));
            moments.iter_mut().zip(times(event)).for_each(|(column, time)| column.push(time));
        }
        let versions = Value::Ints(events.iter().map(|event| event.schema_version).collect());
        let payloads = Value::ByteStrings(events.iter().map(|event| event.payload.to_vec()).collect());
        let values = columns.into_iter().map(Value::Texts).chain([versions]);
        let values = values.chain(moments.into_iter().map(Value::Texts)).chain([payloads, self.time()]).collect();
        let texts = &self.inner.texts;
        let sql = Arc::clone(if texts.direct { &texts.many } else { &texts.many_by_function });
        Statement { sql, values, ids: events.iter().map(|event| event.id.clone()).collect() }
    }

    /// The time, unless it is the database's.
    fn time(&self) -> Value {
        Value::Text(self.inner.clock().map(|time| timestamp(time.0).to_string()))
    }
}

/// `$1` to `$11`. Null stands for the usual content type and for empty objects.
fn texts(event: &Event) -> [Option<String>; 11] {
    [
        Some(event.id.clone()),
        Some(event.event_type.clone()),
        event.key.clone(),
        event.aggregate_type.clone(),
        event.aggregate_id.clone(),
        event.tenant.clone(),
        (event.content_type != JSON).then(|| event.content_type.clone()),
        object(&event.headers),
        object(&event.attributes),
        event.correlation_id.clone(),
        event.causation_id.clone(),
    ]
}

/// `$13` and `$14`.
fn times(event: &Event) -> [Option<String>; 2] {
    [Some(event.occurred_at.to_string()), event.available_at.map(|at| at.to_string())]
}

fn object<T: serde::Serialize>(map: &BTreeMap<String, T>) -> Option<String> {
    (!map.is_empty()).then(|| serde_json::json!(map).to_string())
}
