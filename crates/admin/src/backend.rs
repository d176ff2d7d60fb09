//! What a store lends the admin: sessions that run statements, and the steps that differ from store to store.

use std::any::Any;
use std::collections::BTreeMap;
use std::error::Error;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use postroom_core::view::Pruned;
use postroom_core::{Actor, Event, Retention, RouteSpec, StoreError, StoreErrorKind};

use crate::row::Row;
use crate::statement::{Dialect, Statement};
use crate::view::{Affected, Contents, EventRow, RelayRow, RouteDetail, StoreRow, ThroughputRow, Timeline, VerifyRow};
use crate::{Page, Selection};

/// What can go wrong in a piece of work: an error of the store's own, or a [`StoreError`].
pub type Fault = Box<dyn Error + Send + Sync>;
/// A piece of work on a session.
pub type SessionFuture<'s, T> = Pin<Box<dyn Future<Output = Result<T, Fault>> + Send + 's>>;
/// What a piece of work found, whatever its type.
pub type Answer = Box<dyn Any + Send>;
/// A piece of work on tables of the operator's.
pub type Job = Box<dyn for<'s> FnOnce(&'s mut dyn Session) -> SessionFuture<'s, Answer> + Send>;
/// A piece of work on a native log.
pub type LogJob = Box<dyn for<'s> FnOnce(&'s mut dyn LogSession) -> SessionFuture<'s, Answer> + Send>;

/// A connection that runs statements.
#[async_trait]
pub trait Execute: Send {
    /// The SQL it speaks.
    fn dialect(&self) -> Dialect;
    /// Whose rows it reads and writes in the operators' tables: empty for a native log, else the adopted table.
    fn source(&self) -> &str;
    /// Runs a statement; returns its rows.
    async fn fetch(&mut self, statement: Statement) -> Result<Vec<Row>, Fault>;
    /// Runs a statement; returns how many rows it changed.
    async fn execute(&mut self, statement: Statement) -> Result<u64, Fault>;
}

/// A connection on which a piece of work runs.
#[async_trait]
pub trait Session: Execute {
    /// The time by the store's clock.
    async fn now(&mut self) -> Result<Timestamp, Fault>;
}

/// A database with the tables of the operator's: `audit`, `token`, `replay`, `stat`.
#[async_trait]
pub trait Backend: Send + Sync {
    /// The name of the store.
    fn store(&self) -> &str;
    /// Runs work that changes nothing.
    async fn read(&self, operation: &'static str, job: Job) -> Result<Answer, StoreError>;
    /// Runs work in one transaction.
    async fn write(&self, operation: &'static str, job: Job) -> Result<Answer, StoreError>;
    /// Tells the relays of this process that something may be due.
    fn wake(&self);
}

/// A settled event that a replay sends to a route again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SettledDelivery {
    /// The route.
    pub route: String,
    /// The lane of the event.
    pub lane: i16,
    /// The number of the event.
    pub seq: i64,
}

/// The next settled events of a replay.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SettledStep {
    /// The deliveries, in order of number and route.
    pub deliveries: Vec<SettledDelivery>,
    /// Where the replay then stands.
    pub cursor: String,
    /// Whether there are no more.
    pub last: bool,
}

/// A connection to a native log.
#[async_trait]
pub trait LogSession: Session {
    /// What joins a delivery `d` with its event as `l`.
    fn event_of_delivery(&self) -> &'static str;
    /// The keys that wait behind an earlier event, after a cursor: route `$1` or null, limit `$2`, cursor `$3`, `$4`, `$5`.
    fn blocked_keys(&self) -> &'static str;
    /// The event that key `$2` of route `$1` waits for, as `handle`, `id` and `healthy`: the first one that blocks the key. A
    /// healthy one only has its turn and never failed.
    fn head(&self) -> &'static str;
    /// The condition on an event `l` that a route has still to deliver it.
    fn undelivered(&self) -> &'static str;
    /// The events that route `$1` has not read yet or is sending for the first time, and that have no row among deliveries:
    /// after number `$2`, at most `$3`, oldest first, and whether an earlier event of the key blocks each. `{selected}` is where
    /// conditions on the event `l` go.
    fn unread(&self) -> &'static str;
    /// Fails with [`StoreErrorKind::NotFound`] when the route is not registered.
    async fn need_route(&mut self, route: &str, operation: &'static str) -> Result<(), Fault>;
    /// Fails with [`StoreErrorKind::NotFound`] when the route is not registered, and with [`StoreErrorKind::Conflict`] while a
    /// live relay serves it. No relay joins the route until the transaction ends.
    async fn need_unserved_route(&mut self, route: &str, operation: &'static str) -> Result<(), Fault>;
    /// Keeps everybody else from changing deliveries of the key until the transaction ends.
    async fn lock_key(&mut self, route: &str, key: &str) -> Result<(), Fault>;
    /// Keeps everybody else from changing these deliveries (their handles) until the transaction ends.
    async fn lock_deliveries(&mut self, handles: &[i64]) -> Result<(), Fault>;
    /// Lets keys go on as far as nothing blocks them any more.
    async fn release_keys(&mut self, route: &str, keys: &[String], now: Timestamp) -> Result<(), Fault>;
    /// Removes deliveries (their handles), counts them as discarded, and leaves a receipt that says so.
    async fn discard(&mut self, handles: &[i64], now: Timestamp) -> Result<(), Fault>;
    /// How far the route, or every route, has settled its events, as JSON that [`LogSession::next_settled`] reads.
    async fn settled_until(&mut self, route: Option<&str>) -> Result<String, Fault>;
    /// Finds the next settled events of a replay without a lock.
    async fn next_settled(
        &mut self,
        which: &Selection,
        until: &str,
        cursor: &str,
        at_most: u64,
    ) -> Result<SettledStep, Fault>;
    /// Makes deliveries of settled events for a replay, if they are not there yet; returns how many those are.
    async fn deliver_settled(
        &mut self,
        deliveries: &[SettledDelivery],
        replay: &str,
        now: Timestamp,
    ) -> Result<u64, Fault>;
}

/// A native log: what the admin asks of it beside statements.
#[async_trait]
pub trait LogBackend: Backend {
    /// Runs work that changes nothing.
    async fn read_log(&self, operation: &'static str, job: LogJob) -> Result<Answer, StoreError>;
    /// Runs work in one transaction.
    async fn write_log(&self, operation: &'static str, job: LogJob) -> Result<Answer, StoreError>;
    /// Lets others write between two transactions of one large action; `took` is how long the first one was.
    async fn make_room(&self, took: Duration);
    /// Removes what was erased from files of the database that still have it, as far as other programs let it.
    async fn overwrite(&self) -> Result<(), StoreError> {
        Ok(())
    }
    /// The backend itself, for the tables of the operator's.
    fn tables(self: Arc<Self>) -> Arc<dyn Backend>;

    /// Appends events in one transaction; returns their ids in order.
    async fn append(&self, events: &[Event]) -> Result<Vec<String>, StoreError>;
    /// The same without the events whose [`once_key`] was used before; returns the ids of the others.
    async fn append_once(&self, events: &[Event]) -> Result<Vec<String>, StoreError>;
    /// Lists events of the log.
    async fn events(&self, which: &Selection, page: Page) -> Result<Vec<EventRow>, StoreError>;
    /// Returns everything known of one event.
    async fn event(&self, id: &str, with_payload: bool) -> Result<Option<Timeline>, StoreError>;
    /// Returns the contents of the events at these positions, the payloads only on request.
    async fn contents(&self, positions: &[i64], with_payload: bool) -> Result<BTreeMap<i64, Contents>, StoreError>;
    /// Registers routes that are not there yet; returns the names that were new.
    async fn register(&self, routes: &[RouteSpec]) -> Result<Vec<String>, StoreError>;
    /// Lists routes with their state, counts and lanes.
    async fn routes(&self) -> Result<Vec<RouteDetail>, StoreError>;
    /// Lists relays.
    async fn relays(&self) -> Result<Vec<RelayRow>, StoreError>;
    /// Describes the store.
    async fn describe(&self) -> Result<StoreRow, StoreError>;
    /// Removes a route with its position and deliveries. The audit counts the deliveries, and `unread` events that have none yet.
    async fn forget(&self, route: &str, unread: u64, actor: &Actor) -> Result<(), StoreError>;
    /// Counts the settled events that a replay would send again.
    async fn count_settled(&self, which: &Selection, inbox_window: Option<Duration>) -> Result<Affected, StoreError>;
    /// Lists what one route or every route did per minute since `from`, up to now, in order of route and minute.
    async fn throughput(&self, route: Option<&str>, from: Timestamp) -> Result<Vec<ThroughputRow>, StoreError>;
    /// Compares counts per route and lane.
    async fn verify(&self) -> Result<Vec<VerifyRow>, StoreError>;
    /// Removes what retention does not keep.
    async fn prune(&self, retention: &Retention, dry_run: bool) -> Result<Pruned, StoreError>;
}

/// Runs work that changes nothing on the operator's tables; returns what it found.
pub async fn run_read<T, F>(backend: &dyn Backend, operation: &'static str, work: F) -> Result<T, StoreError>
where
    T: Send + 'static,
    F: for<'s> FnOnce(&'s mut dyn Session) -> SessionFuture<'s, T> + Send + 'static,
{
    known(operation, backend.read(operation, job(work)).await?)
}

/// Runs work on the operator's tables in one transaction; returns what it found.
pub async fn run_write<T, F>(backend: &dyn Backend, operation: &'static str, work: F) -> Result<T, StoreError>
where
    T: Send + 'static,
    F: for<'s> FnOnce(&'s mut dyn Session) -> SessionFuture<'s, T> + Send + 'static,
{
    known(operation, backend.write(operation, job(work)).await?)
}

/// Runs work that changes nothing on a log; returns what it found.
pub(crate) async fn read_log<T, F>(log: &dyn LogBackend, operation: &'static str, work: F) -> Result<T, StoreError>
where
    T: Send + 'static,
    F: for<'s> FnOnce(&'s mut dyn LogSession) -> SessionFuture<'s, T> + Send + 'static,
{
    known(operation, log.read_log(operation, log_job(work)).await?)
}

/// Runs work on a log in one transaction; returns what it found.
pub(crate) async fn write_log<T, F>(log: &dyn LogBackend, operation: &'static str, work: F) -> Result<T, StoreError>
where
    T: Send + 'static,
    F: for<'s> FnOnce(&'s mut dyn LogSession) -> SessionFuture<'s, T> + Send + 'static,
{
    known(operation, log.write_log(operation, log_job(work)).await?)
}

fn job<T, F>(work: F) -> Job
where
    T: Send + 'static,
    F: for<'s> FnOnce(&'s mut dyn Session) -> SessionFuture<'s, T> + Send + 'static,
{
    Box::new(|session| {
        let work = work(session);
        Box::pin(async { Ok(Box::new(work.await?) as Answer) })
    })
}

fn log_job<T, F>(work: F) -> LogJob
where
    T: Send + 'static,
    F: for<'s> FnOnce(&'s mut dyn LogSession) -> SessionFuture<'s, T> + Send + 'static,
{
    Box::new(|session| {
        let work = work(session);
        Box::pin(async { Ok(Box::new(work.await?) as Answer) })
    })
}

fn known<T: 'static>(operation: &'static str, answer: Answer) -> Result<T, StoreError> {
    let other = |_| StoreError::new(StoreErrorKind::Other, operation, "the store answered another question");
    answer.downcast().map(|answer| *answer).map_err(other)
}
