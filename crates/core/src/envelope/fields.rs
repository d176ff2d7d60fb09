//! Envelopes as a table in the configuration: field names and their order are the consumer's, values are ours.

use bytes::Bytes;
use serde::ser::{SerializeMap, Serializer};
use serde_json::Value;

use super::time::TimeForm;
use crate::event::Event;
use crate::failure::Failure;

/// Fields in the order they are written.
#[derive(Debug, Clone, PartialEq)]
pub struct FieldTable(Vec<(String, Part)>);

/// Where a field's value comes from.
#[derive(Debug, Clone, PartialEq)]
pub enum Part {
    /// A text of the event, `null` when it has none.
    Text(TextPart),
    /// A time of the event.
    Time(TimePart, TimeForm),
    /// The payload as JSON.
    Payload,
    /// The schema version, a number.
    SchemaVersion,
    /// The number in the log, `null` on adopted tables.
    Position,
    /// A scope field by name.
    Attribute(String),
    /// A header by name.
    Header(String),
}

/// A text of the event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are the event's own")]
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

/// A time of the event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are the event's own")]
pub enum TimePart {
    OccurredAt,
    AvailableAt,
}

/// A field that names nothing an event has.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FieldError {
    /// No such part.
    #[error(
        "{0:?} is nothing an event has; choose one of id, type, key, aggregate_type, aggregate_id, tenant, payload, \
         occurred_at, available_at, correlation_id, causation_id, schema_version, position, attributes.NAME, headers.NAME"
    )]
    UnknownPart(String),
    /// No such time form.
    #[error("{0:?} is not a time form; choose seconds-z, micros-z or micros+00:00")]
    UnknownTimeForm(String),
    /// A time form for something that is not a time.
    #[error("{0:?} is not a time, so it has no time form")]
    NotATime(String),
}

impl Part {
    /// Reads a part by its name, with a time form if the configuration gives one.
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
            "occurred_at" => Self::Time(TimePart::OccurredAt, form.unwrap_or_default()),
            "available_at" => Self::Time(TimePart::AvailableAt, form.unwrap_or_default()),
            other => match (other.strip_prefix("attributes."), other.strip_prefix("headers.")) {
                (Some(name), _) if !name.is_empty() => Self::Attribute(name.to_owned()),
                (_, Some(name)) if !name.is_empty() => Self::Header(name.to_owned()),
                _ => return Err(FieldError::UnknownPart(other.to_owned())),
            },
        };
        match (&part, form) {
            (Self::Time(..), _) | (_, None) => Ok(part),
            (_, Some(_)) => Err(FieldError::NotATime(from.to_owned())),
        }
    }
}

impl FieldTable {
    /// A table of these fields, in this order.
    pub fn new(fields: Vec<(String, Part)>) -> Self {
        Self(fields)
    }

    /// The body: a JSON object.
    pub(super) fn encode(&self, event: &Event, position: Option<i64>) -> Result<Bytes, Failure> {
        let mut body = Vec::with_capacity(event.payload.len() + 256);
        let mut json = serde_json::Serializer::new(&mut body);
        let result = (|| {
            let mut map = json.serialize_map(Some(self.0.len()))?;
            for (name, part) in &self.0 {
                map.serialize_key(name)?;
                match part {
                    Part::Text(which) => map.serialize_value(&text(event, *which))?,
                    Part::Time(TimePart::OccurredAt, form) => map.serialize_value(&form.format(event.occurred_at))?,
                    Part::Time(TimePart::AvailableAt, form) => {
                        map.serialize_value(&event.available_at.map(|t| form.format(t)))?;
                    }
                    Part::Payload => match event.payload_json() {
                        Some(data) => map.serialize_value(data)?,
                        None => return Err(serde::ser::Error::custom("not JSON")),
                    },
                    Part::SchemaVersion => map.serialize_value(&event.schema_version)?,
                    Part::Position => map.serialize_value(&position)?,
                    Part::Attribute(name) => {
                        map.serialize_value(event.attributes.get(name).unwrap_or(&Value::Null))?;
                    }
                    Part::Header(name) => map.serialize_value(&event.headers.get(name))?,
                }
            }
            map.end()
        })();
        result.map_err(|_: serde_json::Error| super::not_json(event))?;
        Ok(Bytes::from(body))
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
        let body = encoder.encode(&event, Some(1)).unwrap().body;
        assert_eq!(
            std::str::from_utf8(&body).unwrap(),
            r#"{"event_id":"e-1","occurred_at":"2026-01-02T03:04:05Z","timestamp":"2026-01-02T03:04:05.600000+00:00","tenant_id":null,"station_id":"s9","schema_version":1,"payload":{"b":1,"a":2}}"#
        );
    }

    #[test]
    fn what_names_nothing_is_refused() {
        assert!(Part::parse("attributes.", None).is_err());
        assert!(Part::parse("Id", None).unwrap_err().to_string().starts_with("\"Id\" is nothing an event has"));
        assert!(Part::parse("id", Some("seconds-z")).is_err());
        assert!(Part::parse("occurred_at", Some("unix")).is_err());
    }
}
