//! The span of a handler. With the feature `otel` it goes on with the trace its event came with, through whatever tracer
//! the application has made OpenTelemetry's global one.
//!
//! It tells the event's id and type, and a failure's code: no payload, and no error text, which may quote one.

use std::future::Future;

use crate::attempt::Tried;
use crate::message::Message;

/// Does the work of a message.
#[cfg(not(feature = "otel"))]
pub(crate) fn process(_: &str, _: &Message, work: impl Future<Output = Tried>) -> impl Future<Output = Tried> {
    work
}

/// Does the work of a message in a span.
#[cfg(feature = "otel")]
pub(crate) async fn process(consumer: &str, message: &Message, work: impl Future<Output = Tried>) -> Tried {
    use opentelemetry::trace::{FutureExt as _, Link, SpanKind, Status, TraceContextExt as _, Tracer as _};
    use opentelemetry::{Context, KeyValue, global};

    let text = |key: &'static str, value: &str| KeyValue::new(key, value.to_owned());
    let tracer = global::tracer("postroom");
    let mut builder = tracer.span_builder(format!("process {consumer}")).with_kind(SpanKind::Consumer);
    let mut attributes = vec![
        text("messaging.system", "postroom"),
        text("messaging.operation.name", "process"),
        text("messaging.operation.type", "process"),
        text("messaging.consumer.group.name", consumer),
        text("messaging.message.id", &message.id),
    ];
    attributes.extend(message.event_type.iter().map(|event_type| text("cloudevents.event_type", event_type)));
    builder.attributes = Some(attributes);
    let mut parent = Context::current();
    if let Some(begun) = begun(message) {
        // A child, so that one trace has the whole story; a link, because the conventions for messaging ask for it.
        builder.links = Some(vec![Link::with_context(begun.clone())]);
        parent = parent.with_remote_span_context(begun);
    }
    let context = parent.with_span(tracer.build_with_context(builder, &parent));
    let tried = work.with_context(context.clone()).await;
    let span = context.span();
    if let Tried::Failed(failure) | Tried::Away(failure) | Tried::Lost(failure) = &tried {
        span.set_status(Status::error(failure.code.clone()));
        span.set_attribute(text("error.type", &failure.code));
    }
    span.end();
    tried
}

/// The span the event was appended in.
#[cfg(feature = "otel")]
fn begun(message: &Message) -> Option<opentelemetry::trace::SpanContext> {
    use opentelemetry::trace::{SpanContext, SpanId, TraceFlags, TraceId};
    use postroom_core::{TRACEPARENT, TRACESTATE, TraceParent};

    let of = |name| message.header(name).or_else(|| message.attribute(name));
    let begun = of(TRACEPARENT).and_then(TraceParent::parse)?;
    let flags = if begun.sampled { TraceFlags::SAMPLED } else { TraceFlags::NOT_SAMPLED };
    // One that cannot be read is left out: it is of no use without the parent, and not the other way round.
    let state = of(TRACESTATE).and_then(|text| text.parse().ok()).unwrap_or_default();
    let (trace, span) = (TraceId::from_bytes(begun.trace), SpanId::from_bytes(begun.span));
    Some(SpanContext::new(trace, span, flags, true, state))
}
