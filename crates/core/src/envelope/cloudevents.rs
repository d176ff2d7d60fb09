//! CloudEvents 1.0, structured JSON and binary headers.

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use bytes::Bytes;
use serde::ser::{SerializeMap, Serializer};
use serde_json::Value;

use super::{Binding, Header};
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
/// Content type of an envelope that says everything itself.
pub(super) const STRUCTURED: &str = "application/cloudevents+json";

/// How an attribute's name is spelt: as it is, or as a header of either kind.
#[derive(Debug, Clone, Copy)]
struct Name([&'static str; 3]);

const PLAIN: usize = 0;
const UNDERSCORE: usize = 1;
const DASH: usize = 2;
const PREFIXES: [&str; 3] = ["", "ce_", "ce-"];

macro_rules! name {
    ($name:literal) => {
        Name([$name, concat!("ce_", $name), concat!("ce-", $name)])
    };
}

/// Everything but the payload as headers, as the transport spells them.
pub(super) fn headers<'a>(
    event: &'a Event,
    position: Option<i64>,
    source: &'a str,
    binding: Binding,
    headers: &mut Vec<Header<'a>>,
) {
    let spelling = match binding {
        Binding::Kafka | Binding::Redis => UNDERSCORE,
        Binding::Http | Binding::Nats | Binding::Amqp => DASH,
    };
    attributes(event, position, source, spelling, |name, value| headers.push((name, binding.value(value))));
}

/// One JSON object; a JSON payload stands in `data` byte for byte, any other in `data_base64`.
pub(super) fn structured(event: &Event, position: Option<i64>, source: &str) -> Result<Bytes, Failure> {
    let mut body = Vec::with_capacity(event.payload.len() + 512);
    let mut json = serde_json::Serializer::new(&mut body);
    let write = |json: &mut serde_json::Serializer<&mut Vec<u8>>| -> Result<(), serde_json::Error> {
        let mut map = json.serialize_map(None)?;
        let mut written = Ok(());
        attributes(event, position, source, PLAIN, |name, value| {
            if written.is_ok() {
                written = map.serialize_entry(&name, &value);
            }
        });
        written?;
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
    Ok(Bytes::from(body))
}

/// Context attributes and extensions, as text, in a fixed order.
fn attributes<'a>(
    event: &'a Event,
    position: Option<i64>,
    source: &'a str,
    spelling: usize,
    mut add: impl FnMut(Cow<'a, str>, Cow<'a, str>),
) {
    let mut ours = |name: Name, value: Cow<'a, str>| add(Cow::Borrowed(name.0[spelling]), value);
    ours(name!("specversion"), Cow::Borrowed("1.0"));
    ours(name!("id"), Cow::Borrowed(&event.id));
    ours(name!("source"), Cow::Borrowed(source));
    ours(name!("type"), Cow::Borrowed(&event.event_type));
    if let Some(subject) = &event.aggregate_id {
        ours(name!("subject"), Cow::Borrowed(subject));
    }
    ours(name!("time"), Cow::Owned(event.occurred_at.to_string()));
    if let Some(key) = event.ordering_key() {
        ours(name!("partitionkey"), Cow::Borrowed(key));
    }
    if let Some(number) = position {
        ours(name!("sequence"), Cow::Owned(format!("{number:020}")));
    }
    ours(name!("correlationid"), Cow::Borrowed(event.correlation()));
    if let Some(cause) = &event.causation_id {
        ours(name!("causationid"), Cow::Borrowed(cause));
    }
    if let Some(tenant) = &event.tenant {
        ours(name!("tenant"), Cow::Borrowed(tenant));
    }
    if let Some(trace) = event.headers.get("traceparent") {
        ours(name!("traceparent"), Cow::Borrowed(trace));
    }
    let mut extensions: Vec<String> = Vec::new();
    for (name, value) in &event.attributes {
        let name: String = name.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase()).collect();
        let text = match value {
            Value::Null => continue,
            Value::String(text) => Cow::Borrowed(text.as_str()),
            other => Cow::Owned(other.to_string()),
        };
        // An extension may not take the name of a context attribute or of one of ours.
        if name.is_empty() || RESERVED.contains(&name.as_str()) || extensions.contains(&name) {
            continue;
        }
        add(Cow::Owned(format!("{}{name}", PREFIXES[spelling])), text);
        extensions.push(name);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::{Encoder, Format};
    use super::*;
    use crate::event::JSON;
    use crate::transport::Stage;

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
        let event = event();
        let envelope = encoder.encode(&event, Stage::at(Some(42))).unwrap();
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
        let event = event();
        let envelope = encoder.encode(&event, Stage::default()).unwrap();
        assert_eq!(envelope.body, event.payload);
        let header = |name: &str| envelope.headers.iter().find(|(k, _)| k == name).map(|(_, v)| &**v);
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
            let encoder = Encoder::new(Format::CloudEventsBinary, binding, "/s");
            let envelope = encoder.encode(&event, Stage::default()).unwrap();
            let header = |name: &str| envelope.headers.iter().find(|(k, _)| k == name).map(|(_, v)| &**v);
            assert_eq!(header(name), Some(subject), "{binding:?}");
            assert_eq!(content_type.and_then(header), content_type.map(|_| JSON), "{binding:?}");
        }
        let encoder = Encoder::new(Format::CloudEventsStructured, Binding::Nats, "/s");
        assert_eq!(
            encoder.encode(&event, Stage::default()).unwrap().headers[0],
            ("content-type".into(), STRUCTURED.into())
        );
    }

    #[test]
    fn bytes_that_are_not_json_travel_as_base64() {
        let encoder = Encoder::new(Format::CloudEventsStructured, Binding::Http, "/s");
        for (bytes, text) in [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foobar", "Zm9vYmFy")] {
            let event = event().bytes("text/plain", bytes);
            let envelope = encoder.encode(&event, Stage::default()).unwrap();
            let value: Value = serde_json::from_slice(&envelope.body).unwrap();
            assert_eq!(value["data_base64"], json!(text));
        }
    }
}
