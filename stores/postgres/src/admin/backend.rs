//! What PostgreSQL lends the admin: its sessions, and the steps that only this store knows.

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
use sqlx::postgres::{PgArguments, PgRow};
use sqlx::query::Query;
use sqlx::{Column as _, Postgres, Row as _, TypeInfo as _};

use super::{events, forget, lanes, minutes, prune, routes, settled, timeline, verify};
use crate::clock::{Time, micros, timestamp};
use crate::database::Session;
use crate::error::Fault;
use crate::release::release;
use crate::sql::stored;
use crate::store::Inner;

/// The store as the admin sees it.
pub(crate) struct PostgresLog(pub(crate) Arc<Inner>);

/// A session with the store it belongs to.
struct AdminSession<'s> {
    session: &'s mut Session,
    inner: &'s Inner,
}

#[async_trait]
impl Execute for Session {
    fn dialect(&self) -> Dialect {
        Dialect::Postgres
    }

    fn source(&self) -> &'static str {
        ""
    }

    async fn fetch(&mut self, statement: Statement) -> Result<Vec<Row>, Carried> {
        let query = bound(self, statement);
        let rows = query.fetch_all(&mut *self.conn).await.map_err(carried)?;
        rows_of(&rows).map_err(carried)
    }

    async fn execute(&mut self, statement: Statement) -> Result<u64, Carried> {
        let query = bound(self, statement);
        Ok(query.execute(&mut *self.conn).await.map_err(carried)?.rows_affected())
    }
}

/// A statement as it reads in this store, with its values.
fn bound(session: &Session, statement: Statement) -> Query<'static, Postgres, PgArguments> {
    let Statement { text, verbatim, values } = statement;
    let text = if verbatim { text } else { session.sql.made(&text) };
    let mut query = session.sql.query_made(text.into()).persistent(false);
    for value in values {
        query = match value {
            Value::Text(text) => query.bind(text.map(|text| stored(&text))),
            Value::Int(number) => query.bind(number),
            Value::Float(number) => query.bind(number),
            Value::Bool(flag) => query.bind(flag),
            Value::Time(micros) => query.bind(micros.map(Time)),
            Value::Texts(list) => query.bind(list),
            Value::Ints(list) => query.bind(list),
        };
    }
    query
}

fn rows_of(rows: &[PgRow]) -> Result<Vec<Row>, sqlx::Error> {
    let Some(first) = rows.first() else { return Ok(Vec::new()) };
    let columns: Arc<[String]> = first.columns().iter().map(|column| column.name().to_owned()).collect();
    let row = |row: &PgRow| {
        let cells = (0..row.len()).map(|n| cell(row, n)).collect::<Result<_, _>>()?;
        Ok(Row::new(Arc::clone(&columns), cells))
    };
    rows.iter().map(row).collect()
}

fn cell(row: &PgRow, n: usize) -> Result<Cell, sqlx::Error> {
    let int = |number: Option<i64>| number.map_or(Cell::Null, Cell::Int);
    Ok(match row.column(n).type_info().name() {
        "INT8" => int(row.try_get_unchecked(n)?),
        "INT4" => int(row.try_get_unchecked::<Option<i32>, _>(n)?.map(i64::from)),
        "INT2" => int(row.try_get_unchecked::<Option<i16>, _>(n)?.map(i64::from)),
        "BOOL" => int(row.try_get_unchecked::<Option<bool>, _>(n)?.map(i64::from)),
        "TIMESTAMPTZ" => int(row.try_get_unchecked::<Option<Time>, _>(n)?.map(|at| at.0)),
        "FLOAT8" => row.try_get_unchecked::<Option<f64>, _>(n)?.map_or(Cell::Null, Cell::Float),
        _ => row.try_get_unchecked::<Option<String>, _>(n)?.map_or(Cell::Null, Cell::Text),
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

pub(crate) fn carried(fault: impl Into<Fault>) -> Carried {
    match fault.into() {
        Fault::Store(error) => error.into(),
        fault => Box::new(Faulty(fault)),
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
impl Execute for AdminSession<'_> {
    fn dialect(&self) -> Dialect {
        Dialect::Postgres
    }

    fn source(&self) -> &'static str {
        ""
    }

    async fn fetch(&mut self, statement: Statement) -> Result<Vec<Row>, Carried> {
        self.session.fetch(statement).await
    }

    async fn execute(&mut self, statement: Statement) -> Result<u64, Carried> {
        self.session.execute(statement).await
    }
}

#[async_trait]
impl postroom_admin::Session for AdminSession<'_> {
    async fn now(&mut self) -> Result<Timestamp, Carried> {
        Ok(timestamp(self.inner.now(self.session).await.map_err(carried)?))
    }
}

#[async_trait]
impl LogSession for AdminSession<'_> {
    /// The event is in the log or evacuated. It is looked up one by one, or the planner might join the whole log.
    fn event_of_delivery(&self) -> &'static str {
        "cross join lateral (select * from postroom.event e where e.lane = d.lane and e.seq = d.seq limit 1) l"
    }

    fn blocked_keys(&self) -> &'static str {
        include_str!("../sql/blocked_keys.sql")
    }

    fn head(&self) -> &'static str {
        include_str!("../sql/head.sql")
    }

    /// Not yet read or not yet settled by a lane's newest checkpoint, or waiting as a delivery of its own.
    fn undelivered(&self) -> &'static str {
        "(exists (select 1 from postroom.lane n left join lateral ( \
             select c.hwm, c.pending, c.unsettled from postroom.checkpoint c \
             where c.route = n.route and c.lane = n.lane order by c.term desc, c.id desc limit 1) c on true \
           where n.lane = l.lane \
             and (c.hwm is null or l.seq > c.hwm or l.tx = any(c.pending) or c.unsettled @> l.seq)) \
         or exists (select 1 from postroom.delivery d where d.lane = l.lane and d.seq = l.seq and d.state <> 'dead'))"
    }

    fn unread(&self) -> &'static str {
        include_str!("../sql/unread.sql")
    }

    async fn need_route(&mut self, route: &str, operation: &'static str) -> Result<(), Carried> {
        crate::routes::need(self.session, route, operation).await.map(drop).map_err(carried)
    }

    async fn need_unserved_route(&mut self, route: &str, operation: &'static str) -> Result<(), Carried> {
        crate::routes::need_unserved(self.session, self.inner, route, operation).await.map_err(carried)
    }

    async fn lock_key(&mut self, route: &str, key: &str) -> Result<(), Carried> {
        lanes::lock_key(self.session, route, key, self.inner.partitioning.lanes).await.map_err(carried)
    }

    async fn lock_deliveries(&mut self, handles: &[i64]) -> Result<(), Carried> {
        lanes::lock_deliveries(self.session, handles).await.map_err(carried)
    }

    async fn release_keys(&mut self, route: &str, keys: &[String], now: Timestamp) -> Result<(), Carried> {
        release(self.session, route, keys, micros(now)).await.map_err(carried)
    }

    async fn discard(&mut self, handles: &[i64], now: Timestamp) -> Result<(), Carried> {
        let sql = Arc::clone(&self.session.sql);
        let receipts = sql.made(&self.inner.partitioning.into_text(include_str!("../sql/discard_receipts.sql")));
        let receipts = sql.query_made(receipts.into()).bind(handles.to_vec()).bind(Time(micros(now)));
        receipts.execute(&mut *self.session.conn).await.map_err(carried)?;
        let discard = sql.query(include_str!("../sql/discard.sql")).bind(handles.to_vec());
        discard.execute(&mut *self.session.conn).await.map(drop).map_err(carried)
    }

    async fn settled_until(&mut self, route: Option<&str>) -> Result<String, Carried> {
        settled::until(self.session, route, self.inner.partitioning.lanes).await.map_err(carried)
    }

    async fn next_settled(
        &mut self,
        which: &Selection,
        until: &str,
        cursor: &str,
        at_most: u64,
    ) -> Result<SettledStep, Carried> {
        let lanes = self.inner.partitioning.lanes;
        settled::next(self.session, lanes, which, until, cursor, at_most).await.map_err(carried)
    }

    async fn deliver_settled(
        &mut self,
        deliveries: &[SettledDelivery],
        replay: &str,
        now: Timestamp,
    ) -> Result<u64, Carried> {
        settled::deliver(self.session, deliveries, replay, micros(now)).await.map_err(carried)
    }
}

#[async_trait]
impl Backend for PostgresLog {
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
impl LogBackend for PostgresLog {
    async fn read_log(&self, operation: &'static str, job: LogJob) -> Result<Answer, StoreError> {
        let inner = Arc::clone(&self.0);
        self.0
            .db
            .read(operation, move |session| {
                Box::pin(async move { job(&mut AdminSession { session, inner: &inner }).await.map_err(fault) })
            })
            .await
    }

    async fn write_log(&self, operation: &'static str, job: LogJob) -> Result<Answer, StoreError> {
        let inner = Arc::clone(&self.0);
        self.0
            .db
            .write(operation, move |session| {
                Box::pin(async move { job(&mut AdminSession { session, inner: &inner }).await.map_err(fault) })
            })
            .await
    }

    /// Owners of the lanes get theirs between two transactions, because each locks lanes for itself.
    async fn make_room(&self, _took: Duration) {}

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
        crate::routes::register(&self.0, routes).await
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
        let written = postroom_admin::throughput::list(self, route, from).await?;
        minutes::list(&self.0, written, route, from).await
    }

    async fn verify(&self) -> Result<Vec<VerifyRow>, StoreError> {
        verify::verify(&self.0).await
    }

    async fn prune(&self, retention: &Retention, dry_run: bool) -> Result<Pruned, StoreError> {
        prune::prune(&self.0, retention, dry_run).await
    }
}

#[async_trait]
impl Retain for PostgresLog {
    async fn prune(&self, retention: &Retention) -> Result<Pruned, StoreError> {
        prune::prune(&self.0, retention, false).await
    }
}
