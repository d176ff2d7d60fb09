//! A message in our hands: the server is told that it is worked on for as long as it is.

use std::error::Error as _;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_nats::header::NATS_MESSAGE_ID;
use async_nats::jetstream::context::{PublishError, PublishErrorKind};
use async_nats::jetstream::{self, AckKind, Context, ErrorCode};
use async_nats::{HeaderMap, HeaderValue, Subject};
use bytes::Bytes;
use postroom_consumer::{Wire, reason_headers};
use postroom_core::{DeadLetterCause, Failure};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{sleep, timeout};
use tokio_util::task::AbortOnDropHandle;

/// A whole message, or only its headers.
const TOO_LARGE: [ErrorCode; 2] = [ErrorCode::STREAM_MESSAGE_EXCEEDS_MAXIMUM, ErrorCode::STREAM_HEADER_EXCEEDS_MAXIMUM];

/// How the server is reached: through the session of now, whichever a message came by.
#[derive(Debug, Clone)]
pub(super) struct Line {
    now: Arc<Mutex<Option<Context>>>,
    /// How long anything may take. A client without a connection takes what it is given, until it has no room.
    limit: Duration,
}

impl Line {
    pub(super) fn new(limit: Duration) -> Self {
        Self { now: Arc::default(), limit }
    }

    pub(super) fn set(&self, context: Context) {
        *self.now.lock().unwrap_or_else(PoisonError::into_inner) = Some(context);
    }

    fn now(&self) -> Option<Context> {
        self.now.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Says something about the message that is answered there.
    async fn say(&self, reply: Option<Subject>, kind: AckKind) {
        let Some(context) = self.now() else { return };
        let acker = jetstream::message::Acker::new(context, reply);
        if !matches!(timeout(self.limit, acker.ack_with(kind)).await, Ok(Ok(()))) {
            tracing::debug!(target: crate::LOG, "acknowledgement could not be sent");
        }
    }
}

/// Ticket of a message that waits for its acknowledgement.
pub struct NatsTicket {
    line: Line,
    /// Where the server hears about it.
    reply: Option<Subject>,
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
    line: &Line,
) -> (Wire, NatsTicket) {
    let (deliveries, place) = match message.info() {
        Ok(info) => (u64::try_from(info.delivered).ok(), format!("{}/{}", info.stream, info.stream_sequence)),
        Err(_) => (None, String::new()),
    };
    let async_nats::Message { reply, headers, payload: body, .. } = message.message;
    let headers = headers.unwrap_or_default();
    let mut texts = Vec::new();
    for (name, values) in headers.iter() {
        texts.extend(values.first().map(|value| (name.to_string(), value.to_string())));
    }
    let wire = Wire { headers: texts, body: body.clone(), is_percent_encoded: true, deliveries, ..Wire::default() };
    let alive = AbortOnDropHandle::new(tokio::spawn({
        let (line, reply) = (line.clone(), reply.clone());
        async move {
            loop {
                sleep(ack_wait / 3).await;
                // If it does not get through, another one gets the message, too, and finds that it was done.
                line.say(reply.clone(), AckKind::Progress).await;
            }
        }
    }));
    (wire, NatsTicket { line: line.clone(), reply, headers, body, place, _alive: alive, _permit: permit })
}

impl NatsTicket {
    /// Tells the server. What does not get through comes again, and is known then.
    pub(super) async fn say(&self, kind: AckKind) {
        self.line.say(self.reply.clone(), kind).await;
    }

    /// Puts a copy with why it died under another subject, and waits until a stream has it.
    pub(super) async fn copy_to(
        &self,
        subject: &str,
        consumer: &str,
        dead_letter: &DeadLetterCause,
    ) -> Result<(), Failure> {
        let bare = self.headers();
        let mut headers = bare.clone();
        for (name, value) in reason_headers(consumer, dead_letter) {
            headers.insert(name, HeaderValue::from(value.replace(['\r', '\n'], " ")));
        }
        if !self.place.is_empty() {
            headers.insert(NATS_MESSAGE_ID, HeaderValue::from(format!("{consumer}/{}", self.place)));
        }
        let refused = |error: &dyn fmt::Display| {
            Failure::unavailable("nats.dead_letters", format!("no stream takes a dead letter as {subject}: {error}"))
        };
        let context = self.line.now().ok_or_else(|| refused(&"there is no connection"))?;
        let publish = async |headers| {
            context.publish_with_headers(subject.to_owned(), headers, self.body.clone()).await?.await.map(drop)
        };
        let taken = async {
            match publish(headers).await {
                // It was as large as may be already. Why it died is in the log.
                Err(error) if is_too_large(&error) => publish(bare).await,
                taken => taken,
            }
        };
        match timeout(self.line.limit, taken).await {
            Ok(taken) => taken.map_err(|error| refused(&error)),
            Err(_) => Err(refused(&"no answer")),
        }
    }

    /// What a dead letter keeps; never more than there was.
    fn headers(&self) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, values) in self.headers.iter() {
            // Those steer the server.
            let steers = name.to_string().get(..5).is_some_and(|start| start.eq_ignore_ascii_case("nats-"));
            for value in values.iter().filter(|_| !steers) {
                headers.append(name.clone(), value.clone());
            }
        }
        let named = ["ce-id", "postroom-id"].iter().any(|name| headers.get(*name).is_some());
        if let Some(id) = self.headers.get(NATS_MESSAGE_ID).filter(|_| !named) {
            headers.insert("postroom-id", id.clone());
        }
        headers
    }
}

/// For the server, or for the stream.
fn is_too_large(error: &PublishError) -> bool {
    let said = error.source().and_then(|source| source.downcast_ref::<jetstream::Error>());
    error.kind() == PublishErrorKind::MaxPayloadExceeded
        || said.is_some_and(|said| TOO_LARGE.contains(&said.error_code()))
}

/// Without what is in it.
impl fmt::Debug for NatsTicket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NatsTicket").field("place", &self.place).finish_non_exhaustive()
    }
}
