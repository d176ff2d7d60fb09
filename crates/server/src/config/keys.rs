//! Every key of the configuration, as data. Those of a store, a transport and others stand beside what reads them.
//!
//! Validation, defaults, `config init`, `config show` and the names of environment variables are made from this tree. What
//! a value means is [`super::read`]'s; which layer it comes from is [`super::layer`]'s.

use std::time::Duration;

#[cfg(feature = "contracts")]
use super::contract;
#[cfg(feature = "otlp")]
use super::telemetry;
use super::{http, stores, transports};

/// One key.
#[derive(Debug)]
pub(crate) struct Key {
    /// Its name.
    pub(crate) name: &'static str,
    /// What may stand there.
    pub(crate) kind: Kind,
    /// The default as TOML; empty when there is none.
    pub(crate) default: &'static str,
    /// One line on what it does.
    pub(crate) doc: &'static str,
    /// A value as TOML for `config init`; empty shows the default.
    pub(crate) example: &'static str,
}

/// What may stand at a key.
#[derive(Debug)]
#[allow(dead_code, reason = "some are of one feature")]
pub(crate) enum Kind {
    /// Any text that is not empty.
    Text,
    /// Any text.
    AnyText,
    /// Text that is never shown with its password.
    Secret,
    /// Text that is never shown.
    Password,
    /// `true` or `false`.
    Flag,
    /// A path; relative to the working folder.
    Path,
    /// `now`, `beginning` or a time.
    Start,
    /// A pattern of event types, aggregate types or tenants.
    Pattern,
    /// `"30s"`, not shorter than this.
    Duration(Duration),
    /// `"7d"` or `"never"`.
    DurationOrNever,
    /// `"4MiB"`, at least one byte.
    Size,
    /// `"50/s"`.
    Rate,
    /// A whole number from 1.
    Count,
    /// A whole number between these two, both included.
    Between(u32, u32),
    /// A number from 0 to 1.
    Share,
    /// One of these words.
    Word(&'static [&'static str]),
    /// A list with at least one entry.
    List(&'static Kind),
    /// A list that may be empty.
    Listing(&'static Kind),
    /// A table with these keys; always there.
    Table(&'static [Key]),
    /// A table with these keys that is there only when somebody writes it.
    Section(&'static [Key]),
    /// Tables whose keys stand in for those a route leaves out; nothing in them has a default of its own.
    Shared(&'static [Key]),
    /// A table with exactly one of these keys.
    Choice(&'static [Key]),
    /// Tables by a name of the user's: `[store.NAME]`.
    Named(&'static [Key]),
    /// A list of tables, each with a `name`: `[[route]]`.
    Routes(&'static [Key]),
    /// Any names in the order written, each with such a value.
    Open(&'static Kind),
    /// A value of the first kind, or of the second.
    Either(&'static Kind, &'static Kind),
}

pub(super) const fn key(name: &'static str, kind: Kind, default: &'static str, doc: &'static str) -> Key {
    Key { name, kind, default, doc, example: "" }
}

pub(super) const fn optional(name: &'static str, kind: Kind, example: &'static str, doc: &'static str) -> Key {
    Key { name, kind, default: "", doc, example }
}

pub(super) const fn table(name: &'static str, keys: &'static [Key], doc: &'static str) -> Key {
    Key { name, kind: Kind::Table(keys), default: "", doc, example: "" }
}

pub(super) const ANY: Kind = Kind::Duration(Duration::ZERO);
pub(super) const SOME: Kind = Kind::Duration(Duration::from_millis(1));
const PATTERNS: Kind = Kind::List(&Kind::Pattern);

/// The whole file.
pub(crate) static ROOT: &[Key] = &[
    key("name", Kind::Text, r#""postroom""#, "Name of this instance in leases and logs; a random boot id is added."),
    Key {
        name: "store",
        kind: Kind::Named(stores::STORE),
        default: "",
        doc: "A database with an outbox. Relative paths are relative to the working folder, not to this file.",
        example: "main",
    },
    table("relay", RELAY, "The loop that takes, delivers and settles."),
    table("retry", RETRY, "When a failed delivery is tried again; the default for all routes."),
    table("limits", LIMITS, "What an event may be at most."),
    table("retention", RETENTION, "How long things are kept; \"never\" removes nothing."),
    table("inbox", INBOX, "What consumers have accepted."),
    #[cfg(feature = "contracts")]
    table("contract", contract::CONTRACT, "What events must look like: JSON Schemas by event type; none by default."),
    table("http", http::HTTP, "What a relay answers over HTTP; nothing unless it listens."),
    #[cfg(feature = "otlp")]
    table("telemetry", telemetry::TELEMETRY, "Traces of what becomes of events; nothing unless a collector is named."),
    table("log", LOG, "Lines on stderr."),
    Key {
        name: "transport",
        kind: Kind::Shared(transports::SHARED),
        default: "",
        doc: "What routes to the same broker have in common; a route's own keys go before these.",
        example: "",
    },
    #[cfg(feature = "rabbitmq")]
    table("topology", transports::rabbitmq::TOPOLOGY, "What must be there for routes to RabbitMQ; nothing by default."),
    Key {
        name: "route",
        kind: Kind::Routes(ROUTE),
        default: "",
        doc: "Which events go where. Repeat the section for each route.",
        example: "",
    },
];

static RELAY: &[Key] = &[
    key(
        "lease",
        Kind::Duration(Duration::from_secs(1)),
        r#""30s""#,
        "How long a relay may hold a lane before another may take it; too long delays a crashed relay's share.",
    ),
    key(
        "in_flight_max",
        Kind::Count,
        "512",
        "Most deliveries on their way or not yet settled; also the bound of duplicates after one crash.",
    ),
    key("shutdown_grace", ANY, r#""20s""#, "How long a stop waits for what is in flight."),
    table("take", TAKE, "How much one look into the database brings."),
];

static TAKE: &[Key] = &[
    key("rows", Kind::Count, "500", "Most events."),
    key("bytes", Kind::Size, r#""4MiB""#, "Most bytes; a single larger event still comes, alone."),
];

static RETRY: &[Key] = &[
    key("base", SOME, r#""1s""#, "Delay after the first failure; doubles with each further one."),
    key("max", SOME, r#""15m""#, "Longest delay."),
    key(
        "jitter",
        Kind::Share,
        "0.2",
        "Random addition as a share of the delay, so that a crowd does not come back at once.",
    ),
    key("attempts", Kind::Count, "12", "Tries in all, the first included; then it is a dead letter."),
    optional(
        "schedule",
        Kind::List(&SOME),
        r#"["5s", "5m", "30m"]"#,
        "Delays one by one instead of base and max; the last one repeats.",
    ),
];

// A route's own table has no defaults: what it leaves out is taken from [retry].
static ROUTE_RETRY: &[Key] = &[
    optional("base", SOME, r#""10s""#, "As in [retry]."),
    optional("max", SOME, r#""1h""#, "As in [retry]."),
    optional("jitter", Kind::Share, "0.1", "As in [retry]."),
    optional("attempts", Kind::Count, "5", "As in [retry]."),
    optional("schedule", Kind::List(&SOME), r#"["5s", "5m"]"#, "As in [retry]."),
];

static LIMITS: &[Key] =
    &[key("payload", Kind::Size, r#""1MiB""#, "Largest payload; a larger one is refused at append.")];

static RETENTION: &[Key] = &[
    key("delivered", Kind::DurationOrNever, r#""7d""#, "Events every route is done with."),
    key("attempts", Kind::DurationOrNever, r#""7d""#, "Failed tries of deliveries that are done, and receipts."),
];

static INBOX: &[Key] = &[key(
    "retention",
    Kind::DurationOrNever,
    r#""14d""#,
    "How long an accepted id is remembered; longer than anything may be sent again.",
)];

/// Words of `log.format`.
pub(crate) static LOG_FORMATS: &[&str] = &["auto", "human", "json"];
/// Words of `log.level`.
pub(crate) static LOG_LEVELS: &[&str] = &["error", "warn", "info", "debug", "trace"];

static LOG: &[Key] = &[
    key("format", Kind::Word(LOG_FORMATS), r#""auto""#, "auto: human on a terminal, json otherwise."),
    key("level", Kind::Word(LOG_LEVELS), r#""info""#, "The least important lines shown."),
];

static ROUTE: &[Key] = &[
    optional("name", Kind::Text, r#""orders""#, "Its name in commands, metrics and the store."),
    optional(
        "store",
        Kind::Either(&Kind::Text, &Kind::List(&Kind::Text)),
        r#""main""#,
        "A store, a list of stores, or \"*\"; may be left out with one store.",
    ),
    key("match", PATTERNS, r#"["*"]"#, "Event types it wants; `*` only at the end, any rest."),
    optional("aggregate_type", PATTERNS, r#"["order"]"#, "Aggregate types it wants."),
    optional("tenant", PATTERNS, r#"["acme"]"#, "Tenants it wants."),
    key("start", Kind::Start, r#""now""#, "Where a new route begins: now, beginning or a time."),
    key(
        "on_failure",
        Kind::Word(&["block", "skip"]),
        r#""block""#,
        "Whether later events of the key wait for a failed one.",
    ),
    key("on_dead", Kind::Word(&["continue", "hold"]), r#""continue""#, "Whether the key goes on after a dead letter."),
    optional(
        "envelope",
        Kind::Either(&Kind::Word(ENVELOPES), &Kind::Table(ENVELOPE)),
        r#""cloudevents-structured""#,
        "What is sent; by default binary where there are headers, and structured where there are none.",
    ),
    table("retry", ROUTE_RETRY, "Its own retries; what is left out is taken from [retry]."),
    optional("rate", Kind::Rate, r#""50/s""#, "Most deliveries per time; no limit by default."),
    table("breaker", BREAKER, "When it stops asking its destination."),
    Key {
        name: "to",
        kind: Kind::Choice(transports::TO),
        default: "",
        doc: "Where it goes: exactly one of these. A command is run in the working folder.",
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
        "Fields that dead events have after those, where the destination has a place for them.",
    ),
    optional(
        "headers",
        Kind::Open(&Kind::Either(&Kind::Text, &Kind::Table(FIELD))),
        r#"{ x-event-id = "id", x-attempts = "attempts" }"#,
        "Headers made from the event; one without a value is left out.",
    ),
];

static FIELD: &[Key] = &[
    optional("from", Kind::Text, r#""occurred_at""#, "The part of the event."),
    optional(
        "time",
        Kind::Text,
        r#""seconds-z""#,
        "How a time is written: seconds-z, micros-z, micros+00:00 or rfc3339.",
    ),
];

static BREAKER: &[Key] = &[
    key(
        "counts",
        Kind::Word(&["unavailable", "all"]),
        r#""unavailable""#,
        "What opens it: unavailable, that the destination is down; all, any failures in a row, also of single events.",
    ),
    key("failures", Kind::Count, "10", "With counts = \"all\": failures in a row that open it."),
    key("cooldown", SOME, r#""1s""#, "First pause before it asks again; doubles while that fails."),
    key("cooldown_max", SOME, r#""30s""#, "Longest pause."),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::parse::default_value;

    fn walk(keys: &'static [Key], visit: &mut dyn FnMut(&'static Key)) {
        for key in keys {
            visit(key);
            match &key.kind {
                Kind::Table(keys)
                | Kind::Section(keys)
                | Kind::Shared(keys)
                | Kind::Choice(keys)
                | Kind::Named(keys)
                | Kind::Routes(keys)
                | Kind::Either(_, Kind::Table(keys)) => walk(keys, visit),
                _ => {}
            }
        }
    }

    #[test]
    fn every_key_says_what_it_does_in_one_line() {
        walk(ROOT, &mut |key| {
            assert!(
                key.doc.ends_with('.') && !key.doc.contains('\n') && key.doc.len() < 120,
                "{}: {}",
                key.name,
                key.doc
            );
        });
    }

    #[test]
    fn every_value_key_shows_a_default_or_an_example_that_reads() {
        walk(ROOT, &mut |key| {
            let structure = matches!(
                key.kind,
                Kind::Table(_)
                    | Kind::Section(_)
                    | Kind::Shared(_)
                    | Kind::Choice(_)
                    | Kind::Named(_)
                    | Kind::Routes(_)
            );
            for text in [key.default, key.example].into_iter().filter(|text| !text.is_empty() && !structure) {
                assert!(default_value(text).is_some(), "{} = {text}", key.name);
            }
            assert!(structure || !key.default.is_empty() || !key.example.is_empty(), "{} shows nothing", key.name);
        });
    }
}
