//! Spans as OTLP has them, named as the conventions for messaging want them, which are still in development.
//!
//! Of an event they tell its id, type and tenant, and nothing else: no payload, no key, and not what a receiver said, which
//! may quote one.

use std::time::Duration;

use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue};
use opentelemetry_proto::tonic::trace::v1::span::{Link, SpanKind};
use opentelemetry_proto::tonic::trace::v1::status::StatusCode;
use opentelemetry_proto::tonic::trace::v1::{Span, Status};
use postroom_core::{Delivery, Event, Outcome, Timestamp, TraceParent};

use crate::metrics::outcome_of;

/// Whose spans they are.
#[derive(Debug)]
pub(super) struct Of {
    /// What it goes to: `kafka`.
    pub(super) system: &'static str,
    /// Which one: a topic.
    pub(super) destination: String,
    pub(super) store: String,
    pub(super) route: String,
}

/// One try to deliver an event.
pub(super) fn send(
    of: &Of,
    begun: Option<TraceParent>,
    delivery: &Delivery,
    outcome: &Outcome,
    took: Duration,
) -> Span {
    let now = now();
    let (word, code) = outcome_of(outcome);
    let mut context = TraceParent::new(true);
    if begun.is_none() {
        context.trace = TraceParent::trace_of(&delivery.event);
    }
    let mut attributes = messaging("send", of.system, &of.destination, &delivery.event);
    attributes.extend([
        text("postroom.store", &of.store),
        text("postroom.route", &of.route),
        number("postroom.attempt", i64::from(delivery.attempts) + 1),
        text("postroom.outcome", word),
    ]);
    attributes.extend(delivery.event.tenant.as_deref().map(|tenant| text("postroom.tenant", tenant)));
    if outcome.is_err() {
        attributes.extend([text("postroom.code", code), text("error.type", code)]);
    }
    let links = begun.map(|begun| Link {
        trace_id: begun.trace.to_vec(),
        span_id: begun.span.to_vec(),
        flags: u32::from(begun.sampled),
        ..Link::default()
    });
    Span {
        start_time_unix_nano: now.saturating_sub(u64::try_from(took.as_nanos()).unwrap_or(u64::MAX)),
        end_time_unix_nano: now,
        attributes,
        links: links.into_iter().collect(),
        status: outcome.is_err().then(|| failed(code)),
        ..named("send", &of.destination, context)
    }
}

/// An event that is about to be appended: a span without an end.
pub(super) fn create(context: TraceParent, store: &str, event: &Event) -> Span {
    Span {
        start_time_unix_nano: now(),
        attributes: messaging("create", "postroom", store, event),
        ..named("create", store, context)
    }
}

/// The span, with its end.
pub(super) fn ended(mut span: Span, well: bool) -> Span {
    span.end_time_unix_nano = now();
    span.status = (!well).then(|| failed("not appended"));
    span
}

/// An attribute.
pub(super) fn text(key: &str, value: &str) -> KeyValue {
    attribute(key, Value::StringValue(value.to_owned()))
}

fn number(key: &str, value: i64) -> KeyValue {
    attribute(key, Value::IntValue(value))
}

fn attribute(key: &str, value: Value) -> KeyValue {
    KeyValue { key: key.to_owned(), value: Some(AnyValue { value: Some(value) }), ..KeyValue::default() }
}

fn messaging(operation: &str, system: &str, destination: &str, event: &Event) -> Vec<KeyValue> {
    vec![
        text("messaging.system", system),
        text("messaging.operation.name", operation),
        text("messaging.operation.type", operation),
        text("messaging.destination.name", destination),
        text("messaging.message.id", &event.id),
        text("cloudevents.event_type", &event.event_type),
    ]
}

fn named(operation: &str, destination: &str, context: TraceParent) -> Span {
    Span {
        trace_id: context.trace.to_vec(),
        span_id: context.span.to_vec(),
        flags: u32::from(context.sampled),
        name: format!("{operation} {destination}"),
        kind: SpanKind::Producer.into(),
        ..Span::default()
    }
}

fn failed(message: &str) -> Status {
    Status { message: message.to_owned(), code: StatusCode::Error.into() }
}

/// Nanoseconds since 1970.
fn now() -> u64 {
    u64::try_from(Timestamp::now().as_nanosecond()).unwrap_or_default()
}
