//! An event as JetStream wants it: subject, headers, body. Refuses what no server could ever take.

use async_nats::header::{NATS_EXPECTED_STREAM, NATS_MESSAGE_ID};
use async_nats::{HeaderMap, HeaderName, HeaderValue, Subject};
use bytes::Bytes;
use postroom_core::envelope::Encoder;
use postroom_core::{Failure, Outbound};

use crate::options::NatsOptions;

/// Longest subject. A server cuts the connection at a command line over 4096 bytes, in which two sizes and our inbox
/// stand, too.
const SUBJECT_BYTES_MAX: usize = 3072;

/// What is published.
#[derive(Debug)]
pub(crate) struct Message {
    pub(crate) subject: Subject,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Message {
    /// The message of one delivery.
    pub(crate) fn of(
        route: &str,
        options: &NatsOptions,
        encoder: &Encoder,
        outbound: &Outbound,
    ) -> Result<Self, Failure> {
        let event = &outbound.event;
        let subject = subject(options.subject.render(event)?.into_owned(), &event.id)?;
        let envelope = encoder.encode(event, outbound.stage())?;
        let mut headers = HeaderMap::new();
        // The attempt is no part of it, or a second attempt would not be known for one.
        let id = if options.stream_is_shared { format!("{route}/{}", event.id) } else { event.id.clone() };
        headers.insert(NATS_MESSAGE_ID, value(id, "Nats-Msg-Id", &event.id)?);
        if let Some(stream) = &options.stream {
            headers.insert(NATS_EXPECTED_STREAM, stream.as_str());
        }
        let mut identified = false;
        for (n, (name, text)) in envelope.headers.iter().enumerate() {
            // Those steer the server. And ours come first: nobody overrides them, in whatever case.
            let steers = name.get(..5).is_some_and(|start| start.eq_ignore_ascii_case("nats-"));
            let taken = || envelope.headers[..n].iter().any(|(earlier, _)| earlier.eq_ignore_ascii_case(name));
            if steers || taken() {
                continue;
            }
            let parsed = name.parse::<HeaderName>().map_err(|_| unfit(name, "name", &event.id))?;
            headers.insert(parsed, value(text.to_string(), name, &event.id)?);
            identified |= name == "ce-id" || name == "postroom-id";
        }
        if !identified {
            headers.insert("postroom-id", event.id.as_str());
        }
        Ok(Self { subject, headers, body: envelope.body })
    }
}

fn value(text: String, name: &str, id: &str) -> Result<HeaderValue, Failure> {
    if text.contains(['\r', '\n']) {
        return Err(unfit(name, "value", id));
    }
    Ok(HeaderValue::from(text))
}

fn unfit(name: &str, what: &str, id: &str) -> Failure {
    let error = format!("the {what} of header {name:?} of event {id} cannot be sent: it has a character that ends it");
    Failure::permanent("nats.header", error)
}

fn subject(subject: String, id: &str) -> Result<Subject, Failure> {
    let wrong = if subject.len() > SUBJECT_BYTES_MAX {
        "is longer than 3072 bytes"
    } else if subject.split('.').any(str::is_empty) {
        "has an empty part"
    } else if subject.contains(|c: char| c.is_whitespace() || c.is_control() || matches!(c, '*' | '>')) {
        "has white space or a wildcard in it"
    } else if subject.starts_with('$') || subject.starts_with("_INBOX.") {
        "is one of the server's own"
    } else {
        return Ok(Subject::from(subject));
    };
    let shown: String = subject.chars().take(200).collect();
    Err(Failure::permanent("nats.subject", format!("the subject {shown:?} of event {id} {wrong}")))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use postroom_core::envelope::{Binding, Format};
    use postroom_core::{Event, FailureKind, JSON, SecretUrl, Template};
    use tokio::sync::mpsc;

    use super::*;

    fn options(subject: &str) -> NatsOptions {
        NatsOptions {
            stream: Some("ORDERS".to_owned()),
            ..NatsOptions::new(vec![SecretUrl::new("nats://h")], Template::parse(subject, &[]).unwrap())
        }
    }

    fn message(format: Format, subject: &str, event: Event) -> Result<Message, Failure> {
        message_of(&options(subject), format, event)
    }

    fn message_of(options: &NatsOptions, format: Format, event: Event) -> Result<Message, Failure> {
        let (report, _) = mpsc::unbounded_channel();
        let outbound = Outbound::new(1, 3, Arc::new(event), Some(7), report);
        Message::of("shop", options, &Encoder::new(format, Binding::Nats, "/s"), &outbound)
    }

    fn header(message: &Message, name: &str) -> Option<String> {
        let mut all = message.headers.get_all(name);
        let first = all.next().map(|value| value.as_str().to_owned());
        assert!(all.next().is_none(), "{name} stands twice");
        first
    }

    fn event() -> Event {
        Event::new("order.placed").id("e-1").aggregate("order", "o-7").bytes(JSON, "{}")
    }

    #[test]
    fn every_format_names_id_and_stream_in_headers_the_server_reads() {
        for format in [Format::CloudEventsBinary, Format::CloudEventsStructured, Format::Raw] {
            let message = message(format.clone(), "orders.{type}", event()).unwrap();
            assert_eq!(message.subject.as_str(), "orders.order.placed");
            assert_eq!(header(&message, "Nats-Msg-Id").as_deref(), Some("e-1"), "{format:?}");
            assert_eq!(header(&message, "Nats-Expected-Stream").as_deref(), Some("ORDERS"), "{format:?}");
        }
        let binary = message(Format::CloudEventsBinary, "x", event()).unwrap();
        assert_eq!(header(&binary, "ce-id").as_deref(), Some("e-1"));
        assert_eq!(header(&binary, "postroom-id"), None);
        let structured = message(Format::CloudEventsStructured, "x", event()).unwrap();
        assert_eq!(header(&structured, "postroom-id").as_deref(), Some("e-1"));
        assert_eq!(header(&binary, "ce-datacontenttype").as_deref(), Some(JSON));
    }

    #[test]
    fn where_several_routes_meet_an_id_carries_its_route() {
        let shared = NatsOptions { stream_is_shared: true, ..options("x") };
        let message = message_of(&shared, Format::CloudEventsBinary, event()).unwrap();
        assert_eq!(header(&message, "Nats-Msg-Id").as_deref(), Some("shop/e-1"));
        assert_eq!(header(&message, "ce-id").as_deref(), Some("e-1"));
    }

    #[test]
    fn an_events_own_headers_come_along_but_steer_and_override_nothing() {
        let event = event()
            .header("x-team", "blue")
            .header("CE-ID", "forged")
            .header("Nats-Rollup", "all")
            .header("nats-msg-id", "forged")
            .header("NATS-Expected-Last-Sequence", "0");
        let message = message(Format::CloudEventsBinary, "x", event).unwrap();
        assert_eq!(header(&message, "x-team").as_deref(), Some("blue"));
        assert_eq!(header(&message, "ce-id").as_deref(), Some("e-1"));
        let names: Vec<&str> = message.headers.iter().map(|(name, _)| name.as_ref()).collect();
        let steering = names.iter().filter(|name| name.to_lowercase().starts_with("nats-")).count();
        assert_eq!(steering, 2, "{names:?}");
        assert!(!names.contains(&"CE-ID"));
    }

    #[test]
    fn what_would_end_a_header_is_refused_for_good_without_quoting_it() {
        for event in
            [event().header("x", "a\r\ncanary"), event().header("x\ny", "canary"), event().header("x:y", "canary")]
        {
            let failure = message(Format::Raw, "x", event).unwrap_err();
            assert_eq!((failure.kind, &*failure.code), (FailureKind::Permanent, "nats.header"));
            assert!(!failure.error.contains("canary") && failure.error.contains("e-1"), "{}", failure.error);
        }
        assert_eq!(message(Format::Raw, "x", event().id("a\nb")).unwrap_err().code, "nats.header");
    }

    #[test]
    fn a_subject_that_cannot_be_is_refused_for_good() {
        let long = "x".repeat(SUBJECT_BYTES_MAX + 1);
        for subject in
            ["a..b", ".a", "a.", "a b", "a.*", "a.>", "$JS.API.STREAM.PURGE.X", "_INBOX.x", "a\u{a0}b", &long]
        {
            let failure = message(Format::Raw, subject, event()).unwrap_err();
            assert_eq!((failure.kind, &*failure.code), (FailureKind::Permanent, "nats.subject"), "{subject}");
            assert!(failure.error.len() < 400);
        }
        assert_eq!(message(Format::Raw, "{tenant}.x", event().tenant("$JS")).unwrap_err().code, "nats.subject");
        assert_eq!(message(Format::Raw, "{tenant}.x", event()).unwrap_err().code, "template.missing");
        assert!(message(Format::Raw, &"x".repeat(SUBJECT_BYTES_MAX), event()).is_ok());
    }
}
