//! The producer's side: appends in the caller's own transaction.
//!
//! One statement each, which takes the transaction id before it draws numbers. A role that may only call the functions
//! uses those instead: found out when the store is opened, because a refused statement would spoil the transaction.

use std::sync::Arc;

use jiff::Timestamp;
use postroom_core::{Appended, Event, Outbox, StoreError, StoreErrorKind, ToEvent};
use serde_json::json;
use sqlx::Transaction;
use sqlx::postgres::PgArguments;
use sqlx::query::Query;

use crate::clock::{Time, timestamp};
use crate::database::Database;
use crate::error::Fault;
use crate::schema::Ring;
use crate::sql::Sql;
use crate::store::Postgres;

/// Longest word of `append_once`, in bytes.
const WORD_BYTES_MAX: usize = 255;

/// The statements as they read in this store.
#[derive(Debug, Clone)]
pub(crate) struct Texts {
    /// Whether we may insert into the log ourselves.
    direct: bool,
    one: Arc<str>,
    many: Arc<str>,
    once: Arc<str>,
    by_function: Arc<str>,
}

impl Texts {
    pub(crate) fn new(sql: &Sql, ring: Ring, direct: bool) -> Self {
        let made = |text: &str| Arc::from(sql.made(&ring.into_text(text)));
        Self {
            direct,
            one: made(include_str!("sql/append.sql")),
            many: made(include_str!("sql/append_many.sql")),
            once: made(include_str!("sql/append_once.sql")),
            by_function: made(include_str!("sql/append_by_function.sql")),
        }
    }

    /// Finds out which of them our role may use.
    pub(crate) async fn load(db: &Database, ring: Ring) -> Result<Self, StoreError> {
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
        Ok(Self::new(&db.sql, ring, direct))
    }
}

impl Outbox for Postgres {
    type Tx<'t> = Transaction<'t, sqlx::Postgres>;

    async fn append<E: ToEvent + Sync>(&self, tx: &mut Self::Tx<'_>, event: &E) -> Result<Appended, StoreError> {
        let event = self.checked(event)?;
        if !self.inner.texts.direct {
            return self.insert(tx, vec![event]).await;
        }
        let statement = self.inner.db.sql.query_made(Arc::clone(&self.inner.texts.one));
        let statement = bind_one(statement, &event).bind(self.inner.clock().map(text));
        statement.execute(&mut **tx).await.map_err(|e| self.failed(e))?;
        Ok(self.appended(vec![event.id]))
    }

    async fn append_many<E: ToEvent + Sync>(
        &self,
        tx: &mut Self::Tx<'_>,
        events: &[E],
    ) -> Result<Appended, StoreError> {
        let events = events.iter().map(|event| self.checked(event)).collect::<Result<Vec<_>, _>>()?;
        self.insert(tx, events).await
    }

    async fn append_once<E: ToEvent + Sync>(
        &self,
        tx: &mut Self::Tx<'_>,
        once: &str,
        event: &E,
    ) -> Result<Appended, StoreError> {
        if once.is_empty() || once.len() > WORD_BYTES_MAX {
            let message = format!("the word of append_once is {} bytes, it must be 1 to {WORD_BYTES_MAX}", once.len());
            return Err(StoreError::new(StoreErrorKind::Invalid, "append", message)
                .hint("use the id of the request that must not be repeated"));
        }
        let event = self.checked(event)?;
        let new = if self.inner.texts.direct {
            let statement = self.inner.db.sql.query_made(Arc::clone(&self.inner.texts.once));
            let statement = bind_one(statement, &event).bind(self.inner.clock().map(text)).bind(once.to_owned());
            statement.execute(&mut **tx).await.map_err(|e| self.failed(e))?.rows_affected() == 1
        } else {
            self.once_by_function(tx, once, &event).await?
        };
        Ok(self.appended(if new { vec![event.id] } else { Vec::new() }))
    }
}

impl Postgres {
    fn checked<E: ToEvent>(&self, event: &E) -> Result<Event, StoreError> {
        let event = event.to_event()?;
        self.inner.limits.check(&event)?;
        Ok(event)
    }

    async fn insert(&self, tx: &mut sqlx::PgConnection, events: Vec<Event>) -> Result<Appended, StoreError> {
        if events.is_empty() {
            return Ok(self.appended(Vec::new()));
        }
        let texts = &self.inner.texts;
        let written = if texts.direct { &texts.many } else { &texts.by_function };
        let statement = bind_many(self.inner.db.sql.query_made(Arc::clone(written)), &events);
        statement.bind(self.inner.clock().map(text)).execute(tx).await.map_err(|e| self.failed(e))?;
        Ok(self.appended(events.into_iter().map(|event| event.id).collect()))
    }

    async fn once_by_function(
        &self,
        tx: &mut sqlx::PgConnection,
        once: &str,
        event: &Event,
    ) -> Result<bool, StoreError> {
        if !event.is_json() {
            return Err(StoreError::new(
                StoreErrorKind::Refused,
                "append",
                "append_once of a payload that is not JSON needs the right to insert into the log",
            )
            .hint("grant the role postroom_writer; `postroom store roles` prints the script"));
        }
        let appended: Option<String> = self
            .inner
            .db
            .sql
            .scalar(
                "select postroom.append_once($16, $2, $3, convert_from($15, 'UTF8')::json, $1, $4, $5, $6, \
                 coalesce($8::jsonb, '{}'), coalesce($9::jsonb, '{}'), $10, $11, $12, $13::timestamptz, $14::timestamptz) \
                 where $7::text is null",
            )
            .bind(event.id.clone())
            .bind(event.event_type.clone())
            .bind(event.key.clone())
            .bind(event.aggregate_type.clone())
            .bind(event.aggregate_id.clone())
            .bind(event.tenant.clone())
            .bind(None::<String>)
            .bind(object(&event.headers))
            .bind(object(&event.attributes))
            .bind(event.correlation_id.clone())
            .bind(event.causation_id.clone())
            .bind(event.schema_version)
            .bind(event.occurred_at.to_string())
            .bind(event.available_at.map(|at| at.to_string()))
            .bind(event.payload.to_vec())
            .bind(once.to_owned())
            .fetch_one(tx)
            .await
            .map_err(|e| self.failed(e))?;
        Ok(appended.is_some())
    }

    fn appended(&self, ids: Vec<String>) -> Appended {
        Appended::new(ids, self.inner.wake.clone())
    }

    fn failed(&self, error: sqlx::Error) -> StoreError {
        Fault::from(error).at("append", &self.inner.db.place)
    }
}

/// The parts of an event in the order of the statements.
fn bind_one<'q>(
    statement: Query<'q, sqlx::Postgres, PgArguments>,
    event: &Event,
) -> Query<'q, sqlx::Postgres, PgArguments> {
    statement
        .bind(event.id.clone())
        .bind(event.event_type.clone())
        .bind(event.key.clone())
        .bind(event.aggregate_type.clone())
        .bind(event.aggregate_id.clone())
        .bind(event.tenant.clone())
        .bind(content_type(event))
        .bind(object(&event.headers))
        .bind(object(&event.attributes))
        .bind(event.correlation_id.clone())
        .bind(event.causation_id.clone())
        .bind(event.schema_version)
        .bind(event.occurred_at.to_string())
        .bind(event.available_at.map(|at| at.to_string()))
        .bind(event.payload.to_vec())
}

/// The same, column by column.
fn bind_many<'q>(
    statement: Query<'q, sqlx::Postgres, PgArguments>,
    events: &[Event],
) -> Query<'q, sqlx::Postgres, PgArguments> {
    fn column<T>(events: &[Event], of: impl Fn(&Event) -> T) -> Vec<T> {
        events.iter().map(of).collect()
    }
    statement
        .bind(column(events, |e| e.id.clone()))
        .bind(column(events, |e| e.event_type.clone()))
        .bind(column(events, |e| e.key.clone()))
        .bind(column(events, |e| e.aggregate_type.clone()))
        .bind(column(events, |e| e.aggregate_id.clone()))
        .bind(column(events, |e| e.tenant.clone()))
        .bind(column(events, content_type))
        .bind(column(events, |e| object(&e.headers)))
        .bind(column(events, |e| object(&e.attributes)))
        .bind(column(events, |e| e.correlation_id.clone()))
        .bind(column(events, |e| e.causation_id.clone()))
        .bind(column(events, |e| e.schema_version))
        .bind(column(events, |e| e.occurred_at.to_string()))
        .bind(column(events, |e| e.available_at.map(|at| at.to_string())))
        .bind(column(events, |e| e.payload.to_vec()))
}

/// Null stands for the usual one.
fn content_type(event: &Event) -> Option<String> {
    (event.content_type != postroom_core::JSON).then(|| event.content_type.clone())
}

/// An object as JSON; null stands for an empty one.
fn object<T: serde::Serialize>(map: &std::collections::BTreeMap<String, T>) -> Option<String> {
    (!map.is_empty()).then(|| json!(map).to_string())
}

fn text(time: Time) -> String {
    let time: Timestamp = timestamp(time.0);
    time.to_string()
}
