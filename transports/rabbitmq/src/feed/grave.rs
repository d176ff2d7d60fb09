//! Where messages go that were given up: a queue, by confirmed publishes.
//!
//! One at a time. lapin 4.12 may give a message that came back to another one that was confirmed with it; alone, it is its
//! own.

use lapin::options::{BasicPublishOptions, ConfirmSelectOptions};
use lapin::types::AMQPValue;
use lapin::{BasicProperties, Channel, Confirmation, Connection};
use postroom_consumer::reason_headers;
use postroom_core::{Burial, Failure};
use tokio::sync::Mutex;
use tokio::time::timeout;

use super::{RabbitMqFeedOptions, RabbitMqTicket, session};
use crate::address::Address;
use crate::failures;

/// Survives a restart of the broker.
const PERSISTENT: u8 = 2;

/// A connection of its own, opened with the first dead letter: a blocked publisher must not hold up who reads.
#[derive(Debug, Default)]
pub(super) struct Grave(Mutex<Option<(Connection, Channel)>>);

/// A message with why it died.
#[derive(Debug)]
pub(super) struct Letter<'a> {
    properties: BasicProperties,
    body: &'a [u8],
}

pub(super) fn letter<'a>(ticket: &'a RabbitMqTicket, consumer: &str, burial: &Burial) -> Letter<'a> {
    let mut headers = ticket.properties.headers().clone().unwrap_or_default();
    for (name, value) in reason_headers(consumer, burial) {
        headers.insert(name.into(), AMQPValue::LongString(value.into()));
    }
    let properties = ticket.properties.clone().with_headers(headers).with_delivery_mode(PERSISTENT);
    Letter { properties, body: &ticket.body }
}

impl Grave {
    pub(super) async fn lay(
        &self,
        address: &Address,
        options: &RabbitMqFeedOptions,
        queue: &str,
        letter: Letter<'_>,
    ) -> Result<(), Failure> {
        let mut open = self.0.lock().await;
        let confirmed = async {
            let channel = match open.take() {
                Some((_, channel)) if !channel.status().connected() => self::open(address, options).await?,
                Some(opened) => opened,
                None => self::open(address, options).await?,
            };
            let confirmed = publish(&channel.1, queue, letter).await.map_err(|error| session::lost(address, &error))?;
            // Kept only after an answer, so that none that comes late is taken for the next one's.
            *open = Some(channel);
            Ok::<_, Failure>(confirmed)
        };
        let Ok(confirmed) = timeout(options.timeout, confirmed).await else {
            return Err(failures::no_answer(address, options.timeout));
        };
        match confirmed? {
            Confirmation::Ack(None) => Ok(()),
            Confirmation::Ack(Some(_)) => {
                Err(Failure::unavailable("rabbitmq.no_dead_letters", format!("there is no queue {queue}; declare it")))
            }
            Confirmation::Nack(_) | Confirmation::NotRequested => {
                Err(Failure::unavailable("rabbitmq.no_dead_letters", format!("queue {queue} takes nothing now")))
            }
        }
    }

    pub(super) async fn close(self) {
        if let Some((connection, _)) = self.0.into_inner() {
            let _ = connection.close(200, "done".into()).await;
        }
    }
}

async fn open(address: &Address, options: &RabbitMqFeedOptions) -> Result<(Connection, Channel), Failure> {
    let connection = session::connect(address, options).await?;
    let channel = async {
        let channel = connection.create_channel().await?;
        channel.confirm_select(ConfirmSelectOptions::default()).await?;
        Ok::<_, lapin::Error>(channel)
    };
    let channel = channel.await.map_err(|error| session::lost(address, &error))?;
    Ok((connection, channel))
}

async fn publish(channel: &Channel, queue: &str, letter: Letter<'_>) -> Result<Confirmation, lapin::Error> {
    // The default exchange takes the name of a queue.
    let options = BasicPublishOptions { mandatory: true, ..BasicPublishOptions::default() };
    channel.basic_publish("".into(), queue.into(), options, letter.body, letter.properties).await?.await
}
