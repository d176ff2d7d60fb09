//! Where messages go that were given up: a queue, by confirmed publishes.
//!
//! One at a time. lapin 4.12 may give a message that came back to another one that was confirmed with it; alone, it is its
//! own.

use lapin::options::{BasicPublishOptions, ConfirmSelectOptions};
use lapin::types::{AMQPValue, FieldTable, ShortString};
use lapin::{BasicProperties, Channel, Confirmation, Connection};
use postroom_consumer::reason_headers;
use postroom_core::{DeadLetterCause, Failure};
use tokio::sync::Mutex;
use tokio::time::timeout;

use super::{RabbitMqSubscriptionOptions, RabbitMqTicket, session};
use crate::address::Address;
use crate::failures;

/// Survives a restart of the broker.
const PERSISTENT: u8 = 2;
/// Headers that make the broker put copies into other queues.
const COPIES: [&str; 2] = ["CC", "BCC"];

/// A connection of its own, opened with the first dead letter: a blocked publisher must not hold up who reads.
#[derive(Debug, Default)]
pub(super) struct DeadLetterPublisher(Mutex<Option<(Connection, Channel)>>);

/// A message with why it died.
#[derive(Debug)]
pub(super) struct Letter<'a> {
    properties: BasicProperties,
    body: &'a [u8],
}

pub(super) fn letter<'a>(ticket: &'a RabbitMqTicket, consumer: &str, dead_letter: &DeadLetterCause) -> Letter<'a> {
    let mut headers = FieldTable::default();
    for (name, value) in ticket.properties.headers().iter().flat_map(FieldTable::inner) {
        if !COPIES.contains(&name.as_str()) {
            headers.insert(name.clone(), value.clone());
        }
    }
    for (name, value) in reason_headers(consumer, dead_letter) {
        headers.insert(name.into(), AMQPValue::LongString(value.into()));
    }
    let properties = inert(&ticket.properties).with_headers(headers).with_delivery_mode(PERSISTENT);
    Letter { properties, body: &ticket.body }
}

/// What a message says of itself, without what tells the broker to do something: `user_id` is refused unless it is who we
/// are, and with `expiration` the letter would vanish.
fn inert(of: &BasicProperties) -> BasicProperties {
    type With<T> = fn(BasicProperties, T) -> BasicProperties;
    let texts: [(&Option<ShortString>, With<ShortString>); 8] = [
        (of.content_type(), BasicProperties::with_content_type),
        (of.content_encoding(), BasicProperties::with_content_encoding),
        (of.correlation_id(), BasicProperties::with_correlation_id),
        (of.reply_to(), BasicProperties::with_reply_to),
        (of.message_id(), BasicProperties::with_message_id),
        (of.kind(), BasicProperties::with_type),
        (of.app_id(), BasicProperties::with_app_id),
        (of.cluster_id(), BasicProperties::with_cluster_id),
    ];
    let mut inert = BasicProperties::default();
    for (text, with) in texts {
        if let Some(text) = text {
            inert = with(inert, text.clone());
        }
    }
    if let Some(priority) = of.priority() {
        inert = inert.with_priority(*priority);
    }
    match of.timestamp() {
        Some(timestamp) => inert.with_timestamp(*timestamp),
        None => inert,
    }
}

impl DeadLetterPublisher {
    pub(super) async fn lay(
        &self,
        address: &Address,
        options: &RabbitMqSubscriptionOptions,
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

async fn open(address: &Address, options: &RabbitMqSubscriptionOptions) -> Result<(Connection, Channel), Failure> {
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
