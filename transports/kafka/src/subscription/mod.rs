//! Topics as the subscription of a consumer: a member of a group, with the order of each partition kept.

mod dead_letters;
mod options;
mod partitions;

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use postroom_consumer::{Arrival, Delivered, OptionsError, OrderScope, Revoked, Subscription, Wire, pause};
use postroom_core::{DeadLetterCause, Failure};
use rdkafka::TopicPartitionList;
use rdkafka::consumer::{CommitMode, Consumer, StreamConsumer};
use rdkafka::error::{KafkaError, KafkaResult};
use rdkafka::message::{BorrowedMessage, Headers, Message, OwnedHeaders};
use tokio::sync::{Mutex, mpsc, oneshot};
use tokio::time::{sleep, timeout};

use self::dead_letters::DeadLetterPublisher;
pub use self::options::{Begin, KafkaSubscriptionOptions};
use self::partitions::{Partitions, Place, Watcher};
use crate::LOG;
use crate::connection::in_background;

/// How long nothing is read after an error. librdkafka has its own patience; this only keeps a lasting one from filling the
/// log.
const AFTER_ERROR: Duration = Duration::from_millis(50);
/// How long a goodbye may take.
const GOODBYE: Duration = Duration::from_secs(5);

/// Subscription to one or more topics.
///
/// A partition is a lane: its messages are worked on one after the other, whatever their keys, and beside those of other
/// partitions. So the number of partitions is the number of handlers that run at once, over all members.
#[derive(Debug)]
pub struct KafkaSubscription {
    options: KafkaSubscriptionOptions,
    partitions: Arc<Partitions>,
    state: Mutex<State>,
    member: OnceLock<Member>,
    /// For dead letters; made with the first of them.
    dead_letters: Mutex<Option<DeadLetterPublisher>>,
}

#[derive(Debug)]
struct State {
    gone: mpsc::UnboundedReceiver<Vec<OrderScope>>,
    trouble: u32,
}

/// Ticket of a message that is not done.
#[derive(Debug)]
pub struct KafkaTicket {
    place: Place,
    offset: i64,
    key: Option<Bytes>,
    headers: Option<OwnedHeaders>,
    body: Bytes,
}

impl KafkaSubscription {
    /// Creates a subscription with these options. Joins its group when it is run.
    pub fn new(options: KafkaSubscriptionOptions) -> Result<Self, OptionsError> {
        if options.topics.is_empty() || options.group.is_empty() {
            return Err(OptionsError("a subscription from Kafka needs at least one topic, and a group".to_owned()));
        }
        if options.topics.contains(&options.dead_topic) {
            let error = format!("topic {} cannot be the one for its own dead letters", options.dead_topic);
            return Err(OptionsError(error));
        }
        let (partitions, gone) = Partitions::new(options.prefetch);
        let state = Mutex::new(State { gone, trouble: 0 });
        Ok(Self { options, partitions, state, member: OnceLock::new(), dead_letters: Mutex::default() })
    }

    fn join(&self) -> KafkaResult<Member> {
        let watcher = Watcher(Arc::clone(&self.partitions));
        let consumer: StreamConsumer<Watcher> = self.options.consumer().create_with_context(watcher)?;
        let topics: Vec<&str> = self.options.topics.iter().map(String::as_str).collect();
        consumer.subscribe(&topics)?;
        Ok(Member(Some(consumer)))
    }

    /// The message with a place in its lane, unless its partition is not ours any more.
    fn taken(
        &self,
        consumer: &StreamConsumer<Watcher>,
        message: &BorrowedMessage<'_>,
    ) -> Option<Delivered<KafkaTicket>> {
        let (place, is_full) = self.partitions.take(message.topic(), message.partition())?;
        if is_full {
            let mut list = TopicPartitionList::new();
            list.add_partition(message.topic(), message.partition());
            complain(consumer.pause(&list).err());
        }
        let body = message.payload().map(Bytes::copy_from_slice).unwrap_or_default();
        let key = message.key().map(Bytes::copy_from_slice);
        let headers = message.headers().map(rdkafka::message::BorrowedHeaders::detach);
        let texts = headers.iter().flat_map(Headers::iter);
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let wire = Wire {
            headers: texts.map(|header| (header.key.to_owned(), text(header.value.unwrap_or_default()))).collect(),
            body: body.clone(),
            key: key.as_deref().map(text),
            ..Wire::default()
        };
        let lane = Some(place.lane.clone());
        let ticket = KafkaTicket { place, offset: message.offset(), key, headers, body };
        Some(Delivered { lane, wire, ticket })
    }
}

impl Subscription for KafkaSubscription {
    type Ticket = KafkaTicket;

    async fn next(&self) -> Arrival<KafkaTicket> {
        let mut state = self.state.lock().await;
        let State { gone, trouble } = &mut *state;
        loop {
            let Some(consumer) = self.member.get().and_then(|member| member.0.as_ref()) else {
                match self.join() {
                    Ok(member) => drop(self.member.set(member)),
                    Err(error) => {
                        *trouble += 1;
                        complain(Some(error));
                        sleep(pause(*trouble)).await;
                    }
                }
                continue;
            };
            tokio::select! {
                biased;
                Some(lanes) = gone.recv() => return Arrival::Revoked(Revoked::Scopes(lanes)),
                () = self.partitions.room.notified() => {
                    complain(consumer.resume(&self.partitions.with_room()).err());
                }
                message = consumer.recv() => match message {
                    Ok(message) => {
                        *trouble = 0;
                        if let Some(delivered) = self.taken(consumer, &message) {
                            return Arrival::Message(delivered);
                        }
                    }
                    Err(error) => {
                        complain(Some(error));
                        // Many wait in line after an outage, and behind them are the messages of the time after it.
                        sleep(AFTER_ERROR).await;
                    }
                },
            }
        }
    }

    async fn ack(&self, ticket: &KafkaTicket) {
        let Some(consumer) = self.member.get().and_then(|member| member.0.as_ref()) else { return };
        let KafkaTicket { place, offset, .. } = ticket;
        self.partitions.while_ours(place, || {
            complain(consumer.store_offset(&place.topic, place.partition, *offset).err());
        });
    }

    async fn publish_dead_letter(
        &self,
        ticket: &KafkaTicket,
        consumer: &str,
        dead_letter: &DeadLetterCause,
    ) -> Result<(), Failure> {
        let mut dead_letters = self.dead_letters.lock().await;
        // One that failed is not used again: it may be broken for good.
        let open = match dead_letters.take() {
            Some(open) => open,
            None => DeadLetterPublisher::open(&self.options)?,
        };
        open.lay(ticket, &self.options, consumer, dead_letter).await?;
        *dead_letters = Some(open);
        self.ack(ticket).await;
        Ok(())
    }

    async fn release(&self, ticket: KafkaTicket) {
        // Its offset is not stored, and neither is one behind it.
        drop(ticket);
    }

    async fn close(self) {
        let Self { member, dead_letters, .. } = self;
        let consumer = member.into_inner().and_then(|mut member| member.0.take());
        let (told, gone) = oneshot::channel();
        // In a thread of its own: a runtime that ends would wait for a blocking task, however long that takes.
        in_background(move || {
            if let Some(consumer) = consumer {
                // It fails when nothing was done since the last time.
                let _ = consumer.commit_consumer_state(CommitMode::Sync);
                // Leaves the group, and waits for it.
                drop(consumer);
            }
            drop(dead_letters);
            let _ = told.send(());
        });
        let _ = timeout(GOODBYE, gone).await;
    }
}

/// Our membership in the group. Its end waits for threads and for the broker, so nobody else has to.
struct Member(Option<StreamConsumer<Watcher>>);

impl Drop for Member {
    fn drop(&mut self) {
        if let Some(consumer) = self.0.take() {
            in_background(move || drop(consumer));
        }
    }
}

fn complain(error: Option<KafkaError>) {
    if let Some(error) = error {
        tracing::warn!(target: LOG, %error, "topic cannot be read; retrying");
    }
}

impl fmt::Debug for Member {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Member")
    }
}
