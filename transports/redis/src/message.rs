//! An event as a stream's entry: the `XADD` and its fields.

use postroom_core::envelope::Encoder;
use postroom_core::{Failure, Outbound};
use redis::Cmd;

use crate::failures;
use crate::options::RedisOptions;

/// Content type of an envelope that says everything itself.
const STRUCTURED: &str = "application/cloudevents+json";
/// Fields that only we write.
const OURS: [&str; 2] = ["data", "event"];

/// What is sent.
pub(crate) struct Message {
    pub(crate) command: Cmd,
    /// Of all of it.
    pub(crate) bytes: usize,
}

impl Message {
    /// The message of one delivery; no part of it is longer than the limit.
    pub(crate) fn of(
        options: &RedisOptions,
        encoder: &Encoder,
        outbound: &Outbound,
        bulk_bytes_max: usize,
    ) -> Result<Self, Failure> {
        let event = &outbound.event;
        let stream = options.stream.render(event)?;
        let envelope = encoder.encode(event, outbound.stage())?;
        let headers = &envelope.headers;
        let longest = headers.iter().map(|(name, value)| name.len().max(value.len())).max().unwrap_or_default();
        let longest = longest.max(envelope.body.len()).max(stream.len());
        if longest > bulk_bytes_max {
            return Err(failures::too_large(&event.id, longest, bulk_bytes_max));
        }
        let sizes = headers.iter().map(|(name, value)| name.len() + value.len());
        let bytes = stream.len() + event.id.len() + envelope.body.len() + sizes.sum::<usize>();
        let mut command = Cmd::with_capacity(10 + 2 * headers.len(), bytes + 48);
        command.arg("XADD").arg(&*stream);
        if let Some(length) = options.maxlen {
            command.arg("MAXLEN").arg("~").arg(length);
        }
        command.arg("*");
        let mut identified = false;
        for (n, (name, value)) in headers.iter().enumerate() {
            // Readers make a map of the fields, in which the last of a name would count. Ours come first and stay.
            let taken = || headers[..n].iter().any(|(earlier, _)| earlier.eq_ignore_ascii_case(name));
            if OURS.iter().any(|ours| ours.eq_ignore_ascii_case(name)) || taken() {
                continue;
            }
            identified |= name == "ce_id" || name == "postroom-id";
            command.arg(&**name).arg(&**value);
        }
        if !identified {
            command.arg("postroom-id").arg(&event.id);
        }
        let body = if envelope.content_type == STRUCTURED { "event" } else { "data" };
        command.arg(body).arg(&envelope.body[..]);
        Ok(Self { command, bytes })
    }
}

impl std::fmt::Debug for Message {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Message").field("bytes", &self.bytes).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use postroom_core::envelope::{Binding, FieldTable, Format, Part};
    use postroom_core::{Event, JSON, SecretUrl, Template};
    use redis::Arg;
    use tokio::sync::mpsc;

    use super::*;

    fn message(format: Format, maxlen: Option<u64>, event: Event) -> Result<(String, Vec<(String, String)>), Failure> {
        let template = Template::parse("orders.{type}", &[]).unwrap();
        let options = RedisOptions { maxlen, ..RedisOptions::new(SecretUrl::new("redis://h"), template) };
        let (report, _) = mpsc::unbounded_channel();
        let outbound = Outbound::new(1, 3, Arc::new(event), Some(7), report);
        let message = Message::of(&options, &Encoder::new(format, Binding::Redis, "/s"), &outbound, 400)?;
        let words: Vec<String> = message
            .command
            .args_iter()
            .map(|arg| match arg {
                Arg::Simple(bytes) => String::from_utf8(bytes.to_vec()).unwrap(),
                _ => panic!("a cursor"),
            })
            .collect();
        let star = words.iter().position(|word| word == "*").unwrap();
        let fields = words[star + 1..].chunks(2).map(|pair| (pair[0].clone(), pair[1].clone())).collect();
        Ok((words[..=star].join(" "), fields))
    }

    fn event() -> Event {
        Event::new("order.placed").id("e-1").aggregate("order", "o-7").bytes(JSON, "{}")
    }

    fn field<'a>(fields: &'a [(String, String)], name: &str) -> Option<&'a str> {
        let mut found = fields.iter().filter(|(field, _)| field == name).map(|(_, value)| value.as_str());
        let first = found.next();
        assert_eq!(found.next(), None, "{name} stands twice");
        first
    }

    #[test]
    fn every_format_has_its_fields_and_says_the_id() {
        let (start, fields) = message(Format::CloudEventsBinary, None, event()).unwrap();
        assert_eq!(start, "XADD orders.order.placed *");
        for (name, value) in [("ce_id", "e-1"), ("content-type", JSON), ("data", "{}"), ("ce_subject", "o-7")] {
            assert_eq!(field(&fields, name), Some(value));
        }
        assert_eq!(field(&fields, "postroom-id"), None);
        let (_, fields) = message(Format::CloudEventsStructured, None, event()).unwrap();
        assert_eq!(field(&fields, "content-type"), Some(STRUCTURED));
        assert_eq!(field(&fields, "postroom-id"), Some("e-1"));
        assert!(field(&fields, "event").unwrap().contains("\"id\":\"e-1\""));
        let table = FieldTable::new(vec![("kind".to_owned(), Part::parse("type", None).unwrap())]);
        for format in [Format::Raw, Format::Fields(table)] {
            let (_, fields) = message(format, None, event()).unwrap();
            assert_eq!(field(&fields, "postroom-id"), Some("e-1"));
            assert_eq!(field(&fields, "postroom-position"), Some("7"));
            assert!(field(&fields, "data").is_some() && field(&fields, "event").is_none());
        }
    }

    #[test]
    fn what_is_longer_than_the_server_takes_is_refused_for_good() {
        let sized = |bytes: usize| event().bytes(JSON, "x".repeat(bytes));
        assert!(message(Format::Raw, None, sized(400)).is_ok());
        let failure = message(Format::Raw, None, sized(401)).unwrap_err();
        assert_eq!(failure.code, "redis.too_large");
        assert_eq!(message(Format::Raw, None, event().header("x", "y".repeat(401))).unwrap_err(), failure);
    }

    #[test]
    fn a_length_is_kept_approximately() {
        let (start, _) = message(Format::Raw, Some(1000), event()).unwrap();
        assert_eq!(start, "XADD orders.order.placed MAXLEN ~ 1000 *");
    }

    #[test]
    fn an_events_own_headers_come_along_but_override_nothing() {
        let event =
            event().header("x-team", "blue").header("CE_ID", "forged").header("Data", "forged").header("event", "x");
        let (_, fields) = message(Format::CloudEventsBinary, None, event).unwrap();
        assert_eq!(field(&fields, "x-team"), Some("blue"));
        assert!(!fields.iter().any(|(name, value)| value == "forged" || name == "event"), "{fields:?}");
    }

    #[test]
    fn a_name_that_cannot_be_made_is_a_permanent_failure() {
        assert_eq!(message(Format::Raw, None, Event::new("a b")).unwrap_err().code, "template.value");
    }
}
