//! A message as a handler sees it, whatever envelope it came in.

use std::collections::BTreeMap;
use std::fmt;

use bytes::Bytes;

/// One event, as a broker delivered it.
#[derive(Clone, PartialEq, Eq)]
pub struct Message {
    /// The event's id, by which it is accepted once.
    pub id: String,
    /// What happened, where the envelope says it.
    pub event_type: Option<String>,
    /// The ordering key, where the envelope or the broker says it.
    pub key: Option<String>,
    /// Headers as the broker has them. The attributes of a structured CloudEvent are among them as `ce-NAME`.
    pub headers: BTreeMap<String, String>,
    /// The payload. Of a CloudEvent and of `raw` as it was appended; of an envelope of fields, the whole object.
    pub payload: Bytes,
    /// What the payload is, where the envelope says it.
    pub content_type: Option<String>,
    /// How often the broker has delivered it, this time included, where it knows. Not how often it was tried here.
    pub deliveries: Option<u64>,
}

impl Message {
    /// A header by its name, in whatever case.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }

    /// An attribute of a CloudEvent, for instance `correlationid`, however the broker's binding spells it.
    pub fn attribute(&self, name: &str) -> Option<&str> {
        self.header(&format!("ce-{name}")).or_else(|| self.header(&format!("ce_{name}")))
    }

    /// The payload read into a type of the application.
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
