//! A queue as the subscription of a consumer: manual acknowledgements, and a connection that is opened again when it is lost.

mod dead_letters;
mod options;
mod session;

use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt;
use lapin::options::{BasicAckOptions, BasicNackOptions, BasicRejectOptions};
use lapin::{Acker, BasicProperties};
use postroom_consumer::{Arrival, Delivered, OptionsError, Revoked, Subscription, pause};
use postroom_core::{DeadLetterCause, Failure};
use tokio::sync::Mutex;
use tokio::time::{sleep, timeout};

use self::dead_letters::DeadLetterPublisher;
pub use self::options::{DeadLetters, RabbitMqSubscriptionOptions};
use self::session::Session;
use crate::address::Address;

/// How long a goodbye may take.
const GOODBYE: Duration = Duration::from_secs(5);

/// Subscription to a queue.
///
/// Several consumers of one queue share its messages. Those of one key go to whoever is free, so their order is only kept
/// while one instance reads the queue, or with a queue that has a single active consumer.
#[derive(Debug)]
pub struct RabbitMqSubscription {
    options: RabbitMqSubscriptionOptions,
    address: Address,
    state: Mutex<State>,
    dead_letters: DeadLetterPublisher,
}

#[derive(Debug, Default)]
struct State {
    session: Option<Session>,
    /// Connections in a row that brought no message.
    trouble: u32,
}

/// Ticket of a message that waits for its acknowledgement.
#[derive(Debug)]
pub struct RabbitMqTicket {
    acker: Acker,
    properties: BasicProperties,
    body: Bytes,
}

impl RabbitMqSubscription {
    /// Creates a subscription with these options. Connects when it is run.
    pub fn new(options: RabbitMqSubscriptionOptions) -> Result<Self, OptionsError> {
        let address = Address::parse(&options.url).map_err(|error| OptionsError(error.to_string()))?;
        if options.dead == DeadLetters::Queue(options.queue.clone()) {
            let error = format!("queue {} cannot be the one for its own dead letters", options.queue);
            return Err(OptionsError(error));
        }
        Ok(Self { options, address, state: Mutex::default(), dead_letters: DeadLetterPublisher::default() })
    }
}

impl Subscription for RabbitMqSubscription {
    type Ticket = RabbitMqTicket;

    async fn next(&self) -> Arrival<RabbitMqTicket> {
        let mut state = self.state.lock().await;
        let State { session, trouble } = &mut *state;
        loop {
            let Some(open) = session.as_mut() else {
                if *trouble > 0 {
                    sleep(pause(*trouble)).await;
                }
                *trouble += 1;
                match Session::open(&self.address, &self.options).await {
                    Ok(open) => *session = Some(open),
                    Err(failure) => {
                        tracing::warn!(
                            target: crate::LOG, queue = self.options.queue, code = &*failure.code,
                            error = failure.error, "the queue cannot be read"
                        );
                    }
                }
                continue;
            };
            let error = match open.consumer.next().await {
                Some(Ok(delivery)) => {
                    *trouble = 0;
                    let (wire, body) = session::wire(&delivery.properties, delivery.data, delivery.redelivered);
                    let ticket = RabbitMqTicket { acker: delivery.acker, properties: delivery.properties, body };
                    return Arrival::Message(Delivered { lane: None, wire, ticket });
                }
                Some(Err(error)) => error.to_string(),
                None => "the broker has cancelled the consumer".to_owned(),
            };
            tracing::warn!(target: crate::LOG, queue = self.options.queue, error, "queue lost");
            *session = None;
            // Whatever was not acknowledged is delivered anew, by numbers of another channel.
            return Arrival::Revoked(Revoked::All);
        }
    }

    async fn ack(&self, ticket: &RabbitMqTicket) {
        noted(ticket.acker.ack(BasicAckOptions::default()).await);
    }

    async fn publish_dead_letter(
        &self,
        ticket: &RabbitMqTicket,
        consumer: &str,
        dead_letter: &DeadLetterCause,
    ) -> Result<(), Failure> {
        match &self.options.dead {
            DeadLetters::Exchange => {
                match ticket.acker.reject(BasicRejectOptions { requeue: false }).await {
                    Ok(true) => Ok(()),
                    // Nothing was sent: the message is delivered anew.
                    Ok(false) => Err(session::lost(&self.address, &"the channel is gone")),
                    Err(error) => Err(session::lost(&self.address, &error)),
                }
            }
            DeadLetters::Queue(queue) => {
                let letter = dead_letters::letter(ticket, consumer, dead_letter);
                self.dead_letters.lay(&self.address, &self.options, queue, letter).await?;
                self.ack(ticket).await;
                Ok(())
            }
        }
    }

    async fn release(&self, ticket: RabbitMqTicket) {
        noted(ticket.acker.nack(BasicNackOptions { requeue: true, multiple: false }).await);
    }

    async fn close(self) {
        // It is answered when everything before it was seen to.
        if let Some(session) = self.state.into_inner().session {
            let _ = timeout(GOODBYE, session.connection.close(200, "done".into())).await;
        }
        let _ = timeout(GOODBYE, self.dead_letters.close()).await;
    }
}

/// What does not get through comes again, and is known then.
fn noted(result: Result<bool, lapin::Error>) {
    if let Err(error) = result {
        tracing::debug!(target: crate::LOG, %error, "acknowledgement could not be sent");
    }
}
