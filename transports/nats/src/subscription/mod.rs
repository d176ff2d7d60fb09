//! A stream as the subscription of a consumer: a durable pull consumer with explicit acknowledgements.

mod options;
mod session;
mod ticket;

use std::sync::Arc;
use std::time::Duration;

use async_nats::jetstream::consumer::pull::Batch;
use async_nats::jetstream::{self, AckKind};
use futures_util::{FutureExt, StreamExt};
use postroom_consumer::{Arrival, Delivered, OptionsError, Subscription, pause};
use postroom_core::{DeadLetterCause, Failure};
use tokio::sync::{Mutex, Notify, OwnedSemaphorePermit, Semaphore};
use tokio::time::{sleep, timeout};

pub use self::options::NatsSubscriptionOptions;
use self::session::Session;
use self::ticket::Line;
pub use self::ticket::NatsTicket;

/// How long one request for messages stands.
const EXPIRES: Duration = Duration::from_secs(5);
/// How long a goodbye may take.
const GOODBYE: Duration = Duration::from_secs(5);

/// Subscription to a stream.
///
/// Instances with the same durable consumer share its messages. Those of one key go to whoever is free, so their order is
/// only kept while one instance reads.
#[derive(Debug)]
pub struct NatsSubscription {
    options: NatsSubscriptionOptions,
    state: Mutex<State>,
    /// What may still come into our hands.
    places: Arc<Semaphore>,
    /// A connection was made, so requests of the one before are lost.
    connected: Arc<Notify>,
    line: Line,
}

#[derive(Default)]
struct State {
    session: Option<Session>,
    request: Option<Request>,
    /// Sessions in a row that brought no message.
    trouble: u32,
}

/// Messages we asked for, and their places.
struct Request {
    batch: Batch,
    places: Vec<OwnedSemaphorePermit>,
}

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("State").field("trouble", &self.trouble).finish_non_exhaustive()
    }
}

impl NatsSubscription {
    /// Creates a subscription with these options. Connects when it is run.
    pub fn new(options: NatsSubscriptionOptions) -> Result<Self, OptionsError> {
        if options.urls.is_empty() {
            return Err(OptionsError("no URL of a NATS server is given".to_owned()));
        }
        let places = Arc::new(Semaphore::new(usize::from(options.prefetch.max(1))));
        let line = Line::new(options.timeout);
        Ok(Self { options, state: Mutex::default(), places, connected: Arc::default(), line })
    }

    /// Asks for as many as may come.
    async fn ask(&self, session: &Session) -> Result<Request, Failure> {
        let mut places = Vec::new();
        // It is closed by nobody.
        places.extend(Arc::clone(&self.places).acquire_owned().await.ok());
        while let Ok(place) = Arc::clone(&self.places).try_acquire_owned() {
            places.push(place);
        }
        let batch = session.consumer.batch().max_messages(places.len()).expires(EXPIRES).messages().await;
        let batch = batch.map_err(|error| session::unread(&self.options, &error))?;
        Ok(Request { batch, places })
    }

    /// The next of what was asked for; asks, if nothing was. `None` when that has expired, or all have come.
    async fn message(
        &self,
        session: &Session,
        request: &mut Option<Request>,
    ) -> Result<Option<(jetstream::Message, OwnedSemaphorePermit)>, Failure> {
        let asked = match request {
            Some(asked) => asked,
            None => request.insert(self.ask(session).await?),
        };
        let message = tokio::select! {
            message = asked.batch.next() => message,
            () = self.connected.notified() => None,
        };
        match (message, asked.places.pop()) {
            (Some(Ok(message)), Some(place)) => Ok(Some((message, place))),
            (Some(Err(error)), _) => Err(session::unread(&self.options, &error)),
            _ => {
                *request = None;
                Ok(None)
            }
        }
    }
}

impl Subscription for NatsSubscription {
    type Ticket = NatsTicket;

    async fn next(&self) -> Arrival<NatsTicket> {
        let mut state = self.state.lock().await;
        let State { session, request, trouble } = &mut *state;
        loop {
            let Some(open) = session else {
                if *trouble > 0 {
                    sleep(pause(*trouble)).await;
                }
                *trouble += 1;
                match Session::open(&self.options, &self.connected).await {
                    Ok(open) => {
                        self.line.set(open.jetstream.clone());
                        *session = Some(open);
                    }
                    Err(failure) => complain(&self.options, &failure),
                }
                continue;
            };
            let found = tokio::select! {
                // Also while no place is free; that it was lost has been said.
                () = open.over.cancelled() => {
                    (*request, *session) = (None, None);
                    continue;
                }
                found = self.message(open, request) => found,
            };
            match found {
                Ok(Some((message, place))) => {
                    *trouble = 0;
                    let (wire, ticket) = ticket::taken(message, place, open.ack_wait, &self.line);
                    return Arrival::Message(Delivered { lane: None, wire, ticket });
                }
                Ok(None) => {}
                Err(failure) => {
                    complain(&self.options, &failure);
                    (*request, *session) = (None, None);
                }
            }
        }
    }

    async fn ack(&self, ticket: &NatsTicket) {
        ticket.say(AckKind::Ack).await;
    }

    async fn publish_dead_letter(
        &self,
        ticket: &NatsTicket,
        consumer: &str,
        dead_letter: &DeadLetterCause,
    ) -> Result<(), Failure> {
        ticket.copy_to(&self.options.dead_subject, consumer, dead_letter).await?;
        ticket.say(AckKind::Term).await;
        Ok(())
    }

    async fn release(&self, ticket: NatsTicket) {
        ticket.say(AckKind::Nak(None)).await;
    }

    async fn close(self) {
        let State { session, request, .. } = self.state.into_inner();
        let goodbye = async {
            if let Some(mut asked) = request {
                // What has come since nobody looked any more.
                while let Some(Some(Ok(message))) = asked.batch.next().now_or_never() {
                    let _ = message.ack_with(AckKind::Nak(None)).await;
                }
            }
            if let Some(session) = session {
                let _ = session.jetstream.client().flush().await;
            }
        };
        let _ = timeout(GOODBYE, goodbye).await;
    }
}

fn complain(options: &NatsSubscriptionOptions, failure: &Failure) {
    tracing::warn!(
        target: crate::LOG, stream = options.stream, consumer = options.durable, code = &*failure.code,
        error = failure.error, "stream cannot be read"
    );
}
