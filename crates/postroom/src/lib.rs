//! Transactional outbox, relay and inbox: the crate applications depend on.
//!
//! A producer **appends** an [`Event`] in its own transaction ([`Outbox`]); a [`Relay`] **delivers** it, in order per key,
//! at least once; a consumer **accepts** it in the transaction of its effect ([`Inbox`]), so that the effect happens once.
//!
//! Features: `sqlite` (default) for the store on one SQLite file, `postgres` for the one on PostgreSQL, `exec` for handlers
//! in a child process. TLS to PostgreSQL is a feature of [`sqlx`](postgres::sqlx), chosen by the application.
//! `tokio-postgres`, `diesel-async` and `sea-orm` append in transactions of those clients. [`memory`] is for tests.

pub use postroom_core::{
    Acceptance, Appended, BreakerPolicy, Delays, Desk, Event, EventError, Failure, FailureKind, Filter, HandlerError,
    Inbox, Limits, OnDead, OnFailure, Outbox, Pattern, Retention, RetryPolicy, RouteDefinition, Start, Store,
    StoreError, StoreErrorKind, Timestamp, ToEvent, Transport, new_id, with_correlation_id,
};
pub use postroom_relay::{
    Handlers, Incoming, NoObserver, Noop, Observer, Relay, RelayError, RelayOptions, RouteRun, Stdout,
};

/// Child processes that speak JSON lines.
#[cfg(feature = "exec")]
pub mod exec {
    pub use postroom_exec::{Exec, ExecOptions};
}

/// The store in memory, for tests.
pub mod memory {
    pub use postroom_memory::{Memory, MemoryOptions, MemoryTx};
}

/// The store on PostgreSQL.
#[cfg(feature = "postgres")]
pub mod postgres {
    #[cfg(any(feature = "tokio-postgres", feature = "diesel-async", feature = "sea-orm"))]
    pub use postroom_postgres::adapters;
    pub use postroom_postgres::{Pooler, Postgres, PostgresOptions, Statement, Value};
    pub use sqlx;
}

/// The store on one SQLite file.
#[cfg(feature = "sqlite")]
pub mod sqlite {
    pub use postroom_sqlite::{Sqlite, SqliteOptions};
    pub use sqlx;
}

/// The programs of the guide are tests.
#[cfg(all(doctest, feature = "sqlite"))]
#[doc = include_str!("../../../docs/library.md")]
mod guide {}
