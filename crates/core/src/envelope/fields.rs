//! Envelopes as a table in the configuration: field names and their order are the consumer's, values are ours.

use std::borrow::Cow;

use bytes::Bytes;
use serde::ser::{SerializeMap, Serializer};
use serde_json::Value;

use super::Header;
use super::time::TimeForm;
use crate::event::Event;
use crate::failure::Failure;
use crate::transport::Stage;

/// Fields in the order in which they are written.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct FieldTable {
    body: Vec<(String, Part)>,
    dead: Vec<(String, Part)>,
    headers: Vec<(String, Part)>,
}

/// Source of a field's value.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Part {
    /// Text field of the event, `null` if it has none.
    Text(TextPart),
    /// Time field of the event.
    Time(TimePart, TimeForm),
    /// Payload as JSON.
    Payload,
    /// Schema version, a number.
    SchemaVersion,
    /// Position in the log, `null` on adopted tables.
    Position,
    /// Attribute by name.
    Attribute(String),
    /// Header by name.
    Header(String),
    /// Number of earlier attempts; of a dead letter, of all attempts.
    Attempts,
    /// Time at which a dead letter was given up, `null` before.
    FailedAt(TimeForm),
    /// Reason of a dead letter in one word; `null` before.
    Error,
}

/// Text field of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are the event's own")]
#[non_exhaustive]
pub enum TextPart {
    Id,
    Type,
    Key,
    AggregateType,
    AggregateId,
    Tenant,
    CorrelationId,
    CausationId,
}

/// Time field of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are the event's own")]
#[non_exhaustive]
pub enum TimePart {
    OccurredAt,
    AvailableAt,
}

/// Error of a field that an event does not have.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FieldError {
    /// No such part.
    #[error(
        "{0:?} is nothing an event has; choose one of id, type, key, aggregate_type, aggregate_id, tenant, payload, \
         occurred_at, available_at, correlation_id, causation_id, schema_version, position, attempts, failed_at, error, \
         attributes.NAME, headers.NAME"
    )]
    UnknownPart(String),
    /// No such time form.
    #[error("{0:?} is not a time form; choose seconds-z, micros-z, micros+00:00 or rfc3339")]
    UnknownTimeForm(String),
    /// A time form for something that is not a time.
    #[error("{0:?} is not a time, so it has no time form")]
    NotATime(String),
}

impl Part {
    /// Parses a field by its name, with a time format if the configuration sets one.
    pub fn parse(from: &str, time: Option<&str>) -> Result<Self, FieldError> {
        use TextPart as T;
        let form = match time {
            Some(word) => Some(TimeForm::parse(word).ok_or_else(|| FieldError::UnknownTimeForm(word.to_owned()))?),
            None => None,
        };
        let part = match from {
            "id" => Self::Text(T::Id),
            "type" => Self::Text(T::Type),
            "key" => Self::Text(T::Key),
            "aggregate_type" => Self::Text(T::AggregateType),
            "aggregate_id" => Self::Text(T::AggregateId),
            "tenant" => Self::Text(T::Tenant),
            "correlation_id" => Self::Text(T::CorrelationId),
            "causation_id" => Self::Text(T::CausationId),
            "payload" => Self::Payload,
            "schema_version" => Self::SchemaVersion,
            "position" => Self::Position,
            "attempts" => Self::Attempts,
            "error" => Self::Error,
            "failed_at" => Self::FailedAt(form.unwrap_or_default()),
            "occurred_at" => Self::Time(TimePart::OccurredAt, form.unwrap_or_default()),
            "available_at" => Self::Time(TimePart::AvailableAt, form.unwrap_or_default()),
            other => match (other.strip_prefix("attributes."), other.strip_prefix("headers.")) {
                (Some(name), _) if !name.is_empty() => Self::Attribute(name.to_owned()),
                (_, Some(name)) if !name.is_empty() => Self::Header(name.to_owned()),
                _ => return Err(FieldError::UnknownPart(other.to_owned())),
            },
        };
        match (&part, form) {
            (Self::Time(..) | Self::FailedAt(_), _) | (_, None) => Ok(part),
            (_, Some(_)) => Err(FieldError::NotATime(from.to_owned())),
        }
    }
}

impl FieldTable {
    /// Creates a table of these fields, in this order.
    pub fn new(body: Vec<(String, Part)>) -> Self {
        Self { body, ..Self::default() }
    }

    /// Fields that dead events have after the others.
    #[must_use]
    pub fn dead(self, dead: Vec<(String, Part)>) -> Self {
        Self { dead, ..self }
    }

    /// Headers made from the event; one without a value is left out.
    #[must_use]
    pub fn headers(self, headers: Vec<(String, Part)>) -> Self {
        Self { headers, ..self }
    }

    /// The body: a JSON object.
    pub(super) fn encode(&self, event: &Event, stage: Stage<'_>) -> Result<Bytes, Failure> {
        let mut body = Vec::with_capacity(event.payload.len() + 256);
        let mut json = serde_json::Serializer::new(&mut body);
        let dead = if stage.dead_letter.is_some() { self.dead.as_slice() } else { &[] };
        let result = (|| {
            let mut map = json.serialize_map(Some(self.body.len() + dead.len()))?;
            for (name, part) in self.body.iter().chain(dead) {
                map.serialize_key(name)?;
                value(part, event, stage, &mut map)?;
            }
            map.end()
        })();
        result.map_err(|_: serde_json::Error| super::not_json(event))?;
        Ok(Bytes::from(body))
    }

    /// Whether a header of this name is a number by what it is made from.
    pub(super) fn is_number(&self, header: &str) -> bool {
        let number = |part: &Part| matches!(part, Part::Attempts | Part::SchemaVersion | Part::Position);
        self.headers.iter().any(|(name, part)| name == header && number(part))
    }

    /// The headers.
    pub(super) fn describe<'a>(&'a self, event: &'a Event, stage: Stage<'_>, headers: &mut Vec<Header<'a>>) {
        let made =
            |(name, part): &'a (String, Part)| Some((Cow::Borrowed(name.as_str()), written(part, event, stage)?));
        headers.extend(self.headers.iter().filter_map(made));
    }
}

fn value<M: SerializeMap>(part: &Part, event: &Event, stage: Stage<'_>, map: &mut M) -> Result<(), M::Error> {
    match part {
        Part::Payload => match event.payload_json() {
            Some(data) => map.serialize_value(data),
            None => Err(serde::ser::Error::custom("not JSON")),
        },
        Part::SchemaVersion => map.serialize_value(&event.schema_version),
        Part::Position => map.serialize_value(&stage.position),
        Part::Attempts => map.serialize_value(&stage.attempts),
        Part::Attribute(name) => map.serialize_value(event.attributes.get(name).unwrap_or(&Value::Null)),
        text => map.serialize_value(&written(text, event, stage)),
    }
}

/// As a text; `None` when there is no value.
fn written<'a>(part: &Part, event: &'a Event, stage: Stage<'_>) -> Option<Cow<'a, str>> {
    let borrowed = |text: Option<&'a str>| text.map(Cow::Borrowed);
    match part {
        Part::Text(which) => borrowed(text(event, *which)),
        Part::Time(TimePart::OccurredAt, form) => Some(Cow::Owned(form.format(event.occurred_at))),
        Part::Time(TimePart::AvailableAt, form) => event.available_at.map(|time| Cow::Owned(form.format(time))),
        Part::Payload => borrowed(std::str::from_utf8(&event.payload).ok()),
        Part::SchemaVersion => Some(Cow::Owned(event.schema_version.to_string())),
        Part::Position => stage.position.map(|position| Cow::Owned(position.to_string())),
        Part::Attempts => Some(Cow::Owned(stage.attempts.to_string())),
        Part::FailedAt(form) => stage.dead_letter.map(|dead_letter| Cow::Owned(form.format(dead_letter.at))),
        Part::Error => stage.dead_letter.map(|dead_letter| Cow::Owned(dead_letter.reason().to_owned())),
        Part::Attribute(name) => match event.attributes.get(name)? {
            Value::Null => None,
            Value::String(text) => Some(Cow::Borrowed(text)),
            other => Some(Cow::Owned(other.to_string())),
        },
        Part::Header(name) => borrowed(event.headers.get(name).map(String::as_str)),
    }
}

fn text(event: &Event, part: TextPart) -> Option<&str> {
    match part {
        TextPart::Id => Some(&event.id),
        TextPart::Type => Some(&event.event_type),
        TextPart::Key => event.ordering_key(),
        TextPart::AggregateType => event.aggregate_type.as_deref(),
        TextPart::AggregateId => event.aggregate_id.as_deref(),
        TextPart::Tenant => event.tenant.as_deref(),
        TextPart::CorrelationId => Some(event.correlation()),
        TextPart::CausationId => event.causation_id.as_deref(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Binding, Encoder, Format};
    use super::*;
    use crate::event::JSON;
    use crate::transport::DeadLetterCause;

    #[test]
    fn fields_stand_in_the_order_written_with_their_own_names_and_time_forms() {
        let fields = [
            ("event_id", "id", None),
            ("occurred_at", "occurred_at", Some("seconds-z")),
            ("timestamp", "occurred_at", Some("micros+00:00")),
            ("tenant_id", "tenant", None),
            ("station_id", "attributes.station_id", None),
            ("schema_version", "schema_version", None),
            ("payload", "payload", None),
        ];
        let table = fields.map(|(name, from, time)| (name.to_owned(), Part::parse(from, time).unwrap())).to_vec();
        let mut event = Event::new("t").id("e-1").attribute("station_id", "s9").bytes(JSON, r#"{"b":1,"a":2}"#);
        event.occurred_at = "2026-01-02T03:04:05.6Z".parse().unwrap();
        let encoder = Encoder::new(Format::Fields(FieldTable::new(table)), Binding::Http, "/s");
        let body = encoder.encode(&event, Stage::at(Some(1))).unwrap().body;
        assert_eq!(
            std::str::from_utf8(&body).unwrap(),
            r#"{"event_id":"e-1","occurred_at":"2026-01-02T03:04:05Z","timestamp":"2026-01-02T03:04:05.600000+00:00","tenant_id":null,"station_id":"s9","schema_version":1,"payload":{"b":1,"a":2}}"#
        );
    }

    #[test]
    fn a_dead_event_says_how_often_when_and_why_after_everything_else() {
        let parts = |list: &[(&str, &str)]| {
            list.iter().map(|(name, from)| ((*name).to_owned(), Part::parse(from, None).unwrap())).collect::<Vec<_>>()
        };
        let table = FieldTable::new(parts(&[("event_id", "id")])).dead(parts(&[
            ("retry_count", "attempts"),
            ("failed_at", "failed_at"),
            ("error", "error"),
        ]));
        let encoder = Encoder::new(Format::Fields(table), Binding::Kafka, "/s");
        let event = Event::new("t").id("e-1");
        let body = |stage: Stage<'_>| String::from_utf8(encoder.encode(&event, stage).unwrap().body.to_vec()).unwrap();
        assert_eq!(body(Stage { attempts: 4, ..Stage::default() }), r#"{"event_id":"e-1"}"#);
        for (failure, error) in [
            (Failure::transient("kafka.broker", "said no"), "max_retries_exceeded"),
            (Failure::permanent("kafka.too_large", "said no"), "kafka.too_large"),
        ] {
            let dead_letter = DeadLetterCause { failure, attempts: 5, at: "2026-01-02T03:04:05Z".parse().unwrap() };
            let stage = Stage { position: None, attempts: 5, dead_letter: Some(&dead_letter) };
            let expected = format!(
                r#"{{"event_id":"e-1","retry_count":5,"failed_at":"2026-01-02T03:04:05.000000Z","error":"{error}"}}"#
            );
            assert_eq!(body(stage), expected);
        }
    }

    #[test]
    fn headers_are_made_from_the_event_and_left_out_without_a_value() {
        let names = [("x-id", "id"), ("x-group", "attributes.group"), ("x-sub", "attributes.sub"), ("x-n", "attempts")];
        let parts = names.map(|(name, from)| (name.to_owned(), Part::parse(from, None).unwrap())).to_vec();
        let encoder = Encoder::new(Format::Fields(FieldTable::default().headers(parts)), Binding::Amqp, "/s");
        let event =
            Event::new("t").id("e-1").attribute("group", "g-1").attribute("sub", Value::Null).header("x-n", "9");
        let envelope = encoder.encode(&event, Stage { attempts: 2, ..Stage::default() }).unwrap();
        let headers: Vec<(&str, &str)> = envelope.headers.iter().map(|(name, value)| (&**name, &**value)).collect();
        let expected = [("postroom-id", "e-1"), ("x-id", "e-1"), ("x-group", "g-1"), ("x-n", "2"), ("x-n", "9")];
        assert_eq!(headers, expected);
    }

    #[test]
    fn what_names_nothing_is_refused() {
        assert!(Part::parse("attributes.", None).is_err());
        assert!(Part::parse("Id", None).unwrap_err().to_string().starts_with("\"Id\" is nothing an event has"));
        assert!(Part::parse("id", Some("seconds-z")).is_err());
        assert!(Part::parse("occurred_at", Some("unix")).is_err());
    }
}
