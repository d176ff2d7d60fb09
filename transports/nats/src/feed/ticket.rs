//! A message in our hands: the server is told that it is worked on for as long as it is.

use std::fmt;
use std::time::Duration;

use async_nats::header::NATS_MESSAGE_ID;
use async_nats::jetstream::{self, AckKind, Context};
use async_nats::{HeaderMap, HeaderValue};
use bytes::Bytes;
use postroom_consumer::{Wire, reason_headers};
use postroom_core::{Burial, Failure};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::sleep;
use tokio_util::task::AbortOnDropHandle;

/// A message that waits for its acknowledgement.
pub struct NatsTicket {
    acker: jetstream::message::Acker,
    context: Context,
    headers: HeaderMap,
    body: Bytes,
    /// Where it is in the stream: what a second copy of a dead letter is known by.
    place: String,
    _alive: AbortOnDropHandle<()>,
    _permit: OwnedSemaphorePermit,
}

/// What the message says, and what the server knows it by.
pub(super) fn taken(
    message: jetstream::Message,
    permit: OwnedSemaphorePermit,
    ack_wait: Duration,
) -> (Wire, NatsTicket) {
    let (deliveries, place) = match message.info() {
        Ok(info) => (u64::try_from(info.delivered).ok(), format!("{}/{}", info.stream, info.stream_sequence)),
        Err(_) => (None, String::new()),
    };
    let context = message.context.clone();
    let alive = jetstream::message::Acker::new(context.clone(), message.reply.clone());
    let (message, acker) = message.split();
    let headers = message.headers.unwrap_or_default();
    let mut texts = Vec::new();
    for (name, values) in headers.iter() {
        texts.extend(values.first().map(|value| (name.to_string(), value.to_string())));
    }
    let wire =
        Wire { headers: texts, body: message.payload.clone(), is_percent_encoded: true, deliveries, ..Wire::default() };
    let alive = AbortOnDropHandle::new(tokio::spawn(async move {
        loop {
            sleep(ack_wait / 3).await;
            // If it does not get through, another one gets the message, too, and finds that it was done.
            let _ = alive.ack_with(AckKind::Progress).await;
        }
    }));
    let body = message.payload;
    (wire, NatsTicket { acker, context, headers, body, place, _alive: alive, _permit: permit })
}

impl NatsTicket {
    /// Tells the server. What does not get through comes again, and is known then.
    pub(super) async fn say(&self, kind: AckKind) {
        if let Err(error) = self.acker.ack_with(kind).await {
            tracing::debug!(target: crate::LOG, %error, "an acknowledgement did not get through");
        }
    }

    /// Puts a copy with why it died under another subject, and waits until a stream has it.
    pub(super) async fn copy_to(&self, subject: &str, consumer: &str, burial: &Burial) -> Result<(), Failure> {
        let mut headers = HeaderMap::new();
        for (name, values) in self.headers.iter() {
            // Those steer the server.
            let steers = name.to_string().get(..5).is_some_and(|start| start.eq_ignore_ascii_case("nats-"));
            for value in values.iter().filter(|_| !steers) {
                headers.append(name.clone(), value.clone());
            }
        }
        for (name, value) in reason_headers(consumer, burial) {
            headers.insert(name, HeaderValue::from(value.replace(['\r', '\n'], " ")));
        }
        let named = ["ce-id", "postroom-id"].iter().any(|name| headers.get(*name).is_some());
        if let Some(id) = self.headers.get(NATS_MESSAGE_ID).filter(|_| !named) {
            headers.insert("postroom-id", id.clone());
        }
        if !self.place.is_empty() {
            headers.insert(NATS_MESSAGE_ID, HeaderValue::from(format!("{consumer}/{}", self.place)));
        }
        let refused = |error: &dyn fmt::Display| {
            Failure::unavailable("nats.dead_letters", format!("no stream takes a dead letter as {subject}: {error}"))
        };
        let sent = self.context.publish_with_headers(subject.to_owned(), headers, self.body.clone()).await;
        sent.map_err(|error| refused(&error))?.await.map(drop).map_err(|error| refused(&error))
    }
}

/// Without what is in it.
impl fmt::Debug for NatsTicket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NatsTicket").field("place", &self.place).finish_non_exhaustive()
    }
}
