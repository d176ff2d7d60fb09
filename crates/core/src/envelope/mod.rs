//! Turns an event into bytes and headers for a transport.
//!
//! Which format is the route's choice; how headers are spelt is the transport's ([`Binding`]).

mod cloudevents;
mod fields;
mod time;

use bytes::Bytes;

pub use fields::{FieldError, FieldTable, Part, TextPart, TimePart};
pub use time::TimeForm;

use crate::event::Event;
use crate::failure::Failure;

/// How a route's envelopes look.
#[derive(Debug, Clone, PartialEq)]
pub enum Format {
    /// The payload as it is; everything else in headers.
    CloudEventsBinary,
    /// One JSON object with everything.
    CloudEventsStructured,
    /// The payload as it is, with three headers.
    Raw,
    /// A JSON object with fields as the configuration names them.
    Fields(FieldTable),
}

/// How a transport spells CloudEvents headers in binary mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Binding {
    /// `ce_id`, with `content-type` beside them.
    Kafka,
    /// `ce-id`, with the content type where the protocol has a place for it.
    Http,
}

impl Binding {
    fn prefix(self) -> &'static str {
        match self {
            Self::Kafka => "ce_",
            Self::Http => "ce-",
        }
    }
}

/// An event ready for the wire.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Envelope {
    /// What the body is.
    pub content_type: String,
    /// Headers in order.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Bytes,
}

/// Encodes the events of one route.
#[derive(Debug, Clone)]
pub struct Encoder {
    format: Format,
    binding: Binding,
    source: String,
}

impl Encoder {
    /// An encoder; `source` is the CloudEvents `source`, by default `/postroom/<store>`.
    pub fn new(format: Format, binding: Binding, source: impl Into<String>) -> Self {
        Self { format, binding, source: source.into() }
    }

    /// Encodes one event; `position` is its number in the log, if it has one.
    pub fn encode(&self, event: &Event, position: Option<i64>) -> Result<Envelope, Failure> {
        match &self.format {
            Format::CloudEventsBinary => Ok(cloudevents::binary(event, position, &self.source, self.binding.prefix())),
            Format::CloudEventsStructured => cloudevents::structured(event, position, &self.source),
            Format::Raw => Ok(raw(event, position)),
            Format::Fields(table) => table.encode(event, position),
        }
    }
}

fn raw(event: &Event, position: Option<i64>) -> Envelope {
    let mut headers =
        vec![("postroom-id".to_owned(), event.id.clone()), ("postroom-type".to_owned(), event.event_type.clone())];
    headers.extend(position_header(position));
    headers.extend(event.headers.iter().map(|(k, v)| (k.clone(), v.clone())));
    Envelope { content_type: event.content_type.clone(), headers, body: event.payload.clone() }
}

fn position_header(position: Option<i64>) -> Option<(String, String)> {
    position.map(|n| ("postroom-position".to_owned(), n.to_string()))
}

fn not_json(event: &Event) -> Failure {
    Failure::permanent(
        "envelope.not_json",
        format!(
            "the payload of event {} is not valid JSON although its content type is {}",
            event.id, event.content_type
        ),
    )
}
