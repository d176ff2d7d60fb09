//! The queue: what is published, polled and finalized by hand, and the manager that does it by itself.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use postroom::config::{Preset, Sources, load_store, open};
use postroom::postgres::PoolTransactions;
use postroom::postgres::sqlx::{self, PgPool, Postgres, Transaction};
use postroom::transport::Transport;
use postroom::{
    Clock, HandlerError, Limits, Relay, RelayOptions, RetryPolicy, Route, Store, StoreError, Transactions as _,
};
use serde::Serialize;

/// What the handlers of the example write to.
const BUSINESS: &str = "create table mails (about text); create table stock as select 100::bigint as pieces;";

/// When events are taken over, and given up.
#[derive(Debug, Clone, Copy)]
pub struct Policy {
    /// An event whose process has not been heard of for so long is anybody's.
    pub abandoned_after: Duration,
    /// An event that was taken so often, and never finished, is finished with errors.
    pub attempts_max: u32,
}

impl Default for Policy {
    fn default() -> Self {
        Self { abandoned_after: Duration::from_mins(1), attempts_max: 5 }
    }
}

/// An event in the queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueuedEvent {
    /// Its number.
    pub id: i64,
    /// What happened.
    pub event_type: String,
    /// The payload.
    pub payload: String,
    /// How often it was taken; whoever took it last may finalize it.
    pub attempts: i32,
}

impl From<(i64, String, String, i32)> for QueuedEvent {
    fn from((id, event_type, payload, attempts): (i64, String, String, i32)) -> Self {
        Self { id, event_type, payload, attempts }
    }
}

/// The queue.
#[derive(Clone)]
pub struct EventQueue {
    /// Its database.
    pub pool: PgPool,
    store: Arc<dyn Store>,
    policy: Policy,
}

impl EventQueue {
    /// Opens the database, and makes the tables in one that has none.
    pub async fn open(url: &str, policy: Policy) -> Result<Self, Box<dyn Error>> {
        let pool = PgPool::connect(url).await?;
        let there = "select to_regclass('event_queue') is not null";
        if !sqlx::query_scalar::<_, bool>(there).fetch_one(&pool).await? {
            let ddl = Preset::named("eventqueue").ok_or("the preset is part of Postroom")?.ddl();
            sqlx::raw_sql(sqlx::AssertSqlSafe(ddl + BUSINESS)).execute(&pool).await?;
        }
        let flag = |key: &str, value: String| (key.to_owned(), value);
        let millis = policy.abandoned_after.as_millis();
        let flags = vec![
            flag("store.main.mapping.claimed.lease", format!("{millis}ms")),
            flag("store.main.mapping.claimed.claims_max", policy.attempts_max.to_string()),
            flag("relay.lease", format!("{}ms", millis / 2)),
        ];
        let env = [("DATABASE_URL".to_owned(), url.to_owned())].into();
        let sources = Sources { preset: Some("eventqueue".to_owned()), env, flags, ..Sources::default() };
        Ok(Self { pool, store: open(&load_store(&sources)?, Limits::default()).await?, policy })
    }

    /// Begins a transaction; one that is dropped is rolled back.
    pub async fn begin(&self) -> Result<Transaction<'static, Postgres>, StoreError> {
        PoolTransactions::of(&self.pool).begin().await
    }

    /// Puts an event into the queue, in the transaction of what it speaks of.
    pub async fn publish(
        &self,
        tx: &mut Transaction<'_, Postgres>,
        event_type: &str,
        payload: &impl Serialize,
    ) -> Result<QueuedEvent, Box<dyn Error>> {
        let text = "insert into event_queue (event_type, payload) values ($1, $2::jsonb) \
                    returning id, event_type, payload::text, attempts";
        let query = sqlx::query_as::<_, (_, _, _, _)>(text).bind(event_type).bind(serde_json::to_string(payload)?);
        Ok(query.fetch_one(&mut **tx).await?.into())
    }

    /// Takes the next event, if there is one: never taken, or abandoned by this clock.
    pub async fn poll(&self, clock: &dyn Clock) -> Result<Option<QueuedEvent>, sqlx::Error> {
        let text = "update event_queue set status = 'PROCESSING', attempts = attempts + 1, updated_at = $1::timestamptz \
                    where id = (select id from event_queue where status = 'PENDING' or (status = 'PROCESSING' \
                      and updated_at < $1::timestamptz - $2 * interval '1 second') \
                      order by id limit 1 for update skip locked) \
                    returning id, event_type, payload::text, attempts";
        let timeout = self.policy.abandoned_after.as_secs_f64();
        let query = sqlx::query_as::<_, (_, _, _, _)>(text).bind(clock.now().to_string()).bind(timeout);
        Ok(query.fetch_optional(&self.pool).await?.map(QueuedEvent::from))
    }

    /// Moves an event that was polled into the log. `false` if it is there already, or somebody else has taken it since.
    pub async fn finalize(&self, event: &QueuedEvent, errors: &[HandlerError]) -> Result<bool, Box<dyn Error>> {
        let text = "with gone as (delete from event_queue where id = $1 and attempts = $2 and status = 'PROCESSING' \
                      returning id, event_type, payload, attempts, created_at) \
                    insert into event_log (id, event_type, payload, attempts, created_at, status, errors) \
                    select gone.*, $3, $4::jsonb from gone";
        let status = if errors.is_empty() { "COMPLETED" } else { "COMPLETED_WITH_ERRORS" };
        let query = sqlx::query(text).bind(event.id).bind(event.attempts).bind(status);
        Ok(query.bind(serde_json::to_string(errors)?).execute(&self.pool).await?.rows_affected() == 1)
    }

    /// The manager: polls, hands events to the handlers, keeps its claims while they work, and finalizes.
    pub fn manager(&self, handlers: impl Transport + 'static, drain: bool) -> Relay {
        let retry = RetryPolicy::default().attempts(1);
        let options = RelayOptions::default().lease(self.policy.abandoned_after / 2).drain(drain);
        Relay::new(Arc::clone(&self.store)).options(options).route(Route::named("eventqueue").retry(retry).to(handlers))
    }
}

impl std::fmt::Debug for EventQueue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EventQueue").field("policy", &self.policy).finish_non_exhaustive()
    }
}
