//! A message as a broker has it, and what it comes to. Understands every envelope that Postroom sends.
//!
//! Which of them it is, is seen from the message: binary CloudEvents have `ce-id` or `ce_id`, structured ones their
//! content type, `raw` has `postroom-id`; a JSON object of fields has its id in a header, or in a field of its own.

use std::collections::BTreeMap;
use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use bytes::Bytes;
use percent_encoding::percent_decode_str;
use postroom_core::{Failure, ID_BYTES_MAX};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::message::Message;

/// Default name of the field of a JSON body that has the id.
pub const ID_FIELD: &str = "event_id";

const STRUCTURED: &str = "application/cloudevents+json";
/// Headers with the id, the type and the key, in the order of their weight, after those of CloudEvents.
const IDS: [&str; 3] = ["postroom-id", "x-event-id", "nats-msg-id"];
const TYPES: [&str; 2] = ["postroom-type", "x-event-type"];
const KEYS: [&str; 1] = ["x-aggregate-id"];

/// Message as a subscription received it.
#[derive(Clone, Default)]
pub struct Wire {
    /// Headers in the broker's order; the first of a name counts.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Bytes,
    /// Content type, if the broker has a property for it.
    pub content_type: Option<String>,
    /// Id of the message, if the broker has a property for it.
    pub id: Option<String>,
    /// Type of the message, if the broker has a property for it.
    pub event_type: Option<String>,
    /// Key of the message, if the broker has a property for it.
    pub key: Option<String>,
    /// Whether attributes of CloudEvents are percent-encoded in headers.
    pub is_percent_encoded: bool,
    /// Number of deliveries, this one included.
    pub deliveries: Option<u64>,
}

impl Wire {
    /// Reads the message. The failure has the reason why it can never be accepted: its event id is unknown.
    pub fn read(self, id_field: &str) -> Result<Message, Failure> {
        let content_type = self.content_type.clone().or_else(|| self.plain("content-type").map(str::to_owned));
        let base = content_type.as_deref().map(|text| text.split(';').next().unwrap_or_default().trim());
        if base.is_some_and(|base| base.eq_ignore_ascii_case(STRUCTURED)) {
            return self.structured();
        }
        let id = match self.attribute("id").or_else(|| self.first(&IDS)).or_else(|| self.id.clone()) {
            Some(id) => Some(id),
            None => field(&self.body, id_field),
        };
        let id = checked(id.ok_or_else(|| no_id(id_field))?)?;
        let event_type = self.attribute("type").or_else(|| self.first(&TYPES)).or_else(|| self.event_type.clone());
        let key = self.key.clone().or_else(|| self.attribute("partitionkey")).or_else(|| self.first(&KEYS));
        let content_type = self.attribute("datacontenttype").or(content_type);
        Ok(Message {
            id,
            event_type: event_type.or_else(|| field(&self.body, "event_type")),
            key,
            headers: self.headers(),
            payload: self.body,
            content_type,
            deliveries: self.deliveries,
        })
    }

    /// One JSON object that says everything.
    fn structured(self) -> Result<Message, Failure> {
        let unreadable = || Failure::permanent("consumer.envelope", "the body is not a structured CloudEvent");
        let object: BTreeMap<String, &RawValue> = serde_json::from_slice(&self.body).map_err(|_| unreadable())?;
        let text = |name: &str| object.get(name).and_then(|value| serde_json::from_str::<String>(value.get()).ok());
        let id = checked(text("id").ok_or_else(|| no_id("id"))?)?;
        let payload = match (object.get("data"), text("data_base64")) {
            // The part of the body that it is, byte for byte, without a copy.
            (Some(data), _) => self.body.slice_ref(data.get().as_bytes()),
            (None, Some(data)) => Bytes::from(BASE64.decode(data).map_err(|_| unreadable())?),
            (None, None) => Bytes::new(),
        };
        let mut headers = self.headers();
        for name in object.keys().filter(|name| !matches!(name.as_str(), "data" | "data_base64")) {
            if let Some(value) = text(name) {
                headers.insert(format!("ce-{name}"), value);
            }
        }
        Ok(Message {
            id,
            event_type: text("type"),
            key: self.key.clone().or_else(|| text("partitionkey")),
            headers,
            payload,
            content_type: text("datacontenttype"),
            deliveries: self.deliveries,
        })
    }

    fn plain(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }

    fn first(&self, names: &[&str]) -> Option<String> {
        names.iter().find_map(|name| self.plain(name)).map(str::to_owned)
    }

    /// An attribute of a binary CloudEvent.
    fn attribute(&self, name: &str) -> Option<String> {
        let value = self.plain(&format!("ce-{name}")).or_else(|| self.plain(&format!("ce_{name}")))?;
        if !self.is_percent_encoded {
            return Some(value.to_owned());
        }
        Some(percent_decode_str(value).decode_utf8().map_or_else(|_| value.to_owned(), std::borrow::Cow::into_owned))
    }

    fn headers(&self) -> BTreeMap<String, String> {
        let mut headers = BTreeMap::new();
        for (name, value) in &self.headers {
            headers.entry(name.clone()).or_insert_with(|| value.clone());
        }
        headers
    }
}

/// Without what is in it: payloads and headers stay out of logs.
impl fmt::Debug for Wire {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Wire").field("body_bytes", &self.body.len()).finish_non_exhaustive()
    }
}

/// A field of a JSON object, as text: also of a number.
fn field(body: &[u8], name: &str) -> Option<String> {
    if body.first() != Some(&b'{') {
        return None;
    }
    let object: BTreeMap<String, &RawValue> = serde_json::from_slice(body).ok()?;
    match serde_json::from_str(object.get(name)?.get()).ok()? {
        Value::String(text) => Some(text),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

fn checked(id: String) -> Result<String, Failure> {
    if (1..=ID_BYTES_MAX).contains(&id.len()) {
        return Ok(id);
    }
    let error = format!("the event's id has {} bytes, 1 to {ID_BYTES_MAX} are possible", id.len());
    Err(Failure::permanent("consumer.id", error))
}

fn no_id(field: &str) -> Failure {
    let error = format!(
        "the message has no event id: no ce-id, postroom-id or x-event-id among its headers, no id of the broker's, and \
         no field `{field}` in its body"
    );
    Failure::permanent("consumer.no_id", error)
}

#[cfg(test)]
mod tests {
    use postroom_core::envelope::{Binding, Encoder, FieldTable, Format, Part};
    use postroom_core::{Event, JSON};

    use super::*;

    const PAYLOAD: &str = r#"{ "z": 1, "a": 12345678901234567890 }"#;

    /// What an encoder makes of this event, as a broker of that binding hands it over.
    fn sent(event: &Event, format: Format, binding: Binding) -> Wire {
        let encoder = Encoder::new(format, binding, "/postroom/test");
        let envelope = encoder.encode(event, postroom_core::Stage::at(Some(7))).unwrap();
        let headers = envelope.headers.iter().map(|(n, v)| (n.to_string(), v.to_string())).collect();
        Wire {
            headers,
            body: envelope.body.clone(),
            content_type: (binding == Binding::Amqp).then(|| envelope.content_type.to_string()),
            is_percent_encoded: binding == Binding::Nats,
            ..Wire::default()
        }
    }

    fn event() -> Event {
        Event::new("order.placed").id("é-1").aggregate("order", "Grüße 100%").tenant("acme").bytes(JSON, PAYLOAD)
    }

    fn fields() -> Format {
        let part = |name: &str| Part::parse(name, None).unwrap();
        Format::Fields(FieldTable::new(vec![
            ("event_id".into(), part("id")),
            ("event_type".into(), part("type")),
            ("payload".into(), part("payload")),
        ]))
    }

    #[test]
    fn every_envelope_of_every_binding_says_which_event_it_is() {
        for binding in [Binding::Kafka, Binding::Amqp, Binding::Nats] {
            for format in [Format::CloudEventsBinary, Format::CloudEventsStructured, Format::Raw, fields()] {
                let is_fields = matches!(format, Format::Fields(_));
                let what = format!("{binding:?} {format:?}");
                let message = sent(&event(), format.clone(), binding).read(ID_FIELD).unwrap();
                assert_eq!(
                    (message.id.as_str(), message.event_type.as_deref()),
                    ("é-1", Some("order.placed")),
                    "{what}"
                );
                assert_eq!(is_fields, message.payload != PAYLOAD.as_bytes(), "{what}");
                if matches!(format, Format::CloudEventsBinary | Format::CloudEventsStructured) {
                    assert_eq!(message.key.as_deref(), Some("Grüße 100%"), "{what}");
                    assert_eq!(message.attribute("tenant"), Some("acme"), "{what}");
                    assert_eq!(message.content_type.as_deref(), Some(JSON), "{what}");
                }
            }
        }
    }

    #[test]
    fn bytes_that_are_not_json_come_back_as_they_were() {
        let event = event().bytes("text/plain", "a\u{0}b");
        let message = sent(&event, Format::CloudEventsStructured, Binding::Kafka).read(ID_FIELD).unwrap();
        assert_eq!((&message.payload[..], message.content_type.as_deref()), (&b"a\0b"[..], Some("text/plain")));
    }

    #[test]
    fn an_id_is_found_in_headers_in_the_brokers_own_place_and_in_the_body() {
        let header = |name: &str| Wire { headers: vec![(name.into(), "e-1".into())], ..Wire::default() };
        let body = |text: &'static str| Wire { body: Bytes::from_static(text.as_bytes()), ..Wire::default() };
        for (wire, field) in [
            (header("X-Event-Id"), ID_FIELD),
            (header("Nats-Msg-Id"), ID_FIELD),
            (header("postroom-id"), ID_FIELD),
            (Wire { id: Some("e-1".into()), ..Wire::default() }, ID_FIELD),
            (body(r#"{"event_id":"e-1"}"#), ID_FIELD),
            (body(r#"{"uuid":"e-1","event_id":"other"}"#), "uuid"),
        ] {
            assert_eq!(wire.clone().read(field).map(|message| message.id), Ok("e-1".to_owned()), "{:?}", wire.headers);
        }
        assert_eq!(body(r#"{"event_id":17}"#).read(ID_FIELD).unwrap().id, "17");
    }

    #[test]
    fn without_an_id_that_can_be_accepted_a_message_fails_for_good_and_is_not_quoted() {
        let body = |text: &'static str| Wire { body: Bytes::from_static(text.as_bytes()), ..Wire::default() };
        let structured = |text: &'static str| Wire { content_type: Some(STRUCTURED.into()), ..body(text) };
        for (wire, code) in [
            (body(""), "consumer.no_id"),
            (body("canary"), "consumer.no_id"),
            (body(r#"{"event_id":null,"canary":1}"#), "consumer.no_id"),
            (body(r#"{"event_id":""}"#), "consumer.id"),
            (structured("canary"), "consumer.envelope"),
            (structured(r#"{"data":"canary"}"#), "consumer.no_id"),
            (structured(r#"{"id":"e-1","data_base64":"canary!"}"#), "consumer.envelope"),
            (Wire { id: Some("x".repeat(65)), ..Wire::default() }, "consumer.id"),
        ] {
            let failure = wire.read(ID_FIELD).unwrap_err();
            assert_eq!((failure.kind, &*failure.code), (postroom_core::FailureKind::Permanent, code));
            assert!(!failure.error.contains("canary"), "{}", failure.error);
        }
    }
}
