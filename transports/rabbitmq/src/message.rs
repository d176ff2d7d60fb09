//! An event as RabbitMQ wants it: routing key, properties, headers, body. Refuses what no broker could take.

use std::borrow::Cow;
use std::collections::HashSet;

use bytes::BytesMut;
use postroom_core::envelope::{Encoder, Envelope, Header};
use postroom_core::{Event, Failure, Outbound};

use crate::failures;
use crate::options::RabbitMqOptions;
use crate::wire::SHORT_BYTES_MAX;
use crate::wire::encode::{self, Properties};

/// Headers that RabbitMQ takes for further routing keys. Data must not decide where an event goes.
const ROUTES: [&str; 2] = ["CC", "BCC"];

/// A delivery, ready to be published.
#[derive(Debug)]
pub(crate) struct Message<'a> {
    event: &'a Event,
    routing_key: Cow<'a, str>,
    envelope: Envelope<'a>,
    encoder: &'a Encoder,
}

impl<'a> Message<'a> {
    /// Encodes the event, if a broker could take it.
    pub(crate) fn of(
        outbound: &'a Outbound,
        options: &'a RabbitMqOptions,
        encoder: &'a Encoder,
    ) -> Result<Self, Failure> {
        let event = &*outbound.event;
        let routing_key = options.routing_key.render(event)?;
        if routing_key.len() > SHORT_BYTES_MAX {
            return Err(failures::routing_key(&event.id, routing_key.len()));
        }
        let mut envelope = encoder.encode(event, outbound.stage())?;
        let texts = [
            ("content type", &*envelope.content_type),
            ("correlation id", event.correlation()),
            ("id", &event.id),
            ("type", &event.event_type),
        ];
        if let Some((what, text)) = texts.into_iter().find(|(_, text)| text.len() > SHORT_BYTES_MAX) {
            return Err(failures::header(&event.id, &format!("its {what} has {} bytes, 255 are possible", text.len())));
        }
        for (name, _) in &envelope.headers {
            if name.is_empty() || name.len() > SHORT_BYTES_MAX {
                let what = format!("the name of a header has {} bytes, 1 to 255 are possible", name.len());
                return Err(failures::header(&event.id, &what));
            }
            if ROUTES.contains(&&**name) {
                let what = format!("RabbitMQ takes the header {name} for routing keys; rename it");
                return Err(failures::header(&event.id, &what));
            }
        }
        first_of_each_name(&mut envelope.headers, event);
        Ok(Self { event, routing_key, envelope, encoder })
    }

    pub(crate) fn routing_key(&self) -> &str {
        &self.routing_key
    }

    pub(crate) fn body_bytes(&self) -> usize {
        self.envelope.body.len()
    }

    /// Writes its frames; the failure leaves nothing behind.
    pub(crate) fn write(&self, out: &mut BytesMut, exchange: &str, frame_max: usize) -> Result<(), Failure> {
        let event = self.event;
        let names = self.envelope.headers.iter().map(|(name, _)| &**name);
        let numbers: Vec<&str> = names.filter(|name| self.encoder.is_number(name)).collect();
        let properties = Properties {
            content_type: &self.envelope.content_type,
            headers: &self.envelope.headers,
            numbers: &numbers,
            correlation_id: event.correlation(),
            message_id: &event.id,
            timestamp: u64::try_from(event.occurred_at.as_second()).ok(),
            event_type: &event.event_type,
        };
        encode::publish(out, exchange, &self.routing_key, &properties, &self.envelope.body, frame_max).ok_or_else(
            || failures::header(&event.id, &format!("its headers do not fit into a frame of {frame_max} bytes")),
        )
    }
}

/// A delivery that was published.
#[derive(Debug)]
pub(crate) struct Sent {
    pub(crate) outbound: Outbound,
    pub(crate) body_bytes: usize,
}

impl Sent {
    /// The event's id, which is the message's.
    pub(crate) fn id(&self) -> &str {
        &self.outbound.event.id
    }
}

/// The first of a name counts, and a table has each once. Ours never repeat a name, so only the event's own can.
fn first_of_each_name(headers: &mut Vec<Header<'_>>, event: &Event) {
    if event.headers.is_empty() {
        return;
    }
    let mut seen = HashSet::new();
    headers.retain(|(name, _)| !event.headers.contains_key(&**name) || seen.insert(name.clone()));
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use postroom_core::envelope::{Binding, Format};
    use postroom_core::{FailureKind, SecretUrl, Template};
    use tokio::sync::mpsc;

    use super::*;

    /// What `look` sees of the message.
    fn made<T>(event: Event, look: impl FnOnce(&Message<'_>) -> T) -> Result<T, Failure> {
        let (report, _) = mpsc::unbounded_channel();
        let key = Template::parse("{aggregate_type}.{type}", &[]).unwrap();
        let options = RabbitMqOptions::new(SecretUrl::new("amqp://localhost"), "orders", key);
        let encoder = Encoder::new(Format::CloudEventsBinary, Binding::Amqp, "/s");
        let outbound = Outbound::new(1, 1, Arc::new(event), Some(7), report);
        Message::of(&outbound, &options, &encoder).map(|message| look(&message))
    }

    fn event() -> Event {
        Event::new("placed").id("e-1").aggregate("order", "o-1")
    }

    #[test]
    fn an_event_cannot_pretend_to_be_another_by_its_headers() {
        let look = |message: &Message<'_>| {
            let headers = &message.envelope.headers;
            let of = |name: &str| headers.iter().filter(|(n, _)| n == name).map(|(_, v)| &**v).collect::<Vec<_>>();
            assert_eq!((of("ce-id"), of("trace"), of("postroom-position")), (vec!["e-1"], vec!["t"], vec!["7"]));
        };
        made(event().header("ce-id", "other").header("trace", "t"), look).unwrap();
    }

    #[test]
    fn what_no_broker_could_take_is_refused_for_good() {
        for (event, code) in [
            (event().aggregate("x".repeat(250), "o-1"), "rabbitmq.routing_key"),
            (Event::new("placed").id("e-1"), "template.missing"),
            (event().header("CC", "another.key"), "rabbitmq.header"),
            (event().header("BCC", "another.key"), "rabbitmq.header"),
            (event().header("n".repeat(256), "v"), "rabbitmq.header"),
            (event().header("", "v"), "rabbitmq.header"),
            (event().bytes("x".repeat(256), "{}"), "rabbitmq.header"),
        ] {
            let failure = made(event, |_| ()).unwrap_err();
            assert_eq!((failure.kind, &*failure.code), (FailureKind::Permanent, code), "{}", failure.error);
        }
    }

    #[test]
    fn headers_that_fill_more_than_a_frame_are_refused_for_good() {
        let look = |message: &Message<'_>| {
            let mut out = BytesMut::new();
            let failure = message.write(&mut out, "orders", 4096).unwrap_err();
            assert_eq!((failure.kind, &*failure.code), (FailureKind::Permanent, "rabbitmq.header"));
            assert!(out.is_empty() && message.write(&mut out, "orders", 8192).is_ok());
        };
        made(event().header("large", "v".repeat(5000)), look).unwrap();
    }
}
