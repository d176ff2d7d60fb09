//! What an event must look like to be appended; the same for every store and every way in.

use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::event::Event;
use crate::failure::Failure;

/// Longest event id, in bytes.
pub const ID_BYTES_MAX: usize = 64;
/// Longest ordering key, in bytes.
pub const KEY_BYTES_MAX: usize = 512;
/// Longest type, tenant, aggregate type, correlation or causation id, in bytes.
pub const NAME_BYTES_MAX: usize = 255;
/// Largest headers and attributes of one event together, in bytes of names and values.
pub const HEADER_BYTES_MAX: usize = 64 * 1024;
/// Longest text of a column of headers or attributes that a store reads, in bytes. As JSON the headers of an event may be longer
/// than they are, but not by so much.
pub const HEADER_TEXT_MAX: usize = 8 * HEADER_BYTES_MAX;
/// Name of headers and attributes as errors say it.
pub const HEADERS_FIELD: &str = "headers and attributes";
const PAYLOAD: &str = "payload";
/// Deepest nesting of objects and lists in JSON; most decoders refuse more.
pub const JSON_DEPTH_MAX: usize = 100;

/// Limits that a store enforces at append.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Largest payload, in bytes.
    ///
    /// Too small and honest events are refused; too large and one event fills a batch and a broker refuses it later.
    ///
    /// Defaults to 1 MiB.
    pub payload_bytes_max: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { payload_bytes_max: 1024 * 1024 }
    }
}

/// Reason why an event cannot be appended. Names the field and the value, never the payload.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EventError {
    /// A field that must be given is empty.
    #[error("event {field} is empty")]
    Empty {
        /// The field.
        field: &'static str,
    },
    /// A field is longer than its limit.
    #[error("event {field} is {bytes} bytes, the limit is {limit}")]
    TooLong {
        /// The field.
        field: &'static str,
        /// Its length.
        bytes: usize,
        /// The limit.
        limit: usize,
    },
    /// A field has characters that no transport can carry.
    #[error("event {field} {value:?} contains a control character")]
    ControlCharacter {
        /// The field.
        field: &'static str,
        /// Its value.
        value: String,
    },
    /// It is not what its contract says.
    #[error("event of type {event_type:?} breaks its contract: {breaches}")]
    Contract {
        /// The event's type.
        event_type: String,
        /// Paths and keywords, nothing that stands there.
        breaches: String,
    },
    /// Its JSON is nested deeper than decoders read.
    #[error("event {field} is nested deeper than {JSON_DEPTH_MAX} levels")]
    TooDeep {
        /// The field.
        field: &'static str,
    },
    /// The payload says it is JSON and is not.
    #[error("event payload is not JSON: {reason}")]
    NotJson {
        /// Where and why, without the payload's text.
        reason: String,
    },
}

impl EventError {
    /// Returns the next step for people.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Empty { field: "type" } => "give it a value, for instance order.placed",
            Self::Empty { .. } => "give it a value, or leave it out",
            Self::TooLong { field: PAYLOAD, .. } => {
                "raise `limits.payload`, or store the large part elsewhere and send a reference"
            }
            Self::TooLong { .. } => "shorten it; limits are fixed so that every broker can carry the event",
            Self::TooDeep { .. } => {
                "send it as a text or in another content type, or store it elsewhere and send a reference"
            }
            Self::ControlCharacter { .. } => "remove line breaks and control characters",
            Self::Contract { .. } => {
                "fix the event, or change its schema; `postroom schema ls` shows where it is defined"
            }
            Self::NotJson { .. } => "send valid JSON; in a shell put it in quotes, for instance '{\"total\": 4200}'",
        }
    }
}

impl EventError {
    /// Reports whether the payload or the headers are too large, or nested too deep.
    pub fn is_about_size(&self) -> bool {
        matches!(self, Self::TooDeep { .. } | Self::TooLong { field: PAYLOAD | HEADERS_FIELD, .. })
    }

    /// Returns the failure of an event whose size is wrong, and which came into its table past the checks of an append.
    pub fn failure(&self) -> Failure {
        match self {
            Self::TooDeep { .. } => Failure::permanent("event.too_deep", self.to_string()),
            _ => Failure::permanent("event.too_large", self.to_string()),
        }
    }
}

impl Limits {
    /// Checks an event, and returns the first error.
    pub fn check(self, event: &Event) -> Result<(), EventError> {
        name("type", &event.event_type, NAME_BYTES_MAX)?;
        name("id", &event.id, ID_BYTES_MAX)?;
        name("content_type", &event.content_type, NAME_BYTES_MAX)?;
        let optional = [
            ("key", &event.key, KEY_BYTES_MAX),
            ("aggregate_type", &event.aggregate_type, NAME_BYTES_MAX),
            ("aggregate_id", &event.aggregate_id, KEY_BYTES_MAX),
            ("tenant", &event.tenant, NAME_BYTES_MAX),
            ("correlation_id", &event.correlation_id, NAME_BYTES_MAX),
            ("causation_id", &event.causation_id, NAME_BYTES_MAX),
        ];
        for (field, value, limit) in optional {
            if let Some(value) = value {
                name(field, value, limit)?;
            }
        }
        check_headers(event)?;
        self.check_payload_bytes(event.payload.len())?;
        check_depth(event)?;
        if event.is_json()
            && let Err(e) = serde_json::from_slice::<&RawValue>(&event.payload)
        {
            // serde_json's text names position and kind only, never the input.
            return Err(EventError::NotJson { reason: e.to_string() });
        }
        Ok(())
    }

    /// Checks the length of a payload before it is loaded. Who writes to the table by hand passes the checks of an append.
    pub fn check_payload_bytes(self, bytes: usize) -> Result<(), EventError> {
        if bytes > self.payload_bytes_max {
            return Err(EventError::TooLong { field: PAYLOAD, bytes, limit: self.payload_bytes_max });
        }
        Ok(())
    }
}

/// Checks that decoders can read the JSON of a payload.
pub fn check_depth(event: &Event) -> Result<(), EventError> {
    // Nearly every payload has fewer brackets in all, and counting them is much faster than following them.
    let brackets = || event.payload.iter().filter(|byte| matches!(byte, b'{' | b'[')).count();
    if brackets() > JSON_DEPTH_MAX && event.is_json() && json_depth(&event.payload) > JSON_DEPTH_MAX {
        return Err(EventError::TooDeep { field: PAYLOAD });
    }
    Ok(())
}

/// Returns how deep objects and lists are nested in a text of JSON.
pub fn json_depth(json: &[u8]) -> usize {
    let (mut depth, mut deepest, mut in_text, mut escaped) = (0_usize, 0, false, false);
    for byte in json {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_text => escaped = true,
            b'"' => in_text = !in_text,
            b'{' | b'[' if !in_text => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b'}' | b']' if !in_text => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    deepest
}

/// Reads headers or attributes of a stored event: text of JSON, or only its length where it is too long to be read. What is no
/// object has none.
pub fn stored_object(text: &str) -> Result<Map<String, Value>, EventError> {
    let field = HEADERS_FIELD;
    match serde_json::from_str(text) {
        Ok(Value::Object(object)) => Ok(object),
        Ok(Value::Number(bytes)) if bytes.as_u64().is_some_and(|bytes| bytes > HEADER_TEXT_MAX as u64) => {
            let bytes = bytes.as_u64().and_then(|bytes| usize::try_from(bytes).ok()).unwrap_or(usize::MAX);
            Err(EventError::TooLong { field, bytes, limit: HEADER_BYTES_MAX })
        }
        Err(_) if json_depth(text.as_bytes()) > JSON_DEPTH_MAX => Err(EventError::TooDeep { field }),
        _ => Ok(Map::new()),
    }
}

/// Checks the length of headers and attributes.
pub fn check_header_bytes(event: &Event) -> Result<(), EventError> {
    let bytes = event.headers.iter().map(|(k, v)| k.len() + v.len()).sum::<usize>()
        + event.attributes.iter().map(|(k, v)| k.len() + v.to_string().len()).sum::<usize>();
    if bytes > HEADER_BYTES_MAX {
        return Err(EventError::TooLong { field: HEADERS_FIELD, bytes, limit: HEADER_BYTES_MAX });
    }
    Ok(())
}

fn check_headers(event: &Event) -> Result<(), EventError> {
    for (header, value) in &event.headers {
        if header.is_empty() {
            return Err(EventError::Empty { field: "header name" });
        }
        if header.chars().chain(value.chars()).any(char::is_control) {
            return Err(EventError::ControlCharacter { field: "header", value: header.clone() });
        }
    }
    for (attribute, value) in &event.attributes {
        if attribute.is_empty() {
            return Err(EventError::Empty { field: "attribute name" });
        }
        // A text becomes a header as it is; anything else is written as JSON, which has no bare control characters.
        let text = value.as_str().unwrap_or_default();
        if attribute.chars().chain(text.chars()).any(char::is_control) {
            return Err(EventError::ControlCharacter { field: "attribute", value: attribute.clone() });
        }
        if (value.is_array() || value.is_object()) && json_depth(value.to_string().as_bytes()) > JSON_DEPTH_MAX {
            return Err(EventError::TooDeep { field: HEADERS_FIELD });
        }
    }
    check_header_bytes(event)
}

fn name(field: &'static str, value: &str, limit: usize) -> Result<(), EventError> {
    if value.is_empty() {
        return Err(EventError::Empty { field });
    }
    if value.len() > limit {
        return Err(EventError::TooLong { field, bytes: value.len(), limit });
    }
    if value.chars().any(char::is_control) {
        return Err(EventError::ControlCharacter { field, value: value.to_owned() });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(event: &Event) -> Result<(), String> {
        Limits::default().check(event).map_err(|e| e.to_string())
    }

    #[test]
    fn an_ordinary_event_passes() {
        check(&Event::new("order.placed").key("order-7").json(&serde_json::json!({"n": 1})).unwrap()).unwrap();
    }

    #[test]
    fn what_is_wrong_is_named_with_its_value() {
        let event = || Event::new("t");
        assert_eq!(check(&Event::new("")).unwrap_err(), "event type is empty");
        assert_eq!(check(&event().key("k".repeat(513))).unwrap_err(), "event key is 513 bytes, the limit is 512");
        assert_eq!(check(&event().id("i".repeat(65))).unwrap_err(), "event id is 65 bytes, the limit is 64");
        assert_eq!(check(&event().tenant("a\nb")).unwrap_err(), "event tenant \"a\\nb\" contains a control character");
        assert_eq!(
            check(&event().header("x", "a\r\nb")).unwrap_err(),
            "event header \"x\" contains a control character"
        );
        assert!(
            check(&event().bytes(crate::event::JSON, "{nope")).unwrap_err().starts_with("event payload is not JSON")
        );
        assert_eq!(
            check(&event().attribute("station", "a\r\nb")).unwrap_err(),
            "event attribute \"station\" contains a control character"
        );
        assert!(check(&event().bytes("text/plain\r\nx: y", "")).is_err());
        let large = event().bytes("text/plain", vec![b'x'; 1024 * 1024 + 1]);
        assert_eq!(check(&large).unwrap_err(), "event payload is 1048577 bytes, the limit is 1048576");
    }

    #[test]
    fn json_that_decoders_refuse_is_refused_and_brackets_in_texts_do_not_count() {
        let nested = |levels: usize| "[".repeat(levels) + &"]".repeat(levels);
        let json = |text: String| Event::new("t").bytes(crate::event::JSON, text);
        check(&json(nested(JSON_DEPTH_MAX))).unwrap();
        let said = check(&json(nested(JSON_DEPTH_MAX + 1))).unwrap_err();
        assert_eq!(said, "event payload is nested deeper than 100 levels");
        check(&json(format!("[\"\\\"{}\",{}]", "{".repeat(500), nested(50)))).unwrap();
        check(&json(format!("[{}]", vec!["{}"; 500].join(",")))).unwrap();
        check(&Event::new("t").bytes("text/plain", nested(500))).unwrap();
        let deep = serde_json::from_str::<Value>(&nested(120)).unwrap();
        assert!(check(&Event::new("t").attribute("a", deep)).unwrap_err().contains("attributes is nested deeper"));
    }

    #[test]
    fn stored_headers_say_why_they_cannot_be_read() {
        assert_eq!(stored_object("{\"a\":1}").unwrap().len(), 1);
        for none in ["7", "[1]", "nonsense", ""] {
            assert!(stored_object(none).unwrap().is_empty(), "{none}");
        }
        let long = stored_object("20000000").unwrap_err();
        assert_eq!(long.to_string(), "event headers and attributes is 20000000 bytes, the limit is 65536");
        let deep = format!("{{\"a\":{}1{}}}", "[".repeat(300), "]".repeat(300));
        assert_eq!(stored_object(&deep).unwrap_err().failure().code, "event.too_deep");
    }

    #[test]
    fn a_key_of_exactly_the_limit_passes() {
        check(&Event::new("t").key("k".repeat(KEY_BYTES_MAX))).unwrap();
    }

    #[test]
    fn the_payload_never_reaches_the_error() {
        let event = Event::new("t").bytes(crate::event::JSON, "{\"card\": 4111-canary");
        assert!(!check(&event).unwrap_err().contains("canary"));
    }
}
