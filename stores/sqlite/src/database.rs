//! How everything here reaches the file: the caller's pool, readers, the writer, and one watcher for changes.
//!
//! Our own work always runs in tasks that are not cancelled: a dropped future must not leave a pooled connection in a
//! transaction.
use std::fs::OpenOptions;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use postroom_core::{StoreError, StoreErrorKind};
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous};
use sqlx::{ConnectOptions, Connection, SqliteConnection, SqlitePool, Transaction};
use tokio::sync::Mutex;
use tokio::task::JoinError;

use crate::error::Fault;
use crate::gate::Gated;
use crate::options::SqliteOptions;
use crate::work::{AnyResult, ConnectionFuture, ConnectionTask, any};
use crate::writer::Writer;

/// How long a writer waits for another one.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);
/// What is left of a WAL that has grown, once it is folded in.
const WAL_BYTES_KEPT: u64 = 64 * 1024 * 1024;
/// Connections for callers and their transactions.
const CALLERS_MAX: u32 = 8;
/// Connections for what operators read.
const READERS_MAX: u32 = 4;
/// Connections for what relays read: looking must never slow them.
const TAKERS_MAX: u32 = 2;
/// How long a read may take in a store that is opened for admin connections.
const ADMIN_READ_TIMEOUT: Duration = Duration::from_secs(2);
/// How many steps of SQLite's machine are between two looks at the clock.
const STEPS: i32 = 10_000;
/// The first SQLite without the WAL-reset bug, which can damage a file that several processes write.
const SQLITE_NEEDED: (u32, u32, u32) = (3, 51, 3);

/// One file.
#[derive(Debug)]
pub(crate) struct Database {
    pub(crate) path: String,
    /// Whether it was opened read-only.
    pub(crate) read_only: bool,
    pub(crate) pool: SqlitePool,
    /// For work of our own, until connections of our own are needed: the caller's pool, or nothing.
    borrowed: Option<Own>,
    own: Own,
    /// Whether a relay is served, which needs connections of its own.
    serving: AtomicBool,
    gate: Gated,
    /// How long an operator's read may take, where it may not take long.
    read_within: Option<Duration>,
    connect: SqliteConnectOptions,
    watcher: Mutex<Watcher>,
    /// Which file it is, whatever its name.
    file: Option<(u64, u64)>,
}

/// Connections for work of our own.
#[derive(Debug)]
struct Own {
    readers: SqlitePool,
    takers: SqlitePool,
    writer: Arc<Writer>,
}

#[derive(Debug, Default)]
struct Watcher {
    conn: Option<SqliteConnection>,
    // Versions of two connections cannot be compared, so each connection has a number.
    connections: u64,
}

/// A moment in the file's history; equal ones mean that nobody committed between them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Version {
    connection: u64,
    data: i64,
}

impl Database {
    /// Opens the file and checks that SQLite and it are what we expect, except its schema.
    pub(crate) async fn open(options: &SqliteOptions) -> Result<Self, StoreError> {
        let path = options.path.display().to_string();
        if let Some(unknown) = &options.unknown {
            let message = format!("the url of {path} has unknown parameters: {unknown}");
            return Err(StoreError::new(StoreErrorKind::Invalid, "open", message)
                .hint("leave them out; only `?mode=ro` has a meaning"));
        }
        check_path(&options.path, &path, options.create)?;
        let database = Self::lazy(options, path, None);
        // The first connection is made by hand: a pool would try again and again, and then say only that it timed out.
        let failed = |error| Fault::from(error).at("open", &database.path);
        let mut first = database.connect.connect().await.map_err(failed)?;
        check_file(&mut first).await.map_err(|fault| fault.at("open", &database.path))?;
        database.watcher.lock().await.conn = Some(first);
        Ok(Self { file: file_id(&options.path), ..database })
    }

    /// Uses the caller's pool, until a relay is served.
    pub(crate) async fn of_pool(pool: SqlitePool, options: &SqliteOptions) -> Result<Self, StoreError> {
        let path = options.path.display().to_string();
        check_path(&options.path, &path, true)?;
        let database = Self::lazy(options, path, Some(pool));
        let failed = |fault: Fault| fault.at("open", &database.path);
        let mut first = database.pool.acquire().await.map_err(|error| failed(error.into()))?;
        check_file(&mut first).await.map_err(failed)?;
        drop(first);
        Ok(Self { file: file_id(&options.path), ..database })
    }

    /// Opens no connection yet.
    fn lazy(options: &SqliteOptions, path: String, callers: Option<SqlitePool>) -> Self {
        let connect = connect_options(options);
        // A file does not go away like a server: asking each connection whether it still lives would cost a round trip.
        let pool = |max| {
            let options = SqlitePoolOptions::new().max_connections(max).test_before_acquire(false);
            // SQLite ends a transaction by itself when the disk is full, and sqlx does not know: such a connection could
            // never begin again.
            let options = options.before_acquire(|conn, _| {
                let clean = !conn.is_in_transaction();
                Box::pin(async move { Ok(clean) })
            });
            options.connect_lazy_with(connect.clone())
        };
        let writer = |pool| Arc::new(Writer::new(pool, path.clone(), options.gate.clone()));
        Self {
            borrowed: callers.as_ref().map(|callers| Own {
                readers: callers.clone(),
                takers: callers.clone(),
                writer: writer(callers.clone()),
            }),
            own: Own { readers: pool(READERS_MAX), takers: pool(TAKERS_MAX), writer: writer(pool(1)) },
            pool: callers.unwrap_or_else(|| pool(CALLERS_MAX)),
            serving: AtomicBool::new(false),
            gate: options.gate.clone(),
            read_within: options.for_admin.then_some(ADMIN_READ_TIMEOUT),
            connect,
            watcher: Mutex::default(),
            path,
            read_only: options.read_only,
            file: None,
        }
    }

    /// A relay is served: from now on our own work has connections of its own.
    pub(crate) fn serve(&self) {
        self.serving.store(true, Ordering::Release);
    }

    /// The connections for work of our own.
    fn ours(&self) -> &Own {
        match &self.borrowed {
            Some(borrowed) if !self.serving.load(Ordering::Acquire) => borrowed,
            _ => &self.own,
        }
    }

    /// Fails when the path names another file than the one that is open: what we do there, nobody would see.
    pub(crate) fn check_file(&self, operation: &'static str) -> Result<(), StoreError> {
        if self.file.is_none() || file_id(Path::new(&self.path)) == self.file {
            return Ok(());
        }
        let message = format!("{} was deleted or replaced while it was open", self.path);
        Err(StoreError::new(StoreErrorKind::Unreachable, operation, message)
            .hint("restart, to open the file that is there"))
    }

    /// A transaction of the caller's own that is a writer from the start.
    pub(crate) async fn begin(&self) -> Result<Transaction<'static, sqlx::Sqlite>, StoreError> {
        let pool = self.pool.clone();
        let begun = tokio::spawn(async move { pool.begin_with("begin immediate").await }).await;
        joined(begun, "begin")?.map_err(|e| Fault::from(e).at("begin", &self.path))
    }

    /// Moves what the `-wal` file has into the database and empties it; not while another program reads.
    pub(crate) async fn empty_wal(&self, operation: &'static str) -> Result<(), StoreError> {
        let failed = |error: sqlx::Error| Fault::from(error).at(operation, &self.path);
        let mut conn = self.pool.acquire().await.map_err(failed)?;
        sqlx::query("pragma wal_checkpoint(truncate)").execute(&mut *conn).await.map(drop).map_err(failed)
    }

    /// Runs the work in one write transaction; see [`Writer`].
    pub(crate) async fn write<T, F>(&self, operation: &'static str, work: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: for<'c> FnOnce(&'c mut SqliteConnection) -> ConnectionFuture<'c, T> + Send + 'static,
    {
        self.ours().writer.write(operation, any(work)).await?.known(operation)
    }

    /// Runs an operator's work on one snapshot of the file.
    pub(crate) async fn read<T, F>(&self, operation: &'static str, work: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: for<'c> FnOnce(&'c mut SqliteConnection) -> ConnectionFuture<'c, T> + Send + 'static,
    {
        self.read_by(&self.ours().readers, operation, any(work)).await?.known(operation)
    }

    /// Runs a relay's work on one snapshot of the file.
    pub(crate) async fn look<T, F>(&self, operation: &'static str, work: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: for<'c> FnOnce(&'c mut SqliteConnection) -> ConnectionFuture<'c, T> + Send + 'static,
    {
        let passage = self.gate.pass("look", operation).await;
        let _passage = passage.map_err(|error| Fault::from(error).at(operation, &self.path))?;
        self.read_by(&self.ours().takers, operation, any(work)).await?.known(operation)
    }

    async fn read_by(
        &self,
        pool: &SqlitePool,
        operation: &'static str,
        work: ConnectionTask,
    ) -> Result<AnyResult, StoreError> {
        let (pool, within) = (pool.clone(), self.read_within);
        let read = tokio::spawn(async move {
            let mut conn = pool.acquire().await?;
            if let Some(within) = within {
                let deadline = Instant::now() + within;
                conn.lock_handle().await?.set_progress_handler(STEPS, move || Instant::now() < deadline);
            }
            let result = snapshot(&mut conn, work).await;
            if within.is_some() {
                conn.lock_handle().await?.remove_progress_handler();
            }
            if matches!(result, Err(Fault::Database(_))) {
                // Whatever it was, the next reader starts with a clean one.
                let _ = conn.close().await;
            }
            result
        });
        joined(read.await, operation)?.map_err(|fault| fault.at(operation, &self.path))
    }

    /// Where the file's history stands; costs microseconds. Not to be cancelled.
    pub(crate) async fn version(&self) -> Result<Version, StoreError> {
        let passage = self.gate.pass("version", "look").await;
        let _passage = passage.map_err(|error| Fault::from(error).at("look", &self.path))?;
        let mut watcher = self.watcher.lock().await;
        let conn = if let Some(conn) = &mut watcher.conn {
            conn
        } else {
            let conn = self.connect.connect().await.map_err(|e| Fault::from(e).at("look", &self.path))?;
            watcher.connections += 1;
            watcher.conn.insert(conn)
        };
        match sqlx::query_scalar("pragma data_version").fetch_one(conn).await {
            Ok(data) => Ok(Version { connection: watcher.connections, data }),
            Err(error) => {
                watcher.conn = None;
                Err(Fault::from(error).at("look", &self.path))
            }
        }
    }
}

async fn snapshot(conn: &mut SqliteConnection, work: ConnectionTask) -> Result<AnyResult, Fault> {
    let mut tx = conn.begin().await?;
    let result = work(&mut tx).await?;
    tx.rollback().await?;
    Ok(result)
}

/// Fails unless the library is new enough and the file is one of SQLite's.
async fn check_file(conn: &mut SqliteConnection) -> Result<(), Fault> {
    let version: String = sqlx::query_scalar("select sqlite_version()").fetch_one(&mut *conn).await?;
    check_library(&version)?;
    // Reads the first page, so that a file of something else is found out now.
    sqlx::query("select count(*) from sqlite_schema").fetch_one(conn).await?;
    Ok(())
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

fn connect_options(options: &SqliteOptions) -> SqliteConnectOptions {
    let connect = SqliteConnectOptions::new()
        .filename(&options.path)
        .create_if_missing(options.create)
        .read_only(options.read_only)
        .busy_timeout(BUSY_TIMEOUT)
        .synchronous(SqliteSynchronous::Full)
        .disable_statement_logging();
    // Changing the journal is a write; a file opened read-only keeps what it has.
    if options.read_only {
        return connect;
    }
    // What is erased or pruned is overwritten in the file, where that costs no write of its own.
    let connect = connect.pragma("secure_delete", "fast");
    connect.journal_mode(SqliteJournalMode::Wal).pragma("journal_size_limit", WAL_BYTES_KEPT.to_string())
}

fn check_path(path: &Path, shown: &str, create: bool) -> Result<(), StoreError> {
    let error = |kind, message: String, hint: &str| Err(StoreError::new(kind, "open", message).hint(hint));
    if shown.is_empty() || shown.contains(":memory:") || shown.contains("sqlx-in-memory") {
        return error(
            StoreErrorKind::Invalid,
            format!("{shown:?} is not a file: a store is shared by several connections"),
            "give a path, for instance sqlite://shop.db",
        );
    }
    match std::fs::metadata(path) {
        Ok(found) if found.is_dir() => error(
            StoreErrorKind::UnexpectedSchema,
            format!("{shown} is a folder, not a SQLite file"),
            "name a file in it",
        ),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound && !create => error(
            StoreErrorKind::Unreachable,
            format!("{shown} does not exist"),
            "check the path, or create the store with `postroom store migrate up`",
        ),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
            // SQLite would let everybody read it, as the umask usually says; its other files take the mode of this one. Where the
            // folder is missing or closed SQLite says so, and somebody else may have been faster.
            let _ = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
            Ok(())
        }
        _ => Ok(()),
    }
}

/// Device and number of a file, if it is there.
fn file_id(path: &Path) -> Option<(u64, u64)> {
    std::fs::metadata(path).ok().map(|file| (file.dev(), file.ino()))
}

fn check_library(version: &str) -> Result<(), StoreError> {
    let mut parts = version.split('.').map(|part| part.parse::<u32>().unwrap_or(0));
    let mut next = || parts.next().unwrap_or(0);
    let found = (next(), next(), next());
    if found >= SQLITE_NEEDED {
        return Ok(());
    }
    let (major, minor, patch) = SQLITE_NEEDED;
    Err(StoreError::new(
        StoreErrorKind::PermissionDenied,
        "open",
        format!("SQLite {version} can damage files in WAL mode, {major}.{minor}.{patch} or newer is needed"),
    )
    .hint("build with the bundled library, which is the default"))
}

#[cfg(test)]
mod tests {
    use postroom_admin::ManagedStore as _;
    use postroom_core::{Budget, Event, RelayIdentity, RouteHealth, RouteSpec, StartFrom, Store};

    use super::*;
    use crate::store::SqliteStore;

    #[tokio::test]
    async fn a_relay_takes_and_renews_while_operators_use_every_reader() {
        let folder = tempfile::tempdir().unwrap();
        let store = SqliteStore::create(folder.path().join("shop.db")).await.unwrap();
        let relay =
            RelayIdentity { name: "r".into(), boot: "b".into(), version: "0".into(), lease: Duration::from_mins(1) };
        let route = RouteSpec { start: StartFrom::Beginning, ..RouteSpec::new("r") };
        let source = store.source(&relay, &route).await.unwrap();
        store.admin().append(&[Event::new("t")]).await.unwrap();
        let mut held = Vec::new();
        for _ in 0..READERS_MAX {
            held.push(store.inner.db.own.readers.acquire().await.unwrap());
        }
        let taken = source.take(Budget { rows: 10, bytes: 1 << 20 }).await.unwrap();
        assert_eq!(taken.deliveries.len(), 1);
        source.renew(&RouteHealth::running()).await.unwrap();
    }

    #[test]
    fn a_library_with_the_wal_reset_bug_is_refused() {
        for old in ["3.7.0", "3.40.1", "3.51.2", "garbage"] {
            assert_eq!(check_library(old).unwrap_err().kind, StoreErrorKind::PermissionDenied, "{old} was accepted");
        }
        for new in ["3.51.3", "3.52.0", "4.0.0"] {
            check_library(new).unwrap();
        }
    }
}
