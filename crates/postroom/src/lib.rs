//! Transactional outbox, relay and inbox: the crate applications depend on.
//!
//! A producer **appends** an [`Event`] in its own transaction ([`Outbox`]); a [`Relay`] **delivers** it, in order per key,
//! at least once; a consumer **accepts** it in the transaction of its effect ([`Inbox`]), so that the effect happens once.
//!
//! Features: `sqlite` (default) for the store on one SQLite file, `postgres` for the one on PostgreSQL, `adopted` (default) for
//! inboxes and states in tables that your application has already, `exec` for handlers in a child process, `consumer` with `kafka`, `rabbitmq` or `nats` for [loops that read a broker](consumer), `redis` for a
//! consumer's window of ids there, `contracts` for JSON Schemas, `otel` for events that carry the span of OpenTelemetry they are appended in, `config` for [stores and relays that a file or a preset
//! describes](config): with outbox tables, contracts and routes to `exec`, `kafka`, `rabbitmq`, `nats`, `redis` and `webhook` as far as `adopted`, `contracts` and those
//! features are chosen. TLS to PostgreSQL is a feature of [`sqlx`](postgres::sqlx),
//! chosen by the application.
//! `tokio-postgres`, `diesel-async` and `sea-orm` append in transactions of those clients. [`memory`] is for tests.

pub use postroom_core::view::{ReplayKind, ReplayRow, ReplayState};
pub use postroom_core::{
    Acceptance, Actor, Appended, BreakerCounts, BreakerPolicy, Clock, Contract, Delays, Desk, Event, EventError,
    Failure, FailureKind, Filter, HandlerError, Inbox, Limits, OnDead, OnFailure, Outbox, Pattern, Refusal,
    ReplayChange, ReplayOrder, Retention, RetryPolicy, RouteDefinition, Secret, SecretUrl, Selection, Start, States,
    Step, Store, StoreError, StoreErrorKind, Timestamp, ToEvent, Transactions, Transitions, Transport, new_id,
    replay_at_once, window, with_correlation_id,
};
pub use postroom_relay::{
    Handlers, Incoming, NoObserver, Noop, Observer, Poll, Relay, RelayError, RelayOptions, RouteObserver, RouteRun,
    Stdout, SystemClock,
};

/// Stores and relays as a file or a preset describes them, inside your process.
///
/// [`load_store`](config::load_store) and [`open`](config::open) are a store for handlers in Rust, over a table that is
/// there already where the file or preset says so; [`load`](config::load) and [`run`](config::run) are the whole relay.
#[cfg(feature = "config")]
pub mod config {
    pub use postroom_server::config::{Config, ConfigError, Preset, Sources, StoreConfig, load, load_store};
    pub use postroom_server::relay::{RunError, RunOptions, run};
    pub use postroom_server::stores::open;
}

/// Loops that read a broker's messages and do their work once.
#[cfg(feature = "consumer")]
pub mod consumer {
    pub use postroom_consumer::{Consumer, ConsumerOptions, Feed, Handler, Message, NameError, OptionsError};

    /// Messages of Kafka topics.
    #[cfg(feature = "kafka")]
    pub mod kafka {
        pub use postroom_kafka::{Begin, KafkaFeed, KafkaFeedOptions, Mechanism, Sasl};
    }

    /// Messages of a NATS stream.
    #[cfg(feature = "nats")]
    pub mod nats {
        pub use postroom_nats::{Login, NatsFeed, NatsFeedOptions};
    }

    /// Messages of a RabbitMQ queue.
    #[cfg(feature = "rabbitmq")]
    pub mod rabbitmq {
        pub use postroom_rabbitmq::{DeadLetters, RabbitMqFeed, RabbitMqFeedOptions};
    }

    /// Certificates, for feeds that are read in private.
    #[cfg(any(feature = "kafka", feature = "nats", feature = "rabbitmq"))]
    pub use postroom_tls::TlsFiles;
}

/// JSON Schemas by event type, asked at append.
#[cfg(feature = "contracts")]
pub mod contracts {
    pub use postroom_contracts::{AppliesTo, Contracts, Enveloped, Mode, SchemaError};
    pub use postroom_core::envelope::{Binding, Encoder, Format};
}

/// Child processes that speak JSON lines.
#[cfg(feature = "exec")]
pub mod exec {
    pub use postroom_core::envelope::{Binding, Encoder, Format};
    pub use postroom_exec::{Exec, ExecOptions, Target};
}

/// The store in memory, for tests.
pub mod memory {
    pub use postroom_memory::{Memory, MemoryOptions, MemoryTx};
}

/// The store on PostgreSQL.
#[cfg(feature = "postgres")]
pub mod postgres {
    #[cfg(any(feature = "tokio-postgres", feature = "diesel-async", feature = "sea-orm"))]
    pub use postroom_clients as adapters;
    #[cfg(feature = "adopted")]
    pub use postroom_postgres::{InboxTable, PostgresInbox, PostgresStates, StateTable};
    pub use postroom_postgres::{PoolTransactions, Pooler, Postgres, PostgresOptions, Statement, Value};
    pub use sqlx;
}

/// A consumer's window of ids in Redis.
#[cfg(feature = "redis")]
pub mod redis {
    pub use postroom_redis::{RedisWindow, RedisWindowOptions};
}

/// The store on one SQLite file.
#[cfg(feature = "sqlite")]
pub mod sqlite {
    #[cfg(feature = "adopted")]
    pub use postroom_sqlite::{InboxTable, SqliteInbox, SqliteStates, StateTable};
    pub use postroom_sqlite::{PoolTransactions, Sqlite, SqliteOptions};
    pub use sqlx;
}

/// The programs of the guide are tests.
#[cfg(all(doctest, feature = "sqlite"))]
#[doc = include_str!("../../../docs/library.md")]
mod guide {}

/// So are those of the page about consumers.
#[cfg(all(
    doctest,
    feature = "sqlite",
    feature = "postgres",
    feature = "consumer",
    feature = "kafka",
    feature = "nats",
    feature = "rabbitmq"
))]
#[doc = include_str!("../../../docs/consumers.md")]
mod consumers {}
