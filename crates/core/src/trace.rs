//! The trace an event is part of: `traceparent`, as W3C Trace Context has it.
//!
//! With the feature `otel` an event takes the one of the span it is made or appended in, as OpenTelemetry knows it.

use std::collections::BTreeMap;
use std::fmt;

use crate::event::Event;

/// Name of the header with the span.
pub const TRACEPARENT: &str = "traceparent";
/// Name of the header with vendor-specific trace state.
pub const TRACESTATE: &str = "tracestate";

/// Span of a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TraceParent {
    /// Id of the trace.
    pub trace: [u8; 16],
    /// Id of the span.
    pub span: [u8; 8],
    /// Whether the trace is sampled.
    pub sampled: bool,
}

impl TraceParent {
    /// Creates the first span of a trace.
    pub fn new(sampled: bool) -> Self {
        // Nothing is no id.
        Self { trace: fastrand::u128(1..).to_be_bytes(), span: fastrand::u64(1..).to_be_bytes(), sampled }
    }

    /// Returns the trace that the deliveries of an event are found by: the one the event is part of, else one made of its id, the
    /// same at every attempt.
    pub fn trace_of(event: &Event) -> [u8; 16] {
        let own = event.headers.get(TRACEPARENT).and_then(|text| Self::parse(text));
        own.map_or_else(|| digest(&event.id), |own| own.trace)
    }

    /// Parses a header, also of a later version of the specification.
    pub fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split('-');
        let mut next = || parts.next();
        let (version, trace, span, flags) = (next()?, next()?, next()?, next()?);
        let [version] = bytes::<1>(version)?;
        if version == 0xff || (version == 0 && next().is_some()) {
            return None;
        }
        let [flags] = bytes::<1>(flags)?;
        let context = Self { trace: bytes(trace)?, span: bytes(span)?, sampled: flags & 1 == 1 };
        (context.trace != [0; 16] && context.span != [0; 8]).then_some(context)
    }
}

impl fmt::Display for TraceParent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (trace, span) = (u128::from_be_bytes(self.trace), u64::from_be_bytes(self.span));
        write!(f, "00-{trace:032x}-{span:016x}-{:02x}", u8::from(self.sampled))
    }
}

/// Puts the running span into headers that name none.
#[cfg(feature = "otel")]
pub(crate) fn carry(headers: &mut BTreeMap<String, String>) {
    use opentelemetry::trace::TraceContextExt as _;
    if headers.contains_key(TRACEPARENT) {
        return;
    }
    opentelemetry::Context::map_current(|context| {
        let span = context.span();
        let span = span.span_context();
        if !span.is_valid() {
            return;
        }
        let (trace, sampled) = (span.trace_id().to_bytes(), span.is_sampled());
        let parent = TraceParent { trace, span: span.span_id().to_bytes(), sampled };
        headers.insert(TRACEPARENT.to_owned(), parent.to_string());
        let state = span.trace_state().header();
        if !state.is_empty() {
            headers.insert(TRACESTATE.to_owned(), state);
        }
    });
}

/// Nobody traces here.
#[cfg(not(feature = "otel"))]
pub(crate) fn carry(_: &mut BTreeMap<String, String>) {}

/// FNV-1a, which never changes.
fn digest(text: &str) -> [u8; 16] {
    const START: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
    const PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;
    text.bytes().fold(START, |hash, byte| (hash ^ u128::from(byte)).wrapping_mul(PRIME)).to_be_bytes()
}

/// Exactly so many bytes in hexadecimal, which are lower-case here.
fn bytes<const N: usize>(text: &str) -> Option<[u8; N]> {
    let text = text.as_bytes();
    if text.len() != 2 * N {
        return None;
    }
    let digit = |digit: u8| match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        _ => None,
    };
    let mut bytes = [0; N];
    for (byte, pair) in bytes.iter_mut().zip(text.chunks_exact(2)) {
        *byte = 16 * digit(pair[0])? + digit(pair[1])?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_is_read_as_it_was_written() {
        for sampled in [true, false] {
            let context = TraceParent::new(sampled);
            assert_eq!(TraceParent::parse(&context.to_string()), Some(context));
        }
        let text = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        assert_eq!(TraceParent::parse(text).map(|context| context.to_string()).as_deref(), Some(text));
    }

    #[test]
    fn what_is_no_trace_is_not_taken_for_one() {
        let (trace, span) = ("0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331");
        for text in [
            String::new(),
            "00-1".to_owned(),
            format!("00-{trace}-{span}"),
            format!("00-{trace}-{span}-01-more"),
            format!("ff-{trace}-{span}-01"),
            format!("00-{}-{span}-01", "0".repeat(32)),
            format!("00-{trace}-{}-01", "0".repeat(16)),
            format!("00-{}-{span}-01", trace.to_uppercase()),
            format!("00-{trace}-{span}-é"),
        ] {
            assert_eq!(TraceParent::parse(&text), None, "{text}");
        }
        assert!(TraceParent::parse(&format!("cc-{trace}-{span}-01-more")).is_some_and(|context| context.sampled));
    }

    #[cfg(feature = "otel")]
    #[test]
    fn an_event_takes_the_span_it_is_made_or_appended_in_unless_it_has_one() {
        use opentelemetry::trace::{SpanContext, SpanId, TraceContextExt as _, TraceFlags, TraceId, TraceState};

        use crate::event::{Event, ToEvent as _};

        let outside = Event::new("t");
        assert!(outside.headers.is_empty() && outside.to_event().unwrap().headers.is_empty());
        let state = TraceState::from_key_value([("vendor", "7")]).unwrap();
        let (trace, span) = (TraceId::from_bytes([7; 16]), SpanId::from_bytes([9; 8]));
        let context = SpanContext::new(trace, span, TraceFlags::SAMPLED, false, state);
        let _running = opentelemetry::Context::new().with_remote_span_context(context).attach();
        let expected = format!("00-{}-{}-01", "07".repeat(16), "09".repeat(8));
        for event in [Event::new("t"), outside.to_event().unwrap()] {
            assert_eq!((&event.headers[TRACEPARENT], event.headers[TRACESTATE].as_str()), (&expected, "vendor=7"));
        }
        let own = Event { headers: BTreeMap::from([(TRACEPARENT.to_owned(), "mine".to_owned())]), ..outside };
        assert_eq!(own.to_event().unwrap().headers, own.headers);
    }
}
