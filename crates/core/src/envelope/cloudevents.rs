//! CloudEvents 1.0, structured JSON and binary headers.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use bytes::Bytes;
use serde::ser::{SerializeMap, Serializer};
use serde_json::Value;

use super::{Binding, Envelope, position_header};
use crate::event::Event;
use crate::failure::Failure;

/// Names that are never taken from a scope field, also when the event has no value for them: nobody may pretend.
const RESERVED: [&str; 15] = [
    "specversion",
    "id",
    "source",
    "type",
    "subject",
    "time",
    "datacontenttype",
    "dataschema",
    "data",
    "partitionkey",
    "sequence",
    "correlationid",
    "causationid",
    "tenant",
    "traceparent",
];
const STRUCTURED: &str = "application/cloudevents+json";

/// The payload as it is, everything else in headers as the transport spells them.
pub(super) fn binary(event: &Event, position: Option<i64>, source: &str, binding: Binding) -> Envelope {
    let header = |(name, value): (String, String)| (format!("{}{name}", binding.prefix()), binding.value(value));
    let mut headers: Vec<(String, String)> = attributes(event, position, source).into_iter().map(header).collect();
    headers.extend(position_header(position));
    headers.extend(event.headers.iter().map(|(k, v)| (k.clone(), v.clone())));
    Envelope { content_type: event.content_type.clone(), headers, body: event.payload.clone() }
}

/// One JSON object; a JSON payload stands in `data` byte for byte, any other in `data_base64`.
pub(super) fn structured(event: &Event, position: Option<i64>, source: &str) -> Result<Envelope, Failure> {
    let mut body = Vec::with_capacity(event.payload.len() + 512);
    let mut json = serde_json::Serializer::new(&mut body);
    let write = |json: &mut serde_json::Serializer<&mut Vec<u8>>| -> Result<(), serde_json::Error> {
        let mut map = json.serialize_map(None)?;
        for (name, value) in attributes(event, position, source) {
            map.serialize_entry(&name, &value)?;
        }
        map.serialize_entry("datacontenttype", &event.content_type)?;
        match event.payload_json() {
            Some(data) => map.serialize_entry("data", data)?,
            None => map.serialize_entry("data_base64", &BASE64.encode(&event.payload))?,
        }
        map.end()
    };
    if event.is_json() && event.payload_json().is_none() {
        return Err(super::not_json(event));
    }
    write(&mut json).map_err(|e| Failure::permanent("envelope.json", e.to_string()))?;
    let headers = position_header(position).into_iter().collect();
    Ok(Envelope { content_type: STRUCTURED.to_owned(), headers, body: Bytes::from(body) })
}

/// Context attributes and extensions, as text, in a fixed order.
fn attributes(event: &Event, position: Option<i64>, source: &str) -> Vec<(String, String)> {
    let mut list = Vec::with_capacity(12);
    let mut add = |name: &str, value: &str| list.push((name.to_owned(), value.to_owned()));
    add("specversion", "1.0");
    add("id", &event.id);
    add("source", source);
    add("type", &event.event_type);
    if let Some(subject) = &event.aggregate_id {
        add("subject", subject);
    }
    add("time", &event.occurred_at.to_string());
    if let Some(key) = event.ordering_key() {
        add("partitionkey", key);
    }
    if let Some(number) = position {
        add("sequence", &format!("{number:020}"));
    }
    add("correlationid", event.correlation());
    if let Some(cause) = &event.causation_id {
        add("causationid", cause);
    }
    if let Some(tenant) = &event.tenant {
        add("tenant", tenant);
    }
    if let Some(trace) = event.headers.get("traceparent") {
        add("traceparent", trace);
    }
    for (name, value) in &event.attributes {
        let name: String = name.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase()).collect();
        let text = match value {
            Value::Null => continue,
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        // An extension may not take the name of a context attribute or of one of ours.
        let taken = RESERVED.contains(&name.as_str()) || list.iter().any(|(taken, _)| *taken == name);
        if !name.is_empty() && !taken {
            list.push((name, text));
        }
    }
    list
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::{Encoder, Format};
    use super::*;
    use crate::event::JSON;

    fn event() -> Event {
        let mut event = Event::new("order.placed")
            .id("e-1")
            .aggregate("order", "order-7")
            .tenant("acme")
            .header("traceparent", "00-abc-def-01")
            .attribute("station_id", "s9")
            .attribute("data", "no")
            .attribute("data_content_type", "no")
            .attribute("causation_id", "no")
            .bytes(JSON, r#"{ "z": 1, "a": 12345678901234567890 }"#);
        event.occurred_at = "2026-01-02T03:04:05Z".parse().unwrap();
        event
    }

    #[test]
    fn structured_carries_the_payload_byte_for_byte() {
        let encoder = Encoder::new(Format::CloudEventsStructured, Binding::Http, "/postroom/main");
        let envelope = encoder.encode(&event(), Some(42)).unwrap();
        let text = String::from_utf8(envelope.body.to_vec()).unwrap();
        assert!(text.ends_with(r#""data":{ "z": 1, "a": 12345678901234567890 }}"#), "{text}");
        assert!(!text.contains("\"no\""), "a scope field pretends to be something else: {text}");
        let value: Value = serde_json::from_str(&text).unwrap();
        for (name, expected) in [
            ("specversion", "1.0"),
            ("id", "e-1"),
            ("source", "/postroom/main"),
            ("type", "order.placed"),
            ("subject", "order-7"),
            ("partitionkey", "order-7"),
            ("sequence", "00000000000000000042"),
            ("time", "2026-01-02T03:04:05Z"),
            ("correlationid", "e-1"),
            ("tenant", "acme"),
            ("traceparent", "00-abc-def-01"),
            ("stationid", "s9"),
            ("datacontenttype", "application/json"),
        ] {
            assert_eq!(value[name], json!(expected), "{name}");
        }
    }

    #[test]
    fn binary_puts_attributes_into_headers_and_leaves_the_payload_alone() {
        let encoder = Encoder::new(Format::CloudEventsBinary, Binding::Kafka, "/postroom/main");
        let envelope = encoder.encode(&event(), None).unwrap();
        assert_eq!(envelope.body, event().payload);
        let header = |name: &str| envelope.headers.iter().find(|(k, _)| k == name).map(|(_, v)| v.as_str());
        assert_eq!(header("ce_id"), Some("e-1"));
        assert_eq!(header("ce_sequence"), None, "no position, no sequence");
        assert_eq!(header("traceparent"), Some("00-abc-def-01"));
    }

    #[test]
    fn each_binding_spells_attributes_and_the_content_type_its_own_way() {
        let event = event().aggregate("order", "Grüße 100%");
        for (binding, name, subject, content_type) in [
            (Binding::Kafka, "ce_subject", "Grüße 100%", Some("content-type")),
            (Binding::Redis, "ce_subject", "Grüße 100%", Some("content-type")),
            (Binding::Amqp, "ce-subject", "Grüße 100%", None),
            (Binding::Http, "ce-subject", "Gr%C3%BC%C3%9Fe%20100%25", None),
            (Binding::Nats, "ce-subject", "Gr%C3%BC%C3%9Fe%20100%25", Some("ce-datacontenttype")),
        ] {
            let envelope = Encoder::new(Format::CloudEventsBinary, binding, "/s").encode(&event, None).unwrap();
            let header = |name: &str| envelope.headers.iter().find(|(k, _)| k == name).map(|(_, v)| v.as_str());
            assert_eq!(header(name), Some(subject), "{binding:?}");
            assert_eq!(content_type.and_then(header), content_type.map(|_| JSON), "{binding:?}");
        }
        let nats = Encoder::new(Format::CloudEventsStructured, Binding::Nats, "/s").encode(&event, None).unwrap();
        assert_eq!(nats.headers[0], ("content-type".to_owned(), STRUCTURED.to_owned()));
    }

    #[test]
    fn bytes_that_are_not_json_travel_as_base64() {
        let encoder = Encoder::new(Format::CloudEventsStructured, Binding::Http, "/s");
        for (bytes, text) in [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foobar", "Zm9vYmFy")] {
            let envelope = encoder.encode(&event().bytes("text/plain", bytes), None).unwrap();
            let value: Value = serde_json::from_slice(&envelope.body).unwrap();
            assert_eq!(value["data_base64"], json!(text));
        }
    }
}
