//! Transactional outbox, relay and inbox for Rust services.
//!
//! An event appended in your transaction is delivered **at least once** to every route that matches it, in order
//! per key, or it becomes a visible dead letter. A rolled-back event is never sent. If a consumer *accepts* the event's
//! id in the transaction of its work, the effect happens **once**.
//!
//! ```
//! # #[cfg(feature = "sqlite")]
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = tempfile::tempdir()?;
//! # let file = folder.path().join("shop.db");
//! use postroom::sqlite::SqliteStore;
//! use postroom::{Event, Failure, Incoming, Outbox, Relay, Route};
//!
//! async fn mail(order: Incoming) -> Result<(), Failure> {
//!     Ok(println!("mail about {:?}, attempt {}", order.ordering_key(), order.attempt))
//! }
//!
//! let store = SqliteStore::create(file).await?;
//! let mut tx = store.begin().await?; // your own writes go through `&mut *tx`
//! store.append(&mut tx, &Event::new("order.placed").key("order-7").json(&4200)?).await?;
//! tx.commit().await?; // commits both, and wakes the relay
//!
//! let relay = Relay::new(store).route(Route::named("mailer").matching("order.*").from_beginning().handle(mail));
//! # let relay = relay.options(postroom::RelayOptions::default().drain(true));
//! # let shutdown = std::future::pending();
//! relay.run(shutdown).await?; // until `shutdown` resolves
//! # Ok(()) }
//! # #[cfg(not(feature = "sqlite"))]
//! # fn main() {}
//! ```
//!
//! # Modules
//!
//! | to | use |
//! | --- | --- |
//! | append events | [`Event`], [`Outbox`]; a store: [`sqlite`], [`postgres`], or [`memory`] for tests |
//! | deliver events | [`Relay`], [`Route`]; to a function, [`Handlers`], one of [`transports`], or a [`Transport`](transport::Transport) of your own |
//! | process events once | [`Inbox`], [`StateGuard`], [`dedup`]; loops over a broker in [`consumer`] |
//! | inspect and operate a store | [`admin`]: `store.admin()`, of [`ManagedStore`](admin::ManagedStore) |
//! | observe deliveries | [`observe`] |
//! | write a store | [`store`], and the suite in `postroom-conformance` |
//! | configure stores and relays from a file | [`config`] |
//!
//! # Features
//!
//! No feature is on by default; choose at least a store.
//!
//! | feature | adds |
//! | --- | --- |
//! | `sqlite`, `postgres` | the store on one SQLite file, which is compiled in; the store on PostgreSQL 14 or newer |
//! | `kafka`, `rabbitmq`, `nats`, `redis`, `webhook`, `exec` | routes to that destination, in [`transports`]; `redis` also a consumer's window of ids |
//! | `consumer` | [`consumer`]: the loop around your own subscription |
//! | `kafka-consumer`, `rabbitmq-consumer`, `nats-consumer` | the subscriptions of those brokers |
//! | `adopted` | inboxes and states in tables that your application has already; with `config`, outbox tables too |
//! | `config` | [`config`]: stores and relays that a file or a preset describes |
//! | `contracts` | [`contracts`]: JSON Schemas, checked at append |
//! | `tokio-postgres`, `diesel-async`, `sea-orm` | appends in transactions of those clients |
//! | `otel` | events carry the OpenTelemetry span they are appended in, and consumers' handlers continue it |
//! | `metrics` | consumers count through the recorder of the crate `metrics` |
//!
//! TLS to PostgreSQL is a feature of `sqlx`, chosen by the application.
//!
//! # Versions
//!
//! `sqlx` 0.9 and `jiff` 0.2 are part of this crate's interface (transactions, pools, [`Timestamp`]) and are re-exported: a
//! new major version of either is one of this crate. The minimum Rust version is 1.94, which is what sqlx 0.9 needs.

#![cfg_attr(docsrs, feature(doc_cfg))]

pub use postroom_consumer::dedup;
pub use postroom_core::{
    Acceptance, Appended, BreakerCounts, BreakerPolicy, Budget, Clock, Contract, Delays, Event, EventError, Failure,
    FailureKind, HandlerError, Inbox, JSON, Limits, NotAllowed, OnDead, OnFailure, Outbox, Pattern, PatternError,
    Retention, RetryPolicy, Secret, SecretUrl, StartFrom, StateGuard, Store, StoreError, StoreErrorKind, Timestamp,
    ToEvent, Transactions, Transition, Transitions, new_id, new_ulid, with_correlation_id,
};
pub use postroom_relay::{Handlers, Incoming, Poll, Relay, RelayError, RelayOptions, Route, RouteBuilder, SystemClock};

/// Inspection and operation of a store: the interface of `store.admin()` and its types.
pub mod admin {
    pub use postroom_admin::view::*;
    pub use postroom_admin::{
        Access, Admin, Inspect, ManagedStore, NewToken, Operate, Page, ReplayChange, ReplayOrder, Replays, Role,
        Selection, TokenRow, Verify, replay_at_once,
    };
    pub use postroom_core::view::*;
    pub use postroom_core::{Actor, ConsumerLag, ConsumerLags, DeliveryState, Retention, RouteState};
}

/// Transports of your own: the trait [`Transport`](transport::Transport) and its types.
///
/// Its methods are those of `async-trait`; put `#[async_trait]` on the implementation.
pub mod transport {
    pub use postroom_core::{
        Capabilities, ConsumerLag, ConsumerLags, DeadLetterCause, Diagnostic, Failure, FailureKind, LagOptions,
        LagReader, Outbound, Outcome, Receipt, Stage, Transport,
    };
}

/// Observation of deliveries and of the health of routes, for metrics and logs of your own.
pub mod observe {
    pub use postroom_core::{ConsumerLag, ConsumerLags, Delivery, DeliveryState, RouteHealth, RouteState, Verdict};
    pub use postroom_relay::{NoObserver, Observer, RouteObserver};
}

/// Stores of your own: the traits to implement and their types.
pub mod store {
    pub use postroom_core::view::*;
    pub use postroom_core::{
        Budget, Delivery, DeliveryState, Filter, LaneTerm, Lease, Maintenance, Notified, Notifier, Ownership, Ranges,
        RelayIdentity, Retain, RouteHealth, RouteSpec, RouteState, Schema, SchemaStatus, SchemaStep, Settlement,
        Source, Store, StoreError, StoreErrorKind, Take, Verdict, share_lanes, verdict,
    };
}

/// Envelopes: the formats of an event on the wire.
pub mod envelope {
    pub use postroom_core::envelope::*;
    pub use postroom_core::{Stage, Template, TemplateError};
}

/// Transports: brokers, URLs and child processes that a route can go [`to`](crate::RouteBuilder::to), each behind the
/// feature of its name.
pub mod transports {
    pub use postroom_relay::{Noop, Stdout};
    #[cfg(any(feature = "kafka", feature = "nats", feature = "rabbitmq", feature = "redis"))]
    pub use postroom_tls::TlsFiles;

    /// Child processes that speak JSON lines.
    #[cfg(feature = "exec")]
    pub mod exec {
        pub use postroom_exec::{Environment, Exec, ExecOptions, Target};
    }

    /// Kafka topics.
    ///
    /// ```no_run
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use postroom::Route;
    /// use postroom::envelope::{Binding, Encoder, Format, Template};
    /// use postroom::transports::kafka::{Kafka, KafkaOptions};
    ///
    /// let options = KafkaOptions::new(vec!["kafka:9092".into()], Template::parse("orders.v1", &[])?);
    /// let kafka = Kafka::new("orders", options, Encoder::new(Format::CloudEventsBinary, Binding::Kafka, "/shop"));
    /// let route = Route::named("orders").matching("order.*").to(kafka);
    /// # drop(route); Ok(()) }
    /// ```
    #[cfg(feature = "kafka")]
    pub mod kafka {
        pub use postroom_kafka::{Acks, Compression, Kafka, KafkaOptions, Mechanism, Sasl, UnknownTopic};
    }

    /// NATS JetStream subjects.
    #[cfg(feature = "nats")]
    pub mod nats {
        pub use postroom_nats::{CreateStream, Login, Nats, NatsOptions};
    }

    /// RabbitMQ exchanges.
    #[cfg(feature = "rabbitmq")]
    pub mod rabbitmq {
        pub use postroom_rabbitmq::{
            Address, AddressError, Binding, Exchange, ExchangeKind, Mode, OptionsError, Queue, QueueKind, RabbitMq,
            RabbitMqOptions, Topology, TopologyError, Unroutable,
        };
    }

    /// Redis streams.
    #[cfg(feature = "redis")]
    pub mod redis {
        pub use postroom_redis::{Redis, RedisOptions};
    }

    /// URLs, with signed requests.
    #[cfg(feature = "webhook")]
    pub mod webhook {
        pub use postroom_webhook::{Webhook, WebhookError, WebhookOptions, signature};
    }
}

/// Stores and relays that a file or a preset describes, inside your process.
///
/// [`load_store`](config::load_store) and [`open`](config::open) are a store for handlers in Rust, over a table that is
/// there already where the file or preset says so; [`load`](config::load) and [`run`](config::run) are the whole relay.
#[cfg(feature = "config")]
pub mod config {
    pub use postroom_server::config::{Config, ConfigError, Preset, Sources, StoreConfig, load, load_store};
    pub use postroom_server::relay::{RunOptions, run};
    pub use postroom_server::run_error::RunError;
    pub use postroom_server::stores::open;
}

/// Consumers, which read messages of a broker and process each of them once.
#[cfg(feature = "consumer")]
pub mod consumer {
    pub use postroom_consumer::{
        Arrival, Consumer, ConsumerOptions, Delivered, Handler, Message, NameError, OptionsError, OrderScope, Revoked,
        Subscription, Wire,
    };
    pub use postroom_core::DeadLetterCause;

    /// Messages of Kafka topics.
    #[cfg(feature = "kafka-consumer")]
    pub mod kafka {
        pub use postroom_kafka::{Begin, KafkaSubscription, KafkaSubscriptionOptions, Mechanism, Sasl};
    }

    /// Messages of a NATS stream.
    #[cfg(feature = "nats-consumer")]
    pub mod nats {
        pub use postroom_nats::{Login, NatsSubscription, NatsSubscriptionOptions};
    }

    /// Messages of a RabbitMQ queue.
    #[cfg(feature = "rabbitmq-consumer")]
    pub mod rabbitmq {
        pub use postroom_rabbitmq::{DeadLetters, RabbitMqSubscription, RabbitMqSubscriptionOptions};
    }

    /// TLS certificates of subscriptions.
    #[cfg(any(feature = "kafka-consumer", feature = "nats-consumer", feature = "rabbitmq-consumer"))]
    pub use postroom_tls::TlsFiles;
}

/// Contracts: JSON Schemas by event type, checked at append.
#[cfg(feature = "contracts")]
pub mod contracts {
    pub use postroom_contracts::{AppliesTo, Contracts, Enveloped, Mode, SchemaError};
    pub use postroom_core::envelope::{Binding, Encoder, Format};
}

/// The store in memory, for tests.
pub mod memory {
    pub use postroom_memory::{MemoryOptions, MemoryStore, MemoryTx};
}

/// The store on PostgreSQL.
#[cfg(feature = "postgres")]
pub mod postgres {
    #[cfg(any(feature = "tokio-postgres", feature = "diesel-async", feature = "sea-orm"))]
    pub use postroom_clients as adapters;
    #[cfg(feature = "adopted")]
    pub use postroom_postgres::{InboxTable, PostgresInbox, PostgresStateGuard, StateTable};
    pub use postroom_postgres::{
        PoolTransactions, Pooler, PostgresOptions, PostgresStore, PostgresTransaction, PostgresTx, Statement, Value,
    };
    pub use sqlx;
}

/// Deduplication window of a consumer in Redis.
#[cfg(feature = "redis")]
pub mod redis {
    pub use postroom_redis::{RedisDedupWindow, RedisDedupWindowOptions};
}

/// The store on one SQLite file.
#[cfg(feature = "sqlite")]
pub mod sqlite {
    #[cfg(feature = "adopted")]
    pub use postroom_sqlite::{InboxTable, SqliteInbox, SqliteStateGuard, StateTable};
    pub use postroom_sqlite::{PoolTransactions, SqliteOptions, SqliteStore, SqliteTransaction, SqliteTx};
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
    feature = "kafka-consumer",
    feature = "nats-consumer",
    feature = "rabbitmq-consumer"
))]
#[doc = include_str!("../../../docs/consumers.md")]
mod consumers {}
