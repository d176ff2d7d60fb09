//! Turns an event into bytes and headers for a transport.
//!
//! Which format is the route's choice; how headers are spelt is the transport's ([`Binding`]).

mod cloudevents;
mod fields;
mod time;

use std::fmt::Write as _;

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

/// How a transport spells headers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Binding {
    /// `ce_id`, with `content-type` among the headers.
    Kafka,
    /// `ce-id`, percent-encoded; the content type has a place of its own.
    Http,
    /// `ce-id`, percent-encoded, with `ce-datacontenttype` or `content-type` among the headers.
    Nats,
    /// `ce-id` as it is; the content type has a place of its own. For AMQP 0-9-1, which has no published binding.
    Amqp,
    /// `ce_id`, with `content-type` among the fields. There is no published binding.
    Redis,
}

impl Binding {
    fn prefix(self) -> &'static str {
        match self {
            Self::Kafka | Self::Redis => "ce_",
            Self::Http | Self::Nats | Self::Amqp => "ce-",
        }
    }

    /// What the header for the content type is called, where it is one of the headers.
    fn content_type(self, binary: bool) -> Option<&'static str> {
        match self {
            Self::Nats if binary => Some("ce-datacontenttype"),
            Self::Kafka | Self::Nats | Self::Redis => Some("content-type"),
            Self::Http | Self::Amqp => None,
        }
    }

    /// A CloudEvents attribute as a header's value.
    fn value(self, text: String) -> String {
        match self {
            Self::Http | Self::Nats => percent_encoded(text),
            Self::Kafka | Self::Amqp | Self::Redis => text,
        }
    }
}

/// As the HTTP binding of CloudEvents wants it: what is not printable ASCII, space, `"` and `%`.
fn percent_encoded(text: String) -> String {
    let plain = |b: u8| (0x21..=0x7e).contains(&b) && b != b'"' && b != b'%';
    if text.bytes().all(plain) {
        return text;
    }
    let mut encoded = String::with_capacity(text.len() + 16);
    for byte in text.bytes() {
        if plain(byte) {
            encoded.push(char::from(byte));
        } else {
            // Writing into a text cannot fail.
            let _ = write!(encoded, "%{byte:02X}");
        }
    }
    encoded
}

/// An event ready for the wire.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Envelope {
    /// What the body is.
    pub content_type: String,
    /// Headers in order: ours, then the event's own. The first of a name counts.
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
        let mut envelope = match &self.format {
            Format::CloudEventsBinary => cloudevents::binary(event, position, &self.source, self.binding),
            Format::CloudEventsStructured => cloudevents::structured(event, position, &self.source)?,
            Format::Raw => raw(event, position),
            Format::Fields(table) => table.encode(event, position)?,
        };
        let binary = matches!(self.format, Format::CloudEventsBinary);
        if let Some(name) = self.binding.content_type(binary) {
            envelope.headers.insert(0, (name.to_owned(), envelope.content_type.clone()));
        }
        Ok(envelope)
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
