//! Every key of the configuration, as data. Those of a store and others stand beside what reads them, those of a transport in its crate.
//!
//! Validation, defaults, `config init`, `config show` and the names of environment variables are made from this tree
//! ([`super::definition`]). What a value means is [`super::read`]'s.

use std::time::Duration;

#[cfg(not(all(feature = "contracts", feature = "otlp", feature = "rabbitmq")))]
use postroom_settings::absent;
use postroom_settings::{ANY, Key, Kind, SOME, key, optional, table};

#[cfg(feature = "contracts")]
use super::contract;
use super::definition::{PATTERNS, STARTS};
#[cfg(feature = "otlp")]
use super::telemetry;
use super::{http, stores};
use crate::transports;

/// The whole file.
pub(crate) static ROOT: &[Key] = &[
    key("name", Kind::Text, r#""postroom""#, "Name of this instance in leases and logs; a random boot id is added."),
    Key {
        name: "store",
        kind: Kind::Named(stores::STORE),
        default: "",
        doc: "Database with an outbox. Relative paths start at the working folder, not at this file.",
        example: "main",
    },
    table("relay", RELAY, "Relay, which reads, delivers and settles events."),
    table("retry", RETRY, "Retries of failed deliveries; the default for all routes."),
    table("limits", LIMITS, "Limits of events."),
    table("retention", RETENTION, "Retention of data; \"never\" keeps it for ever."),
    table("inbox", INBOX, "Inbox of the consumers: the events that they have accepted."),
    #[cfg(feature = "contracts")]
    table("contract", contract::CONTRACT, "Contracts of events: JSON Schemas by event type; none by default."),
    #[cfg(not(feature = "contracts"))]
    absent("contract", "section `contract`", "contracts"),
    table("http", http::HTTP, "HTTP server of a relay; off unless `listen` is set."),
    #[cfg(feature = "otlp")]
    table("telemetry", telemetry::TELEMETRY, "Traces of events; off unless a collector is set."),
    #[cfg(not(feature = "otlp"))]
    absent("telemetry", "section `telemetry`", "otlp"),
    table("log", LOG, "Log on stderr."),
    Key {
        name: "transport",
        kind: Kind::Shared { keys: &transports::SHARED, list: "route", choice: "to" },
        default: "",
        doc: "Defaults for routes to the same broker; the keys of a route override them.",
        example: "",
    },
    #[cfg(feature = "rabbitmq")]
    table(
        "topology",
        postroom_rabbitmq::TOPOLOGY,
        "Exchanges, queues and bindings that routes to RabbitMQ need; none by default.",
    ),
    #[cfg(not(feature = "rabbitmq"))]
    absent("topology", "section `topology`", "rabbitmq"),
    Key {
        name: "route",
        kind: Kind::Listed(ROUTE),
        default: "",
        doc: "Route: which events go to which destination. Repeat the section for each route.",
        example: "",
    },
];

static RELAY: &[Key] = &[
    key(
        "lease",
        Kind::Duration(Duration::from_secs(1)),
        r#""30s""#,
        "Time after which another relay may take over a lane; a long lease delays the events of a crashed relay.",
    ),
    key(
        "in_flight_max",
        Kind::Count,
        "512",
        "Maximum deliveries in flight or not yet settled; also the maximum number of duplicates after a crash.",
    ),
    key("shutdown_grace", ANY, r#""20s""#, "Time that a stop waits for deliveries in flight."),
    table("take", TAKE, "Size of a batch that is read from the database."),
];

static TAKE: &[Key] = &[
    key("rows", Kind::Count, "500", "Maximum number of events."),
    key("bytes", Kind::Size, r#""4MiB""#, "Maximum size in bytes; a single larger event is read alone."),
];

static RETRY: &[Key] = &[
    key("base", SOME, r#""1s""#, "Delay after the first failure; doubles with each further failure."),
    key("max", SOME, r#""15m""#, "Longest delay."),
    key(
        "jitter",
        Kind::Share,
        "0.2",
        "Random addition to the delay, as a share of it, so that many deliveries are not retried at once.",
    ),
    key("jitter_beyond_max", Kind::Flag, "false", "Whether the random addition may make a delay longer than `max`."),
    key(
        "attempts",
        Kind::Count,
        "12",
        "Number of attempts, the first included, after which the event becomes a dead letter.",
    ),
    key(
        "crashes",
        Kind::CountOrNever,
        "3",
        "The same for an event that ends the program that handles it, if that is more than `attempts`.",
    ),
    optional(
        "schedule",
        Kind::List(&SOME),
        r#"["5s", "5m", "30m"]"#,
        "List of delays, instead of base and max; the last delay repeats.",
    ),
];

// A route's own table has no defaults: what it leaves out is taken from [retry].
static ROUTE_RETRY: &[Key] = &[
    optional("base", SOME, r#""10s""#, "Delay after the first failure, instead of that in [retry]."),
    optional("max", SOME, r#""1h""#, "Longest delay, instead of that in [retry]."),
    optional("jitter", Kind::Share, "0.1", "Random addition to the delay, instead of that in [retry]."),
    optional("jitter_beyond_max", Kind::Flag, "true", "Whether jitter may exceed `max`, instead of that in [retry]."),
    optional("attempts", Kind::Count, "5", "Number of attempts, instead of that in [retry]."),
    optional(
        "crashes",
        Kind::CountOrNever,
        r#""never""#,
        "Number of attempts that end the program, instead of that in [retry].",
    ),
    optional("schedule", Kind::List(&SOME), r#"["5s", "5m"]"#, "List of delays, instead of that in [retry]."),
];

static LIMITS: &[Key] = &[key(
    "payload",
    Kind::Size,
    r#""1MiB""#,
    "Largest payload; appending a larger one fails, and a larger one that is in the table is a dead letter.",
)];

static RETENTION: &[Key] = &[
    key("delivered", Kind::DurationOrNever, r#""7d""#, "Retention of events that are settled on every route."),
    key(
        "attempts",
        Kind::DurationOrNever,
        r#""7d""#,
        "Retention of failed attempts of settled deliveries, and of receipts.",
    ),
];

static INBOX: &[Key] = &[key(
    "retention",
    Kind::DurationOrNever,
    r#""14d""#,
    "Retention of accepted event ids; must be longer than the time in which an event may be sent again.",
)];

/// Words of `log.format`.
pub(crate) static LOG_FORMATS: &[&str] = &["auto", "human", "json"];
/// Words of `log.level`.
pub(crate) static LOG_LEVELS: &[&str] = &["error", "warn", "info", "debug", "trace"];

static LOG: &[Key] = &[
    key(
        "format",
        Kind::Word(LOG_FORMATS),
        r#""auto""#,
        "Format of log lines; auto is human on a terminal, and json otherwise.",
    ),
    key("level", Kind::Word(LOG_LEVELS), r#""info""#, "Lowest level that is logged."),
];

static ROUTE: &[Key] = &[
    optional("name", Kind::Text, r#""orders""#, "Name of the route in commands, metrics and the store."),
    optional(
        "store",
        Kind::Either(&Kind::Text, &Kind::List(&Kind::Text)),
        r#""main""#,
        "Store, list of stores, or \"*\" for all; optional if there is only one store.",
    ),
    key("match", PATTERNS, r#"["*"]"#, "Event types that the route matches; a `*` at the end matches any suffix."),
    optional("aggregate_type", PATTERNS, r#"["order"]"#, "Aggregate types that the route matches."),
    optional("tenant", PATTERNS, r#"["acme"]"#, "Tenants that the route matches."),
    key("start", STARTS, r#""now""#, "Start of a new route: now, beginning or a time."),
    key(
        "on_failure",
        Kind::Word(&["block", "skip"]),
        r#""block""#,
        "Effect of a failure: later events of the key wait (block), or overtake the failed event (skip).",
    ),
    key(
        "on_dead",
        Kind::Word(&["continue", "hold"]),
        r#""continue""#,
        "Effect of a dead letter: later events of the key are delivered (continue), or wait (hold).",
    ),
    optional(
        "envelope",
        Kind::Either(&Kind::Word(ENVELOPES), &Kind::Table(ENVELOPE)),
        r#""cloudevents-structured""#,
        "Format of the message; by default binary for transports with headers, else structured.",
    ),
    table("retry", ROUTE_RETRY, "Retries of the route; missing keys are taken from [retry]."),
    optional("rate", Kind::Rate, r#""50/s""#, "Maximum rate of deliveries; no limit by default."),
    table("breaker", BREAKER, "Circuit breaker, which pauses deliveries while the destination is down."),
    optional(
        "consumer",
        Kind::AnyText,
        r#""billing""#,
        "Consumer of an exec or pull route whose inbox (`mapping.inbox`) the relay keeps; what is recorded is not handled again.",
    ),
    optional(
        "allow_discard",
        Kind::Flag,
        "false",
        "Whether a route to stdout or noop may take the pending rows of an adopted table, which then count as delivered.",
    ),
    Key {
        name: "to",
        kind: Kind::Choice(&transports::TO),
        default: "",
        doc: "Destination: exactly one of these transports. Commands run in the working folder.",
        example: "",
    },
];

/// Words of `route.envelope`.
pub(crate) static ENVELOPES: &[&str] = &["cloudevents-structured", "cloudevents-binary", "raw"];

static ENVELOPE: &[Key] = &[
    optional(
        "fields",
        Kind::Open(&Kind::Either(&Kind::Text, &Kind::Table(FIELD))),
        r#"{ event_id = "id", at = { from = "occurred_at", time = "seconds-z" }, data = "payload" }"#,
        "Fields of the JSON object, in this order.",
    ),
    optional(
        "dead",
        Kind::Open(&Kind::Either(&Kind::Text, &Kind::Table(FIELD))),
        r#"{ retry_count = "attempts", failed_at = "failed_at", error = "error" }"#,
        "Fields that dead letters have after `fields`, where the destination has a place for them.",
    ),
    optional(
        "headers",
        Kind::Open(&Kind::Either(&Kind::Text, &Kind::Table(FIELD))),
        r#"{ x-event-id = "id", x-attempts = "attempts" }"#,
        "Headers made from the event; a header without a value is left out.",
    ),
];

static FIELD: &[Key] = &[
    optional("from", Kind::Text, r#""occurred_at""#, "Field of the event."),
    optional("time", Kind::Text, r#""seconds-z""#, "Format of a time: seconds-z, micros-z, micros+00:00 or rfc3339."),
];

static BREAKER: &[Key] = &[
    key(
        "counts",
        Kind::Word(&["unavailable", "all"]),
        r#""unavailable""#,
        "Failures that open the breaker: those of an unavailable destination, or all failures in a row, also of single events.",
    ),
    key("failures", Kind::Count, "10", "Number of failures in a row that open the breaker, with counts = \"all\"."),
    key("cooldown", SOME, r#""1s""#, "First pause before the destination is tried again; doubles with each failure."),
    key("cooldown_max", SOME, r#""30s""#, "Longest pause before the destination is tried again."),
];
