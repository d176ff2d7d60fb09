//! What SQLite lends the admin: its connections, and the steps that only this store knows.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use postroom_admin::view::{
    Affected, Contents, EventRow, RelayRow, RouteDetail, StoreRow, ThroughputRow, Timeline, VerifyRow,
};
use postroom_admin::{
    Answer, Backend, Cell, Dialect, Execute, Fault as Carried, Job, LogBackend, LogJob, LogSession, Page, Row,
    Selection, SettledDelivery, SettledStep, Statement, Value,
};
use postroom_core::view::Pruned;
use postroom_core::{Actor, Event, Retain, Retention, RouteSpec, StoreError, Timestamp};
use serde_json::json;
use sqlx::sqlite::{SqliteArguments, SqliteRow};
use sqlx::{AssertSqlSafe, Column as _, Row as _, SqliteConnection, TypeInfo as _, ValueRef as _};

use super::{events, forget, prune, routes, settled, timeline, turns, verify};
use crate::clock::micros;
use crate::error::Fault;
use crate::release::release;
use crate::store::Inner;

/// The store as the admin sees it.
pub(crate) struct SqliteLog(pub(crate) Arc<Inner>);

/// A connection, with the time by the store's clock.
pub(crate) struct AdminSession<'s> {
    conn: &'s mut SqliteConnection,
    now: Timestamp,
    source: String,
}

impl<'s> AdminSession<'s> {
    /// A session of a piece of work that began at this time.
    pub(crate) fn new(conn: &'s mut SqliteConnection, now: Timestamp) -> Self {
        Self { conn, now, source: String::new() }
    }

    /// The same session for an adopted table.
    #[cfg(feature = "adopted")]
    pub(crate) fn of_adopted(self, source: String) -> Self {
        Self { source, ..self }
    }
}

#[async_trait]
impl Execute for AdminSession<'_> {
    fn dialect(&self) -> Dialect {
        Dialect::Sqlite
    }

    fn source(&self) -> &str {
        &self.source
    }

    async fn fetch(&mut self, statement: Statement) -> Result<Vec<Row>, Carried> {
        let rows = bound(statement).fetch_all(&mut *self.conn).await.map_err(carried)?;
        rows_of(&rows).map_err(carried)
    }

    async fn execute(&mut self, statement: Statement) -> Result<u64, Carried> {
        Ok(bound(statement).execute(&mut *self.conn).await.map_err(carried)?.rows_affected())
    }
}

/// A statement as it reads in this store, with its values.
fn bound(statement: Statement) -> sqlx::query::Query<'static, sqlx::Sqlite, SqliteArguments> {
    let Statement { text, verbatim, values } = statement;
    let text = if verbatim { text } else { text.replace("postroom.", "postroom_") };
    let mut query = sqlx::query(AssertSqlSafe(text));
    for value in values {
        query = match value {
            Value::Text(text) => query.bind(text),
            Value::Int(number) | Value::Time(number) => query.bind(number),
            Value::Float(number) => query.bind(number),
            Value::Bool(flag) => query.bind(flag),
            Value::Texts(list) => query.bind(json!(list).to_string()),
            Value::Ints(list) => query.bind(json!(list).to_string()),
        };
    }
    query
}

fn rows_of(rows: &[SqliteRow]) -> Result<Vec<Row>, sqlx::Error> {
    let Some(first) = rows.first() else { return Ok(Vec::new()) };
    let columns: Arc<[String]> = first.columns().iter().map(|column| column.name().to_owned()).collect();
    let row = |row: &SqliteRow| {
        let cells = (0..row.len()).map(|n| cell(row, n)).collect::<Result<_, _>>()?;
        Ok(Row::new(Arc::clone(&columns), cells))
    };
    rows.iter().map(row).collect()
}

/// A value by the type it has in this row: SQLite's columns have none.
fn cell(row: &SqliteRow, n: usize) -> Result<Cell, sqlx::Error> {
    let value = row.try_get_raw(n)?;
    if value.is_null() {
        return Ok(Cell::Null);
    }
    let name = value.type_info().name().to_owned();
    Ok(match name.as_str() {
        "INTEGER" | "BOOLEAN" => Cell::Int(row.try_get_unchecked(n)?),
        "REAL" => Cell::Float(row.try_get_unchecked(n)?),
        _ => Cell::Text(String::from_utf8_lossy(row.try_get_unchecked::<&[u8], _>(n)?).into_owned()),
    })
}

/// A fault of this store on its way through the admin, which does not look into it.
#[derive(Debug)]
struct Faulty(Fault);

impl std::fmt::Display for Faulty {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the database failed")
    }
}

impl std::error::Error for Faulty {}

fn carried(fault: impl Into<Fault>) -> Carried {
    match fault.into() {
        Fault::Store(error) => error.into(),
        fault @ Fault::Database(_) => Box::new(Faulty(fault)),
    }
}

/// What went wrong, as this store knows it again.
pub(crate) fn fault(carried: Carried) -> Fault {
    let carried = match carried.downcast::<Faulty>() {
        Ok(faulty) => return faulty.0,
        Err(carried) => carried,
    };
    match carried.downcast::<StoreError>() {
        Ok(error) => Fault::Store(*error),
        Err(other) => Fault::Database(sqlx::Error::Decode(other)),
    }
}

#[async_trait]
impl postroom_admin::Session for AdminSession<'_> {
    async fn now(&mut self) -> Result<Timestamp, Carried> {
        Ok(self.now)
    }
}

#[async_trait]
impl LogSession for AdminSession<'_> {
    fn event_of_delivery(&self) -> &'static str {
        "join postroom.log l on l.seq = d.seq"
    }

    fn blocked_keys(&self) -> &'static str {
        include_str!("../sql/blocked_keys.sql")
    }

    fn head(&self) -> &'static str {
        include_str!("../sql/head.sql")
    }

    /// Not yet read or not yet settled, or waiting as a delivery of its own.
    fn undelivered(&self) -> &'static str {
        "(exists (select 1 from postroom.checkpoint c where l.seq > c.hwm or exists ( \
             select 1 from json_each(c.unsettled) u \
             where l.seq between json_extract(u.value, '$[0]') and json_extract(u.value, '$[1]'))) \
         or exists (select 1 from postroom.delivery d where d.seq = l.seq and d.state <> 'dead'))"
    }

    fn unread(&self) -> &'static str {
        include_str!("../sql/unread.sql")
    }

    async fn need_route(&mut self, route: &str, operation: &'static str) -> Result<(), Carried> {
        crate::routes::need(self.conn, route, operation).await.map(drop).map_err(carried)
    }

    async fn need_unserved_route(&mut self, route: &str, operation: &'static str) -> Result<(), Carried> {
        crate::routes::need_unserved(self.conn, route, micros(self.now), operation).await.map_err(carried)
    }

    /// There is one writer at a time.
    async fn lock_key(&mut self, _route: &str, _key: &str) -> Result<(), Carried> {
        Ok(())
    }

    /// There is one writer at a time.
    async fn lock_deliveries(&mut self, _handles: &[i64]) -> Result<(), Carried> {
        Ok(())
    }

    async fn release_keys(&mut self, route: &str, keys: &[String], now: Timestamp) -> Result<(), Carried> {
        for key in keys {
            release(self.conn, route, key, micros(now)).await.map_err(carried)?;
        }
        Ok(())
    }

    async fn discard(&mut self, handles: &[i64], now: Timestamp) -> Result<(), Carried> {
        let list = json!(handles).to_string();
        let receipts = sqlx::query(include_str!("../sql/discard_receipts.sql")).bind(&list).bind(micros(now));
        receipts.execute(&mut *self.conn).await.map_err(carried)?;
        sqlx::query(include_str!("../sql/count_discarded.sql"))
            .bind(&list)
            .execute(&mut *self.conn)
            .await
            .map_err(carried)?;
        sqlx::query("delete from postroom_delivery where handle in (select value from json_each(?1))")
            .bind(&list)
            .execute(&mut *self.conn)
            .await
            .map(drop)
            .map_err(carried)
    }

    async fn settled_until(&mut self, route: Option<&str>) -> Result<String, Carried> {
        settled::until(self.conn, route).await.map_err(carried)
    }

    async fn next_settled(
        &mut self,
        which: &Selection,
        until: &str,
        cursor: &str,
        at_most: u64,
    ) -> Result<SettledStep, Carried> {
        settled::next(self.conn, which, until, cursor, at_most).await.map_err(carried)
    }

    async fn deliver_settled(
        &mut self,
        deliveries: &[SettledDelivery],
        replay: &str,
        now: Timestamp,
    ) -> Result<u64, Carried> {
        settled::deliver(self.conn, deliveries, replay, micros(now)).await.map_err(carried)
    }
}

#[async_trait]
impl Backend for SqliteLog {
    fn store(&self) -> &str {
        &self.0.name
    }

    async fn read(&self, operation: &'static str, job: Job) -> Result<Answer, StoreError> {
        self.read_log(operation, Box::new(move |session| job(session))).await
    }

    async fn write(&self, operation: &'static str, job: Job) -> Result<Answer, StoreError> {
        self.write_log(operation, Box::new(move |session| job(session))).await
    }

    fn wake(&self) {
        self.0.wake.wake();
    }
}

#[async_trait]
impl LogBackend for SqliteLog {
    async fn read_log(&self, operation: &'static str, job: LogJob) -> Result<Answer, StoreError> {
        let now = self.0.clock.now();
        self.0
            .db
            .read(operation, move |conn| {
                Box::pin(async move { job(&mut AdminSession::new(conn, now)).await.map_err(fault) })
            })
            .await
    }

    async fn write_log(&self, operation: &'static str, job: LogJob) -> Result<Answer, StoreError> {
        let now = self.0.clock.now();
        self.0
            .db
            .write(operation, move |conn| {
                Box::pin(async move { job(&mut AdminSession::new(conn, now)).await.map_err(fault) })
            })
            .await
    }

    async fn make_room(&self, took: Duration) {
        turns::make_room(took).await;
    }

    async fn overwrite(&self) -> Result<(), StoreError> {
        self.0.db.empty_wal("erase").await
    }

    fn tables(self: Arc<Self>) -> Arc<dyn Backend> {
        self
    }

    async fn append(&self, events: &[Event]) -> Result<Vec<String>, StoreError> {
        events::append(&self.0, events).await
    }

    async fn append_once(&self, events: &[Event]) -> Result<Vec<String>, StoreError> {
        events::append_once(&self.0, events).await
    }

    async fn events(&self, which: &Selection, page: Page) -> Result<Vec<EventRow>, StoreError> {
        events::list(&self.0, which, page).await
    }

    async fn event(&self, id: &str, with_payload: bool) -> Result<Option<Timeline>, StoreError> {
        timeline::of(&self.0, id, with_payload).await
    }

    async fn contents(&self, positions: &[i64], with_payload: bool) -> Result<BTreeMap<i64, Contents>, StoreError> {
        events::contents(&self.0, positions, with_payload).await
    }

    async fn register(&self, routes: &[RouteSpec]) -> Result<Vec<String>, StoreError> {
        routes::register(&self.0, routes).await
    }

    async fn routes(&self) -> Result<Vec<RouteDetail>, StoreError> {
        routes::list(&self.0).await
    }

    async fn relays(&self) -> Result<Vec<RelayRow>, StoreError> {
        routes::relays(&self.0).await
    }

    async fn describe(&self) -> Result<StoreRow, StoreError> {
        events::store(&self.0).await
    }

    async fn forget(&self, route: &str, unread: u64, actor: &Actor) -> Result<(), StoreError> {
        forget::forget(&self.0, route, unread, actor).await
    }

    async fn count_settled(&self, which: &Selection, inbox_window: Option<Duration>) -> Result<Affected, StoreError> {
        settled::count(&self.0, which, inbox_window).await
    }

    async fn throughput(&self, route: Option<&str>, from: Timestamp) -> Result<Vec<ThroughputRow>, StoreError> {
        postroom_admin::throughput::list(self, route, from).await
    }

    async fn verify(&self) -> Result<Vec<VerifyRow>, StoreError> {
        verify::verify(&self.0).await
    }

    async fn prune(&self, retention: &Retention, dry_run: bool) -> Result<Pruned, StoreError> {
        prune::prune(&self.0, retention, dry_run).await
    }
}

#[async_trait]
impl Retain for SqliteLog {
    async fn prune(&self, retention: &Retention) -> Result<Pruned, StoreError> {
        prune::prune(&self.0, retention, false).await
    }
}
