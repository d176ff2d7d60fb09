//! One producer: made at the first delivery, ended as a whole.
//!
//! librdkafka keeps the connections to the brokers itself; for us there is one thing that works or has ended.

use std::fmt;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use postroom_core::{Failure, Outbound};
use rdkafka::ClientConfig;
use rdkafka::error::RDKafkaErrorCode as Code;
use rdkafka::producer::{BaseProducer, BaseRecord, Producer as _, PurgeConfig};
use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::context::{Context, Ended, Shared};
use crate::driver::Ready;
use crate::failures;
use crate::options::{Batches, IN_FLIGHT_MAX, KafkaOptions};
use crate::window::Sent;

pub(crate) type Producer = Arc<BaseProducer<Context>>;

/// How long one look of the polling thread takes while there is something to do, and else. Each ends with up to a
/// millisecond of spinning, because librdkafka counts whole ones; the longer is how long an end may have to wait.
const LOOKS: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(1));
/// After so many short looks without an acknowledgement there is nothing to do.
const QUIET_AFTER: usize = 20;

/// A producer and what it has not yet answered.
pub(crate) struct Connection {
    // Both are only empty while it ends.
    producer: Option<Producer>,
    polling: Option<JoinHandle<()>>,
    pub(crate) shared: Arc<Shared>,
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection").field("in_flight", &self.in_flight()).finish_non_exhaustive()
    }
}

impl Connection {
    /// Makes the producer. Whether anybody answers is found out by asking.
    pub(crate) fn open(options: &KafkaOptions, route: &Arc<str>, batches: Batches) -> Result<Self, Failure> {
        Self::with(&options.producer(batches), route, batches)
    }

    /// The same with these settings.
    pub(crate) fn with(config: &ClientConfig, route: &Arc<str>, batches: Batches) -> Result<Self, Failure> {
        let shared = Arc::new(Shared::new(Arc::clone(route), batches));
        let made = config.create_with_context(Context(Arc::clone(&shared)));
        let producer: Producer = Arc::new(made.map_err(|error| failures::setting_up(&error))?);
        let (polled, told) = (Arc::clone(&producer), Arc::clone(&shared));
        let polling = thread::Builder::new().name("kafka-polling".to_owned()).spawn(move || poll(&polled, &told));
        let no_thread = |error| Failure::unavailable("kafka.config", format!("no thread for librdkafka: {error}"));
        Ok(Self { producer: Some(producer), polling: Some(polling.map_err(no_thread)?), shared })
    }

    /// Gives it to librdkafka, which copies what it needs and never blocks; back it comes when there is no room.
    pub(crate) fn send(&self, ready: Ready) -> Option<Ready> {
        let Some(producer) = &self.producer else { return Some(ready) };
        let Ready { outbound, topic, message, turn } = ready;
        let event = Arc::clone(&outbound.event);
        let sent = Sent { outbound, topic: Arc::clone(&topic), since: Instant::now(), turn };
        // First, because the answer may be faster than we are.
        let number = {
            let mut state = self.shared.state();
            if state.window.len() >= IN_FLIGHT_MAX {
                let Sent { outbound, topic, turn, .. } = sent;
                return Some(Ready { outbound, topic, message, turn });
            }
            state.window.push(sent)
        };
        let mut record = BaseRecord::with_opaque_to(&topic.name, number).payload(&*message.body);
        record.key = event.ordering_key();
        record.headers = Some(message.headers);
        let Err((error, record)) = producer.send(record) else { return None };
        if let (Some(Code::QueueFull), Some(headers)) = (error.rdkafka_error_code(), record.headers)
            && let Some(Sent { outbound, topic, turn, .. }) = self.shared.state().window.take(number)
        {
            let message = crate::message::Message { headers, ..message };
            return Some(Ready { outbound, topic, message, turn });
        }
        // Refused here as it might have been there.
        self.shared.refused(number, error.rdkafka_error_code().unwrap_or(Code::Unknown));
        None
    }

    /// How many are not yet acknowledged.
    pub(crate) fn in_flight(&self) -> usize {
        self.shared.state().window.len()
    }

    /// Since when the oldest waits.
    pub(crate) fn oldest_since(&self) -> Option<Instant> {
        self.shared.state().window.oldest().map(|sent| sent.since)
    }

    /// Since when the oldest waits, and for which topic.
    pub(crate) fn oldest_topic(&self) -> Option<(Instant, String)> {
        self.shared.state().window.oldest().map(|sent| (sent.since, sent.topic.name.clone()))
    }

    /// Since when the oldest waits, and which it is.
    pub(crate) fn oldest(&self) -> Option<(Instant, String)> {
        self.shared.state().window.oldest().map(|sent| (sent.since, sent.outbound.event.id.clone()))
    }

    /// Why it must not go on, if so.
    pub(crate) fn ended(&self) -> Option<Ended> {
        let ended = self.shared.ended();
        match self.producer.as_ref().and_then(|producer| producer.client().fatal_error()) {
            // What caused this one is told by the report of the batch it is about.
            None | Some((Code::GaplessGuarantee, _)) => ended,
            Some((code, reason)) => Some(failures::fatal(code, &reason).into()),
        }
    }

    /// The producer and what it says, for who has a thread to wait on.
    pub(crate) fn to_ask(&self) -> Option<(Producer, Arc<Shared>)> {
        Some((self.producer.clone()?, Arc::clone(&self.shared)))
    }

    /// Takes out everything that is not acknowledged, and lets the producer go. The receiver hears when it has gone.
    pub(crate) fn end(mut self) -> (Vec<Outbound>, oneshot::Receiver<()>) {
        let unacknowledged = self.shared.state().window.drain();
        let (gone, hears) = oneshot::channel();
        self.let_go(Some(gone));
        (unacknowledged.into_iter().map(|sent| sent.outbound).collect(), hears)
    }

    fn let_go(&mut self, gone: Option<oneshot::Sender<()>>) {
        self.shared.abandon();
        let (producer, polling) = (self.producer.take(), self.polling.take());
        if producer.is_some() || polling.is_some() {
            in_background(move || {
                if let Some(producer) = &producer {
                    producer.purge(PurgeConfig::default().queue().inflight());
                }
                let _ = polling.map(JoinHandle::join);
                drop(producer);
                let _ = gone.map(|gone| gone.send(()));
            });
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.let_go(None);
    }
}

/// Takes in what librdkafka says until nobody wants to know.
fn poll(producer: &BaseProducer<Context>, shared: &Shared) {
    let (mut acknowledged, mut quiet) = (0, 0);
    while !shared.is_abandoned() {
        producer.poll(if quiet < QUIET_AFTER { LOOKS.0 } else { LOOKS.1 });
        let still = shared.acked() == acknowledged && shared.state().window.len() == 0;
        quiet = if still { quiet + 1 } else { 0 };
        acknowledged = shared.acked();
    }
}

/// Ends a client of librdkafka, which waits for its threads, where nobody else has to.
pub(crate) fn in_background(end: impl FnOnce() + Send + 'static) {
    // Without a thread to be had, what was to be dropped there is dropped right here.
    let _ = thread::Builder::new().name("kafka-ending".to_owned()).spawn(end);
}
