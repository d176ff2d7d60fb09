//! What goes into librdkafka: in the order of the hand-over, to topics that were looked up, as much as fits.
//!
//! When the producer must end is decided by its parent.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use postroom_core::{Failure, Outbound};
use tokio::task::spawn_blocking;
use tokio::time::Instant;

use super::{Driver, Ready};
use crate::connection::Connection;
use crate::options::IN_FLIGHT_MAX;
use crate::topics::{self, Question, Topic, TopicResults};
use crate::{LOG, failures, message};

/// Most topics looked up at once.
const TOPICS_AT_ONCE: usize = 100;
/// A limit younger than this may kill an event; an older one is looked up again before it does.
const LIMIT_AGE_MAX: Duration = Duration::from_secs(1);
/// How often we look whether librdkafka has room again, when it is full of bytes.
const ROOM_EVERY: Duration = Duration::from_millis(10);

impl Driver {
    /// Gives librdkafka as much as it takes. An error is about everything.
    pub(super) async fn feed(&mut self) -> Result<(), Failure> {
        while !self.closed && self.has_right_producer().await? && self.send_ready() {
            if self.queue.is_empty() {
                break;
            }
            self.prepare_next().await?;
        }
        Ok(())
    }

    /// Whether batches are made as they should be; when not, acknowledgements have to come first.
    async fn has_right_producer(&mut self) -> Result<bool, Failure> {
        let Some(connection) = &self.connection else { return Ok(true) };
        self.sizes.acknowledged(connection.shared.acked(), &self.orders.route);
        if connection.shared.batches() == self.sizes.next() {
            return Ok(true);
        }
        if connection.in_flight() > 0 {
            connection.shared.want(0);
            return Ok(false);
        }
        self.connection = None;
        self.connect().await?;
        Ok(true)
    }

    /// Sends what may go; false when acknowledgements have to come first.
    fn send_ready(&mut self) -> bool {
        let Some(connection) = &self.connection else { return true };
        if let Some(turns) = &mut self.turns
            && turns.is_waiting()
        {
            // First, because what is acknowledged from here on rings the bell.
            connection.shared.want_next();
            self.ready.extend(turns.due());
        }
        self.retry_at = None;
        while let Some(ready) = self.ready.pop_front() {
            let Some(ready) = connection.send(ready) else { continue };
            self.ready.push_front(ready);
            tracing::debug!(target: LOG, route = &*self.orders.route, "in-flight window is full: waiting for acknowledgements");
            if connection.in_flight() > IN_FLIGHT_MAX / 4 * 3 {
                // For many at once: each look costs a wake-up.
                connection.shared.want(IN_FLIGHT_MAX / 4 * 3);
            } else {
                // Full of bytes, as librdkafka counts them; it does not say when there is room.
                self.retry_at = Some(Instant::now() + ROOM_EVERY);
            }
            return false;
        }
        true
    }

    /// Makes the first of the queue ready, reports why it cannot be, or looks up what that needs.
    async fn prepare_next(&mut self) -> Result<(), Failure> {
        let orders = Arc::clone(&self.orders);
        let Some(outbound) = self.queue.front() else { return Ok(()) };
        let topic = match message::topic(&orders.options, outbound) {
            Ok(name) => match self.topics.get(&name) {
                Some(topic) => topic.map_err(|failure| orders.options.missing(failure, outbound)),
                None => match message::valid_name(&name) {
                    Ok(()) => return self.look_up().await,
                    Err(failure) => Err(failure),
                },
            },
            Err(failure) => Err(failure),
        };
        let Some(outbound) = self.queue.pop_front() else { return Ok(()) };
        if self.behind.as_mut().is_some_and(|behind| behind.must_wait(&outbound)) {
            let failure = failures::behind(&outbound.event.id);
            self.refuse(outbound, failure);
            return Ok(());
        }
        let made = topic.and_then(|topic| {
            let message = message::message(&orders.encoder, &orders.route, &outbound)?;
            Ok((topic, message))
        });
        match made {
            Err(failure) => self.refuse(outbound, failure),
            Ok((topic, message)) => match message::refusal(&topic, &outbound, &message) {
                // It may have been raised meanwhile; only what is true now may kill.
                Some(_) if topic.looked_up.elapsed() > LIMIT_AGE_MAX => {
                    self.topics.forget(&topic.name);
                    self.queue.push_front(outbound);
                }
                Some(failure) => self.refuse(outbound, failure),
                None => {
                    let ready = Ready { outbound, topic, message, turn: None };
                    let may_go = match &mut self.turns {
                        Some(turns) => turns.admit(ready),
                        None => Some(ready),
                    };
                    self.ready.extend(may_go);
                }
            },
        }
        Ok(())
    }

    /// Looks up the topics of the queue that are not known.
    async fn look_up(&mut self) -> Result<(), Failure> {
        self.connect().await?;
        let options = Arc::clone(&self.orders.options);
        let mut names: Vec<String> = Vec::new();
        for outbound in &self.queue {
            let Ok(name) = message::topic(&options, outbound) else { continue };
            if !names.iter().any(|known| *known == name)
                && self.topics.get(&name).is_none()
                && message::valid_name(&name).is_ok()
            {
                names.push(name.into_owned());
            }
            if names.len() == TOPICS_AT_ONCE || options.topic.fixed().is_some() {
                break;
            }
        }
        let until = Instant::now() + options.timeout;
        let found = self.ask(Question { options, names, until, limits: true }).await?;
        for (name, topic) in found.into_iter().flatten() {
            self.learn(name, topic);
        }
        Ok(())
    }

    /// Asks the cluster. Nothing when the wait is over for another reason.
    pub(super) async fn ask(&mut self, question: Question) -> Result<Option<TopicResults>, Failure> {
        let Some((producer, shared)) = self.connection.as_ref().and_then(Connection::to_ask) else { return Ok(None) };
        let asking = spawn_blocking(move || topics::look_up(&producer, &shared, question));
        self.meanwhile(asking).await.transpose()
    }

    fn learn(&mut self, name: String, topic: Result<Topic, Failure>) {
        if let Ok(Topic { limits, bytes_max, .. }) = &topic {
            limits.batch_bytes_max.into_iter().for_each(|bytes| self.sizes.topic_takes(bytes));
            if self.orders.options.topic.fixed() == Some(&name) {
                self.orders.bytes_max.store(bytes_max.unwrap_or_default(), Ordering::Relaxed);
            }
        }
        self.topics.learn(name, topic, &self.orders.route);
    }

    async fn connect(&mut self) -> Result<(), Failure> {
        if self.connection.is_some() {
            return Ok(());
        }
        let (orders, batches) = (Arc::clone(&self.orders), self.sizes.next());
        let opening = spawn_blocking(move || Connection::open(&orders.options, &orders.route, batches));
        if let Some(opened) = self.meanwhile(opening).await {
            self.connection = Some(opened?);
        }
        Ok(())
    }

    /// Reports that this one fails by itself.
    fn refuse(&mut self, outbound: Outbound, failure: Failure) {
        if let Some(behind) = &mut self.behind
            && failure.kind.is_outage()
        {
            behind.given_up(&outbound);
        }
        outbound.report(Err(failure));
    }
}
