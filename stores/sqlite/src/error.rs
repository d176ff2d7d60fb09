//! Turns what SQLite and sqlx say into what the caller can do about it.

use postroom_core::{StoreError, StoreErrorKind};

/// What can go wrong inside one piece of work: the database's word, or our own.
#[derive(Debug)]
pub(crate) enum Fault {
    /// SQLite or sqlx said no.
    Database(sqlx::Error),
    /// We said no.
    Store(StoreError),
}

impl From<sqlx::Error> for Fault {
    fn from(error: sqlx::Error) -> Self {
        Self::Database(error)
    }
}

impl From<StoreError> for Fault {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl Fault {
    /// The error of this operation on this file.
    pub(crate) fn at(self, operation: &'static str, path: &str) -> StoreError {
        match self {
            Self::Store(error) => error,
            Self::Database(error) => explain(error, operation, path),
        }
    }
}

/// SQLite's primary result codes that a caller can do something about.
mod code {
    pub(super) const PERM: i32 = 3;
    pub(super) const BUSY: i32 = 5;
    pub(super) const LOCKED: i32 = 6;
    pub(super) const READONLY: i32 = 8;
    pub(super) const INTERRUPT: i32 = 9;
    pub(super) const IOERR: i32 = 10;
    pub(super) const CORRUPT: i32 = 11;
    pub(super) const FULL: i32 = 13;
    pub(super) const CANTOPEN: i32 = 14;
    pub(super) const AUTH: i32 = 23;
    pub(super) const NOTADB: i32 = 26;
    // Extended: somebody repairs the log after a crash; it will be over soon.
    pub(super) const BUSY_RECOVERY: i32 = 261;
}

fn extended(error: &sqlx::Error) -> Option<i32> {
    error.as_database_error()?.code()?.parse().ok()
}

/// Whether another writer was in the way. Inside a caller's transaction that means that it began with a read.
pub(crate) fn is_busy(error: &sqlx::Error) -> bool {
    extended(error).is_some_and(|c| c & 0xff == code::BUSY && c != code::BUSY_RECOVERY)
}

/// The error of a write inside a caller's transaction that cannot become a writer.
pub(crate) fn late_write_lock(operation: &'static str, error: sqlx::Error) -> StoreError {
    StoreError::new(
        StoreErrorKind::ReadBeforeWrite,
        operation,
        "the transaction began with a read and cannot become a writer now, because another one has written since",
    )
    .hint("begin it with `begin immediate`, for instance by `store.begin()`, and repeat it from the start")
    .caused_by(error)
}

fn explain(error: sqlx::Error, operation: &'static str, path: &str) -> StoreError {
    use StoreErrorKind as K;
    let make = |kind, message: String, hint: &str| StoreError::new(kind, operation, message).hint(hint);
    let explained = match (&error, extended(&error).map(|c| c & 0xff)) {
        (_, Some(code::BUSY | code::LOCKED)) => make(
            K::Busy,
            format!("{path} is locked by another writer"),
            "look for a transaction that stays open; `begin` waits 5 s for other writers, the store's own writes 15 s",
        ),
        (_, Some(code::INTERRUPT)) => {
            make(K::Busy, format!("{operation} on {path} took too long and was cut off"), "ask for less at a time")
        }
        (_, Some(code::READONLY | code::PERM | code::AUTH)) => make(
            K::PermissionDenied,
            format!("{path} is read-only for this process"),
            "give the process write permission on the file and on its folder",
        ),
        (_, Some(code::FULL)) => make(
            K::StorageFull,
            format!("no room to write {path}"),
            "free space on the disk, or raise the file's page limit",
        ),
        (_, Some(code::NOTADB)) => {
            make(K::UnexpectedSchema, format!("{path} is not a SQLite database"), "check the path")
        }
        (_, Some(code::CORRUPT)) => make(
            K::UnexpectedSchema,
            format!("{path} is damaged"),
            "stop all writers, then restore a backup of the file",
        ),
        (_, Some(code::CANTOPEN)) => make(
            K::Unreachable,
            format!("{path} cannot be opened"),
            "check that the path exists and that the process may write to its folder",
        ),
        (_, Some(code::IOERR)) => make(K::Unreachable, format!("{path} cannot be read or written"), "check the disk"),
        (sqlx::Error::Database(e), _) if e.message().starts_with("no such table: postroom_") => {
            make(K::Schema, format!("store schema is missing in {path}"), "run `postroom store migrate up`")
        }
        (sqlx::Error::PoolTimedOut, _) => make(
            K::Busy,
            format!("no connection to {path} became free in time"),
            "look for transactions that stay open in this process",
        ),
        (sqlx::Error::Io(_) | sqlx::Error::PoolClosed | sqlx::Error::WorkerCrashed, _) => {
            make(K::Unreachable, format!("lost the connection to {path}"), "")
        }
        _ => make(K::Other, format!("{operation} on {path} failed"), ""),
    };
    explained.caused_by(error)
}
