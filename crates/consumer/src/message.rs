//! A message as a handler sees it, whatever envelope it came in.

use std::collections::BTreeMap;
use std::fmt;

use bytes::Bytes;

/// Message: an event as a broker delivered it.
#[derive(Clone, PartialEq, Eq)]
pub struct Message {
    /// Id of the event, by which it is accepted once.
    pub id: String,
    /// Event type, if the envelope has it.
    pub event_type: Option<String>,
    /// Ordering key, if the envelope or the broker has it.
    pub key: Option<String>,
    /// Headers of the broker. The attributes of a structured CloudEvent are among them as `ce-NAME`.
    pub headers: BTreeMap<String, String>,
    /// Payload. Of a CloudEvent and of `raw` as it was appended; of an envelope of fields, the whole object.
    pub payload: Bytes,
    /// Content type of the payload, if the envelope has it.
    pub content_type: Option<String>,
    /// Number of deliveries by the broker, this one included, if it counts them. Not the number of attempts here.
    pub deliveries: Option<u64>,
}

impl Message {
    /// Returns a header by its name, in any case.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }

    /// Returns an attribute of a CloudEvent, for instance `correlationid`, in any spelling of the broker's binding.
    pub fn attribute(&self, name: &str) -> Option<&str> {
        self.header(&format!("ce-{name}")).or_else(|| self.header(&format!("ce_{name}")))
    }

    /// Deserializes the payload into a type of the application.
    pub fn payload_as<'a, T: serde::Deserialize<'a>>(&'a self) -> Result<T, serde_json::Error> {
        serde_json::from_slice(&self.payload)
    }
}

/// Without what is in it: payloads and headers stay out of logs.
impl fmt::Debug for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Message")
            .field("id", &self.id)
            .field("event_type", &self.event_type)
            .field("key", &self.key)
            .field("payload_bytes", &self.payload.len())
            .field("deliveries", &self.deliveries)
            .finish_non_exhaustive()
    }
}
