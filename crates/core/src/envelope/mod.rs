//! Turns an event into bytes and headers for a transport.
//!
//! Which format is the route's choice; how headers are spelt is the transport's ([`Binding`]).

mod cloudevents;
mod fields;
mod time;

use std::borrow::Cow;
use std::fmt::Write as _;

use bytes::Bytes;
use serde_json::value::RawValue;

pub use fields::{FieldError, FieldTable, Part, TextPart, TimePart};
pub use time::TimeForm;

use crate::event::{Event, JSON};
use crate::failure::Failure;
use crate::transport::Stage;

/// Headers of ours at most, without scope fields.
const HEADERS_OURS: usize = 14;

/// Format of a route's envelopes.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Format {
    /// Payload unchanged, with all other fields in headers.
    CloudEventsBinary,
    /// JSON object with the whole event.
    CloudEventsStructured,
    /// Payload unchanged, with three headers.
    Raw,
    /// JSON object with fields that the configuration names.
    Fields(FieldTable),
}

/// Spelling of headers by a transport.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
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
    /// What the header for the content type is called, where it is one of the headers.
    fn content_type(self, binary: bool) -> Option<&'static str> {
        match self {
            Self::Nats if binary => Some("ce-datacontenttype"),
            Self::Kafka | Self::Nats | Self::Redis => Some("content-type"),
            Self::Http | Self::Amqp => None,
        }
    }

    /// A CloudEvents attribute as a header's value.
    fn value(self, text: Cow<'_, str>) -> Cow<'_, str> {
        match self {
            Self::Http | Self::Nats => percent_encoded(text),
            Self::Kafka | Self::Amqp | Self::Redis => text,
        }
    }
}

/// As the HTTP binding of CloudEvents wants it: what is not printable ASCII, space, `"` and `%`.
fn percent_encoded(text: Cow<'_, str>) -> Cow<'_, str> {
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
    Cow::Owned(encoded)
}

/// Name and value of a header.
pub type Header<'a> = (Cow<'a, str>, Cow<'a, str>);

/// Event ready for the wire. Borrows from the event, and lives as long as it takes to write it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Envelope<'a> {
    /// Content type of the body.
    pub content_type: Cow<'a, str>,
    /// Headers in order: Postroom's own, then the event's. The first of a name counts.
    pub headers: Vec<Header<'a>>,
    /// Body of the message.
    pub body: Bytes,
}

/// Encoder of the events of one route.
#[derive(Debug, Clone)]
pub struct Encoder {
    format: Format,
    binding: Binding,
    source: String,
}

impl Encoder {
    /// Creates an encoder; `source` is the CloudEvents `source`, by default `/postroom/<store>`.
    pub fn new(format: Format, binding: Binding, source: impl Into<String>) -> Self {
        Self { format, binding, source: source.into() }
    }

    /// Encodes an event at this stage of its delivery.
    pub fn encode<'a>(&'a self, event: &'a Event, stage: Stage<'_>) -> Result<Envelope<'a>, Failure> {
        let (content_type, body) = match &self.format {
            Format::CloudEventsBinary | Format::Raw => (Cow::Borrowed(&*event.content_type), event.payload.clone()),
            Format::CloudEventsStructured => {
                (Cow::Borrowed(cloudevents::STRUCTURED), cloudevents::structured(event, stage.position, &self.source)?)
            }
            Format::Fields(table) => (Cow::Borrowed(JSON), table.encode(event, stage)?),
        };
        let mut headers = Vec::with_capacity(HEADERS_OURS + event.headers.len() + event.attributes.len());
        let is_binary = matches!(self.format, Format::CloudEventsBinary);
        if let Some(name) = self.binding.content_type(is_binary) {
            headers.push((Cow::Borrowed(name), content_type.clone()));
        }
        self.describe(event, stage, &mut headers);
        Ok(Envelope { content_type, headers, body })
    }

    /// Reports whether a header is made from a number of the event, for transports whose headers have types.
    pub fn is_number(&self, header: &str) -> bool {
        matches!(&self.format, Format::Fields(table) if table.is_number(header))
    }

    /// Encodes an event as a line of JSON, with its line break; `code` is that of the failure if the envelope is not JSON.
    pub fn json_line(&self, event: &Event, stage: Stage<'_>, code: &'static str) -> Result<Vec<u8>, Failure> {
        let mut line = self.encode(event, stage)?.body.to_vec();
        if serde_json::from_slice::<&RawValue>(&line).is_err() {
            let error = format!("the envelope of event {} is not JSON and may not fit one line", event.id);
            return Err(Failure::permanent(code, error));
        }
        // A line break in valid JSON can only stand between tokens, where a space means the same.
        for byte in &mut line {
            if matches!(byte, b'\n' | b'\r') {
                *byte = b' ';
            }
        }
        line.push(b'\n');
        Ok(line)
    }

    /// What the body does not say.
    fn describe<'a>(&'a self, event: &'a Event, stage: Stage<'_>, headers: &mut Vec<Header<'a>>) {
        let id = || (Cow::Borrowed("postroom-id"), Cow::Borrowed(&*event.id));
        match &self.format {
            Format::CloudEventsBinary => {
                cloudevents::headers(event, stage.position, &self.source, self.binding, headers);
            }
            Format::CloudEventsStructured => {}
            Format::Raw => headers.extend([id(), (Cow::Borrowed("postroom-type"), Cow::Borrowed(&event.event_type))]),
            Format::Fields(table) => {
                headers.push(id());
                table.describe(event, stage, headers);
            }
        }
        headers.extend(stage.position.map(|n| (Cow::Borrowed("postroom-position"), Cow::Owned(n.to_string()))));
        if !matches!(self.format, Format::CloudEventsStructured) {
            headers.extend(event.headers.iter().map(|(name, value)| (name.into(), value.into())));
        }
    }
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
