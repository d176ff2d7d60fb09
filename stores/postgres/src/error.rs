//! Turns what PostgreSQL and sqlx say into what the caller can do about it.

use postroom_core::{StoreError, StoreErrorKind};

/// What can go wrong inside one piece of work: the database's word, or our own.
#[derive(Debug)]
pub(crate) enum Fault {
    /// PostgreSQL or sqlx said no.
    Database(sqlx::Error),
    /// The connection went away while the commit was on its way.
    Commit(sqlx::Error),
    /// No answer came in time.
    TimedOut,
    /// The server was restarted, or is another one.
    ServerChanged,
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
    /// The error of this operation on this database.
    pub(crate) fn at(self, operation: &'static str, place: &str) -> StoreError {
        match self {
            Self::Store(error) => error,
            Self::Database(error) => explain(error, operation, place),
            Self::TimedOut => {
                StoreError::new(StoreErrorKind::Unreachable, operation, format!("{place} did not answer in time"))
                    .hint(
                        "look at the network between this machine and the database, at the database's load, and behind a pooler at \
                         its pool size (PgBouncer: `default_pool_size`)",
                    )
            }
            Self::ServerChanged => StoreError::new(
                StoreErrorKind::Unreachable,
                operation,
                format!("{place} is another server than before"),
            ),
            Self::Commit(error) => StoreError::new(
                StoreErrorKind::CommitUnknown,
                operation,
                format!("lost the connection to {place} at the commit: it may or may not have happened"),
            )
            .caused_by(error),
        }
    }

    /// Whether the primary may be elsewhere now.
    pub(crate) fn may_have_moved(&self) -> bool {
        match self {
            Self::Store(error) => error.kind == StoreErrorKind::Unreachable,
            Self::Database(error) => state_of(error).is_none_or(|s| s.starts_with("57P") || NOT_PRIMARY.contains(&&*s)),
            Self::Commit(_) | Self::TimedOut | Self::ServerChanged => true,
        }
    }

    /// Whether the server still knows what became of the work: it said no, or we did.
    pub(crate) fn is_certain(&self) -> bool {
        match self {
            Self::Store(error) => error.kind != StoreErrorKind::Unreachable,
            // Nothing was sent.
            Self::Database(sqlx::Error::PoolTimedOut) => true,
            Self::Database(error) => state_of(error).is_some_and(|state| !state.starts_with("57P")),
            Self::Commit(_) | Self::TimedOut | Self::ServerChanged => false,
        }
    }
}

/// What the system says when this process, or the whole machine, has no file descriptor left.
const TOO_MANY_FILES: [i32; 2] = [24, 23];

/// What servers say that are not the primary: read-only, in recovery.
const NOT_PRIMARY: [&str; 2] = ["25006", "55000"];

/// Whether a server that refuses us now may be about to start, or to start again.
pub(crate) fn is_starting(error: &sqlx::Error) -> bool {
    match error {
        sqlx::Error::Io(error) => error.kind() == std::io::ErrorKind::ConnectionRefused,
        error => state_of(error).as_deref() == Some("57P03"),
    }
}

/// The SQLSTATE, where the server said something.
pub(crate) fn state_of(error: &sqlx::Error) -> Option<String> {
    Some(error.as_database_error()?.code()?.into_owned())
}

/// What a server's refusal means.
fn explain(error: sqlx::Error, operation: &'static str, place: &str) -> StoreError {
    let state = state_of(&error);
    let said = error.as_database_error().map(|e| e.message().to_owned()).unwrap_or_default();
    let (kind, message, hint) = match (&error, state.as_deref()) {
        (_, Some(state)) => by_state(state, &said, operation, place),
        (sqlx::Error::PoolTimedOut, _) => (
            StoreErrorKind::Busy,
            format!("no connection to {place} became free in time"),
            "look for transactions that stay open in this process, at `max_connections`, and behind a pooler at its pool size".to_owned(),
        ),
        (error, _) if is_tls(error) => (
            StoreErrorKind::Unreachable,
            format!("no TLS connection to {place}"),
            "the server's certificate must be valid for its name; check `sslmode` and `sslrootcert` in the URL"
                .to_owned(),
        ),
        (sqlx::Error::Io(error), _) if error.raw_os_error().is_some_and(|code| TOO_MANY_FILES.contains(&code)) => (
            StoreErrorKind::Unreachable,
            format!("no file descriptor is left for a connection to {place}"),
            "raise the limit of open files (`ulimit -n`, or `LimitNOFILE=` of the service)".to_owned(),
        ),
        (sqlx::Error::Io(_) | sqlx::Error::PoolClosed | sqlx::Error::WorkerCrashed | sqlx::Error::Protocol(_), _) => (
            StoreErrorKind::Unreachable,
            format!("cannot reach {place}{}", why(&error)),
            "check that the server runs and that host and port in the URL are right".to_owned(),
        ),
        _ => (StoreErrorKind::Other, format!("{operation} on {place} failed"), String::new()),
    };
    StoreError::new(kind, operation, message).hint(hint).caused_by(error)
}

/// Why a server cannot be reached, in few words, where the system says so.
fn why(error: &sqlx::Error) -> String {
    let sqlx::Error::Io(error) = error else { return String::new() };
    let text = error.to_string();
    match error.kind() {
        std::io::ErrorKind::ConnectionRefused => ": connection refused".to_owned(),
        std::io::ErrorKind::TimedOut => ": timed out".to_owned(),
        // The standard library has no kind for it.
        _ if text.contains("lookup address") => ": the host name cannot be resolved".to_owned(),
        _ => format!(": {text}"),
    }
}

/// A certificate that is refused comes as bad data on the connection.
fn is_tls(error: &sqlx::Error) -> bool {
    match error {
        sqlx::Error::Tls(_) => true,
        sqlx::Error::Io(error) => error.kind() == std::io::ErrorKind::InvalidData,
        _ => false,
    }
}

/// The grant that is missing: of the right itself where the server names it, else of the role that has it, which is
/// called after the schema.
fn grant_for(said: &str, operation: &str) -> String {
    if let Some((_, database)) = said.split_once("permission denied for database ") {
        return format!(
            "run `grant create on database {database} to …` as its owner, or make the schema for this user"
        );
    }
    let role = match operation {
        "append" => "postroom_append",
        "accept" => "postroom_inbox",
        "migrate" | "repair" | "accept identity" => "postroom_migrate",
        "open" | "measure" => "postroom_viewer",
        _ => "postroom_relay",
    };
    format!(
        "grant {role} (the schema's name first) to this user; `postroom store roles` prints the script that makes it"
    )
}

/// The same by SQLSTATE, for any client: kind, message and hint.
pub(crate) fn by_state(
    state: &str,
    said: &str,
    operation: &'static str,
    place: &str,
) -> (StoreErrorKind, String, String) {
    use StoreErrorKind as K;
    let (kind, message, hint) = match state {
        "28P01" | "28000" => {
            (K::Unreachable, format!("{place} refused the login: {said}"), "check user and password in the URL")
        }
        "3D000" => (K::Unreachable, format!("{place}: {said}"), "check the database's name in the URL, or create it"),
        "42501" => {
            let message = format!("{place} refused to {operation}: {said}");
            return (K::PermissionDenied, message, grant_for(said, operation));
        }
        "42P01" | "3F000" | "42883" => {
            (K::Schema, format!("the store's tables are missing in {place}: {said}"), "run `postroom store migrate up`")
        }
        "42703" | "42804" | "42P10" => (
            K::Schema,
            format!("a table of the store in {place} is not what this build expects: {said}"),
            "undo the change by hand, or restore the table",
        ),
        "25006" => (
            K::PermissionDenied,
            format!("{place} is read-only for this session"),
            "use the primary, and a role without `default_transaction_read_only`",
        ),
        "42P05" | "26000" => (
            K::PermissionDenied,
            format!("a connection pooler between this program and {place} was not declared in the configuration"),
            "set `pooler = \"transaction\"` for this store",
        ),
        "53100" => (K::StorageFull, format!("no room left on the disk of {place}"), "free space on the server's disk"),
        "53300" => (
            K::Busy,
            format!("{place} has no connection left"),
            "raise `max_connections`, or put a pooler in front of it",
        ),
        "22021" | "22P05" | "22023" | "22P02" | "22004" => {
            (K::Invalid, format!("{place} cannot store that: {said}"), "remove what it names")
        }
        "40001" | "40P01" | "55P03" | "57014" | "53200" | "55006" => {
            (K::Busy, format!("{operation} on {place} had to wait too long or was in another's way: {said}"), "")
        }
        _ if state.starts_with("08") || state.starts_with("57P") => {
            (K::Unreachable, format!("lost the connection to {place}: {said}"), "")
        }
        _ => (K::Other, format!("{operation} on {place} failed"), ""),
    };
    (kind, message, hint.to_owned())
}
