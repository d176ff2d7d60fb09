//! How everything here reaches the server: the caller's pool, the workers' and the keeper's, and the SQL in its schema.
//!
//! Our own work always runs in tasks that are not cancelled: sqlx can leave a pooled connection inside a transaction when
//! a `begin` is dropped half-way, and the next write through it would be lost. A piece of work that does not end in time
//! loses its connection, not only its caller.

use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use postroom_core::{Diagnostic, StoreError, StoreErrorKind};
use sqlx::postgres::PgPoolOptions;
use sqlx::{Executor, PgPool, Postgres, Transaction};
use tokio::task::JoinError;

use crate::error::Fault;
use crate::options::{Pooler, PostgresOptions};
use crate::sql::Sql;
use pool::{ACQUIRE_TIMEOUT, Lent, Pool, answers};

mod connect;
#[cfg(feature = "adopted")]
mod held;
mod pool;

/// Connections for callers and their transactions.
const CALLERS_MAX: u32 = 16;
/// Connections for relays and operators.
const WORKERS_MAX: usize = 8;
/// Connections of a store that is opened for admin connections, how long to wait for a free one, and how long a piece of work may take there.
const ADMIN_SESSIONS_MAX: usize = 2;
const ADMIN_ACQUIRE_TIMEOUT: Duration = Duration::from_secs(1);
const ADMIN_DEADLINE: Duration = Duration::from_secs(4);
/// How long a piece of work may take before its connection is given up.
const DEADLINE: Duration = Duration::from_secs(20);
/// The same for what counts or moves a whole log.
const LONG_DEADLINE: Duration = Duration::from_mins(30);

/// Whose tables a database is used for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TablesOf {
    /// Ours: sessions have no search path, so that nothing of others is taken for what we mean.
    Ourselves,
    /// The application's: its triggers find what they find in its own sessions.
    #[cfg(feature = "adopted")]
    Application,
}

/// Future of a unit of work on a session.
pub(crate) type SessionFuture<'c, T> = Pin<Box<dyn Future<Output = Result<T, Fault>> + Send + 'c>>;

/// A connection, with the SQL as it reads in this store.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) conn: Lent,
    pub(crate) sql: Arc<Sql>,
}

/// One database.
#[derive(Debug)]
pub(crate) struct Database {
    /// What people know it as: `shop at db:5432`.
    pub(crate) place: String,
    pub(crate) callers: PgPool,
    workers: Arc<Pool>,
    /// The caller's pool, while no relay is served that needs connections of our own.
    borrowed: Option<Arc<Pool>>,
    serving: AtomicBool,
    /// One connection kept for renewals, so that a server without free ones does not cost us our lanes.
    keeper: Arc<Pool>,
    pub(crate) sql: Arc<Sql>,
    servers: connect::Servers,
    /// Whether a pooler gives each transaction another session.
    pub(crate) pooled: bool,
    /// Whether that was found out, and not told.
    pub(crate) pooled_by_probe: bool,
    /// Whether nothing may take long.
    for_admin: bool,
    doubt: Doubt,
}

/// How a piece of work runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Each statement by itself.
    Statements,
    /// The same, for a heartbeat.
    Renewal,
    /// One transaction with our settings in it, behind a pooler. Even for a single statement: sqlx ends the server's turn
    /// between preparing and executing it, and in between the pooler may give the session to somebody else.
    Pooled,
    /// One `read committed` transaction: every statement sees what was committed before it.
    Transaction,
    /// The same, for work that may take long.
    LongTransaction,
}

impl Database {
    /// Finds the primary among the servers, and out whether a pooler stands in front of it.
    pub(crate) async fn open(options: &PostgresOptions, of: TablesOf) -> Result<Self, StoreError> {
        let (servers, (connect, pooled)) = if let Some(pool) = &options.pool {
            connect::Servers::of_pool(pool, options.pooler).await?
        } else {
            let servers = connect::Servers::parse(options)?;
            let reached = servers.reach(options.pooler).await?;
            (servers, reached)
        };
        let place = connect::place(&connect);
        let doubt = Doubt::default();
        // Asking before every use would cost a round trip; a dead connection shows itself in the work's error, and only
        // those that were idle then are asked.
        let trust = doubt.clone();
        let callers = PgPoolOptions::new()
            .max_connections(CALLERS_MAX)
            .acquire_timeout(ACQUIRE_TIMEOUT)
            .test_before_acquire(false)
            .before_acquire(move |conn, about| {
                let trusted = trust.trusts(about.idle_for);
                Box::pin(async move { Ok(trusted || answers(conn).await) })
            });
        let ours = connect::ours(&connect, pooled, of, options.for_admin);
        let (workers_max, patience) = if options.for_admin {
            (ADMIN_SESSIONS_MAX, ADMIN_ACQUIRE_TIMEOUT)
        } else {
            (WORKERS_MAX, ACQUIRE_TIMEOUT)
        };
        Ok(Self {
            callers: options.pool.clone().unwrap_or_else(|| callers.connect_lazy_with(connect)),
            borrowed: options.pool.clone().map(|pool| Arc::new(Pool::of_callers(pool))),
            serving: AtomicBool::new(false),
            workers: Arc::new(Pool::new(workers_max, patience, ours.clone(), doubt.clone())),
            keeper: Arc::new(Pool::new(1, patience, ours, doubt.clone())),
            sql: Arc::new(Sql::new(&options.schema, !pooled)),
            servers,
            place,
            pooled,
            pooled_by_probe: pooled && options.pooler == Pooler::Auto,
            for_admin: options.for_admin,
            doubt,
        })
    }

    /// How our sessions travel to the server; `encrypted` is what the server says of ours.
    pub(crate) fn travels(&self, encrypted: bool) -> Diagnostic {
        connect::travels(&self.callers.connect_options(), encrypted)
    }

    /// A relay is served: from now on our own work has connections of its own.
    pub(crate) fn serve(&self) {
        self.serving.store(true, Ordering::Release);
    }

    /// A transaction of the caller's own.
    ///
    /// Nothing has happened in it yet, so a connection that has died since it was last used is replaced once.
    pub(crate) async fn begin(&self) -> Result<Transaction<'static, Postgres>, StoreError> {
        let begun = match self.begin_once().await {
            Err(fault) if fault.may_have_moved() => {
                self.lost();
                self.begin_once().await
            }
            begun => begun,
        };
        self.explained("begin", begun)
    }

    #[allow(clippy::disallowed_methods, reason = "the one place where nobody can drop it half-way")]
    async fn begin_once(&self) -> Result<Transaction<'static, Postgres>, Fault> {
        let pool = self.callers.clone();
        let begun = tokio::spawn(async move { pool.begin().await }).await;
        Ok(joined(begun, "begin")??)
    }

    /// A connection was lost: those that lie idle may be, too, and the primary may be elsewhere.
    fn lost(&self) {
        self.doubt.begin();
        self.servers.moved(&self.callers, [&self.workers, &self.keeper]);
    }

    /// Runs statements, each by itself.
    pub(crate) async fn read<T, F>(&self, operation: &'static str, work: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: for<'c> FnOnce(&'c mut Session) -> SessionFuture<'c, T> + Send + 'static,
    {
        self.explained(operation, self.run(&self.workers, Kind::Statements, operation, work).await)
    }

    /// Runs the work in one transaction.
    pub(crate) async fn write<T, F>(&self, operation: &'static str, work: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: for<'c> FnOnce(&'c mut Session) -> SessionFuture<'c, T> + Send + 'static,
    {
        self.explained(operation, self.run(&self.workers, Kind::Transaction, operation, work).await)
    }

    /// Runs work that may take minutes in one transaction.
    pub(crate) async fn write_long<T, F>(&self, operation: &'static str, work: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: for<'c> FnOnce(&'c mut Session) -> SessionFuture<'c, T> + Send + 'static,
    {
        self.explained(operation, self.run(&self.workers, Kind::LongTransaction, operation, work).await)
    }

    /// Runs statements on the connection that is kept for renewals.
    pub(crate) async fn renew<T, F>(&self, operation: &'static str, work: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: for<'c> FnOnce(&'c mut Session) -> SessionFuture<'c, T> + Send + 'static,
    {
        self.explained(operation, self.run(&self.keeper, Kind::Renewal, operation, work).await)
    }

    /// Like [`Self::read`] and [`Self::write`], for callers that must know whether it may have happened all the same.
    pub(crate) async fn attempt<T, F>(&self, operation: &'static str, kind: Kind, work: F) -> Result<T, Fault>
    where
        T: Send + 'static,
        F: for<'c> FnOnce(&'c mut Session) -> SessionFuture<'c, T> + Send + 'static,
    {
        self.run(&self.workers, kind, operation, work).await
    }

    fn explained<T>(&self, operation: &'static str, result: Result<T, Fault>) -> Result<T, StoreError> {
        result.map_err(|fault| fault.at(operation, &self.place))
    }

    async fn run<T, F>(&self, pool: &Arc<Pool>, kind: Kind, operation: &'static str, work: F) -> Result<T, Fault>
    where
        T: Send + 'static,
        F: for<'c> FnOnce(&'c mut Session) -> SessionFuture<'c, T> + Send + 'static,
    {
        let borrowed = self.borrowed.as_ref().filter(|_| !self.serving.load(Ordering::Acquire));
        let (pool, sql) = (Arc::clone(borrowed.unwrap_or(pool)), Arc::clone(&self.sql));
        // A session of the caller's has the caller's settings: ours go into the transaction, as behind a pooler.
        let pooled = self.pooled || borrowed.is_some();
        let spare = (kind == Kind::Renewal).then(|| Arc::clone(&self.workers));
        let for_admin = self.for_admin;
        let kind = match kind {
            Kind::LongTransaction if for_admin => Kind::Transaction,
            kind => kind,
        };
        let kind = if pooled && kind != Kind::LongTransaction { Kind::Pooled } else { kind };
        let task = tokio::spawn(async move {
            let mut session = Session { conn: acquire(&pool, spare.as_deref()).await?, sql };
            let deadline = match kind {
                _ if for_admin => ADMIN_DEADLINE,
                Kind::LongTransaction => LONG_DEADLINE,
                _ => DEADLINE,
            };
            let done = tokio::time::timeout(deadline, on(&mut session, kind, for_admin, work)).await;
            let result = done.unwrap_or(Err(Fault::TimedOut));
            // After any other fault the next one starts with a clean connection.
            if matches!(&result, Ok(_) | Err(Fault::Store(_))) {
                session.conn.give_back();
            }
            result
        });
        let result = joined(task.await, operation).map_err(Fault::from)?;
        if result.as_ref().is_err_and(Fault::may_have_moved) {
            self.lost();
        }
        result
    }
}

/// Since when connections that lay idle are not to be trusted: another one was lost then. A firewall that forgot one has
/// forgotten all, and each would cost a whole deadline.
#[derive(Debug, Clone, Default)]
struct Doubt(Arc<Mutex<Option<Instant>>>);

impl Doubt {
    fn begin(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
    }

    /// Whether a connection that has been idle for so long may be used without asking.
    fn trusts(&self, idle_for: Duration) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).is_none_or(|lost| idle_for < lost.elapsed())
    }
}

/// A connection. A renewal that does not end keeps the only one there is for renewals: for that there is the spare.
async fn acquire(pool: &Pool, spare: Option<&Pool>) -> Result<Lent, Fault> {
    match (pool.acquire().await, spare) {
        (Err(Fault::Database(sqlx::Error::PoolTimedOut)), Some(spare)) => spare.acquire().await,
        (acquired, _) => acquired,
    }
}

async fn on<T, F>(session: &mut Session, kind: Kind, for_admin: bool, work: F) -> Result<T, Fault>
where
    F: for<'c> FnOnce(&'c mut Session) -> SessionFuture<'c, T>,
{
    if matches!(kind, Kind::Statements | Kind::Renewal) {
        return work(session).await;
    }
    session.conn.execute(begin(kind, for_admin)).await?;
    ended(session, work).await
}

/// How a transaction of ours begins. Whatever the role's default is, a statement that waited for a lock must see what its
/// holder did.
///
/// A pooler does not tell the server that a client has vanished, and session settings would stay with strangers: so every
/// transaction says by itself how long it may stand idle. Direct sessions have that from [`connect::ours`].
fn begin(kind: Kind, for_admin: bool) -> &'static str {
    match kind {
        Kind::LongTransaction => {
            "begin isolation level read committed; set local jit = off; set local enable_seqscan = on; \
             set local statement_timeout = 0; set local lock_timeout = '10s'; \
             set local idle_in_transaction_session_timeout = '8s'; set local tcp_user_timeout = '10s'"
        }
        Kind::Pooled if for_admin => {
            "begin isolation level read committed; set local jit = off; set local enable_seqscan = off; \
             set local statement_timeout = '2s'; set local lock_timeout = '2s'; set local max_parallel_workers_per_gather = 0; \
             set local idle_in_transaction_session_timeout = '8s'; set local tcp_user_timeout = '10s'"
        }
        Kind::Pooled => {
            "begin isolation level read committed; set local jit = off; set local enable_seqscan = off; \
             set local statement_timeout = '19s'; set local lock_timeout = '10s'; \
             set local idle_in_transaction_session_timeout = '8s'; set local tcp_user_timeout = '10s'"
        }
        Kind::Statements | Kind::Renewal | Kind::Transaction => "begin isolation level read committed",
    }
}

/// Runs the last work of a transaction, and commits it or rolls it back.
async fn ended<T, F>(session: &mut Session, work: F) -> Result<T, Fault>
where
    F: for<'c> FnOnce(&'c mut Session) -> SessionFuture<'c, T>,
{
    match work(session).await {
        Ok(result) => {
            if let Err(error) = session.conn.execute("commit").await {
                let certain = error.as_database_error().is_some();
                return Err(if certain { Fault::Database(error) } else { Fault::Commit(error) });
            }
            Ok(result)
        }
        Err(fault) => {
            // The pool gets the session back after our own no, of whatever kind: it must not be inside a transaction.
            if fault.is_certain() || matches!(fault, Fault::Store(_)) {
                session.conn.execute("rollback").await?;
            }
            Err(fault)
        }
    }
}

/// What came of a task of ours; its panic is ours too.
pub(crate) fn joined<T>(result: Result<T, JoinError>, operation: &'static str) -> Result<T, StoreError> {
    result.map_err(|error| match error.try_into_panic() {
        Ok(panic) => std::panic::resume_unwind(panic),
        Err(error) => StoreError::new(StoreErrorKind::Unreachable, operation, format!("{operation} was cut off"))
            .hint("the program is stopping")
            .caused_by(error),
    })
}

#[cfg(test)]
mod tests {
    use postroom_testbed::{Database as Fresh, Servers};
    use sqlx::Row as _;

    use super::*;

    #[tokio::test]
    async fn after_our_own_no_of_whatever_kind_no_session_stays_inside_a_transaction() {
        let fresh = Fresh::create(&Servers::find()).await;
        let db = Database::open(&PostgresOptions::new("main", fresh.url()), TablesOf::Ourselves).await.unwrap();
        let open = "select count(*) from pg_stat_activity \
                    where datname = current_database() and xact_start is not null and pid <> pg_backend_pid()";
        for kind in [StoreErrorKind::Unreachable, StoreErrorKind::CommitUnknown, StoreErrorKind::Conflict] {
            let no = move || StoreError::new(kind, "test", "no").into();
            let short: Result<(), _> = db.write("test", move |_| Box::pin(async move { Err(no()) })).await;
            assert_eq!(db.callers.fetch_one(open).await.unwrap().get::<i64, _>(0), 0, "{kind:?}");
            let long: Result<(), _> = db.write_long("test", move |_| Box::pin(async move { Err(no()) })).await;
            assert_eq!(db.callers.fetch_one(open).await.unwrap().get::<i64, _>(0), 0, "{kind:?}");
            assert_eq!((short.unwrap_err().kind, long.unwrap_err().kind), (kind, kind));
        }
    }

    #[tokio::test]
    async fn every_transaction_of_ours_ends_when_its_client_vanishes_and_not_while_it_works() {
        let fresh = Fresh::create(&Servers::find()).await;
        let open = async |options: PostgresOptions| Database::open(&options, TablesOf::Ourselves).await.unwrap();
        let (direct, pooled) =
            (PostgresOptions::new("main", fresh.url()), PostgresOptions::new("main", fresh.pgbouncer_url()));
        let pooled = pooled.pooler(Pooler::Transaction);
        for options in [direct.clone(), direct.for_admin(), pooled.clone(), pooled.for_admin()] {
            let db = open(options.clone()).await;
            let short = if options.for_admin { "2s 2s 8s 10000" } else { "19s 10s 8s 10000" };
            let long = if options.for_admin { short } else { "0 10s 8s 10000" };
            let show = "select concat_ws(' ', current_setting('statement_timeout'), current_setting('lock_timeout'), \
                        current_setting('idle_in_transaction_session_timeout'), current_setting('tcp_user_timeout'))";
            let ask = |session: &mut Session| session.sql.scalar::<String>(show);
            let said = db.write("test", move |s| Box::pin(async move { Ok(ask(s).fetch_one(&mut *s.conn).await?) }));
            assert_eq!(said.await.unwrap(), short, "{options:?}");
            let said =
                db.write_long("test", move |s| Box::pin(async move { Ok(ask(s).fetch_one(&mut *s.conn).await?) }));
            assert_eq!(said.await.unwrap(), long, "{options:?}");
        }
    }
}
