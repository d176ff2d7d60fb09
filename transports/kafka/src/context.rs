//! What librdkafka says, taken down where it says it: on its polling thread.
//!
//! Acknowledgements are reported right here, so that the driver sleeps while all is well. Everything else is left for the
//! driver, which is woken for it: it alone gives deliveries up.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use postroom_core::{Failure, Receipt};
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::error::{KafkaError, RDKafkaErrorCode as Code};
use rdkafka::message::{DeliveryResult, Message as _};
use rdkafka::producer::ProducerContext;
use rdkafka::{ClientContext, Statistics};
use tokio::sync::Notify;

use crate::LOG;
use crate::failures::{self, Refusal};
use crate::options::Batches;
use crate::window::Window;

/// Why a producer must not go on.
#[derive(Debug, Clone)]
pub(crate) struct Ended {
    /// What is to be said of everything it has.
    pub(crate) failure: Failure,
    /// The topic that is refused as such.
    pub(crate) topic: Option<String>,
    /// Whether a batch was refused for what is in it.
    pub(crate) batch_refused: bool,
}

impl From<Failure> for Ended {
    fn from(failure: Failure) -> Self {
        Self { failure, topic: None, batch_refused: false }
    }
}

/// What one producer's callbacks and its driver have in common.
#[derive(Debug)]
pub(crate) struct Shared {
    route: Arc<str>,
    batches: Batches,
    state: Mutex<State>,
    /// Rings when the driver should look.
    pub(crate) bell: Notify,
    acked: AtomicUsize,
    may_write: AtomicBool,
    abandoned: AtomicBool,
}

#[derive(Debug, Default)]
pub(crate) struct State {
    pub(crate) window: Window,
    ended: Option<Ended>,
    /// Why a broker could not be reached, the last time one could not.
    trouble: Option<Failure>,
    /// No broker can be reached.
    down: bool,
    /// The driver waits for acknowledgements until no more than so many are missing.
    wanted: Option<usize>,
}

impl Shared {
    pub(crate) fn new(route: Arc<str>, batches: Batches) -> Self {
        Self {
            route,
            batches,
            state: Mutex::default(),
            bell: Notify::new(),
            acked: AtomicUsize::new(0),
            may_write: AtomicBool::new(false),
            abandoned: AtomicBool::new(false),
        }
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Rings the bell at the next acknowledgement that leaves no more than so many.
    pub(crate) fn want(&self, left: usize) {
        let mut state = self.state();
        state.wanted = Some(state.wanted.map_or(left, |other| other.max(left)));
        if state.window.len() <= left {
            self.bell.notify_one();
        }
    }

    /// Rings the bell at the next acknowledgement.
    pub(crate) fn want_next(&self) {
        let mut state = self.state();
        let left = state.window.len().saturating_sub(1);
        state.wanted = Some(state.wanted.map_or(left, |other| other.max(left)));
    }

    pub(crate) fn batches(&self) -> Batches {
        self.batches
    }

    /// Why it must not go on, if so.
    pub(crate) fn ended(&self) -> Option<Ended> {
        self.state().ended.clone()
    }

    /// Whether no broker can be reached.
    pub(crate) fn is_down(&self) -> bool {
        self.state().down
    }

    /// Why brokers cannot be reached, when waiting any longer is in vain.
    pub(crate) fn hopeless(&self) -> Option<Failure> {
        let state = self.state();
        let refused = |trouble: &&Failure| state.down || trouble.code != "kafka.unreachable";
        state.trouble.as_ref().filter(refused).cloned()
    }

    /// What was said last of brokers that cannot be reached.
    pub(crate) fn trouble(&self) -> Option<Failure> {
        self.state().trouble.clone()
    }

    /// A broker has answered.
    pub(crate) fn is_well(&self) {
        let mut state = self.state();
        (state.trouble, state.down) = (None, false);
    }

    /// How many were acknowledged.
    pub(crate) fn acked(&self) -> usize {
        self.acked.load(Ordering::Relaxed)
    }

    /// Whether a broker has let us write, in principle; only known where statistics are asked for.
    pub(crate) fn may_write(&self) -> bool {
        self.may_write.load(Ordering::Relaxed)
    }

    /// Nobody waits for an answer any more.
    pub(crate) fn abandon(&self) {
        self.abandoned.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_abandoned(&self) -> bool {
        self.abandoned.load(Ordering::Relaxed)
    }

    fn acknowledged(&self, number: usize, partition: i32, offset: i64) {
        let sent = {
            let mut state = self.state();
            let Some(sent) = state.window.take(number) else { return };
            // Before the bell, so that who is woken by it sees it.
            if let Some(turn) = &sent.turn {
                turn.fetch_sub(1, Ordering::Relaxed);
            }
            if state.wanted.is_some_and(|left| state.window.len() <= left) {
                state.wanted = None;
                self.bell.notify_one();
            }
            sent
        };
        self.acked.fetch_add(1, Ordering::Relaxed);
        sent.topic.wrote_to(partition);
        let name = &sent.topic.name;
        // After some retries librdkafka knows that it is there, but not where.
        let place = if offset < 0 { format!("{name}[{partition}]") } else { format!("{name}[{partition}]@{offset}") };
        sent.outbound.report(Ok(Receipt::at(place)));
    }

    /// Takes down that one is refused, and what follows from it for the others.
    pub(crate) fn refused(&self, number: usize, code: Code) {
        let mut state = self.state();
        let Some(sent) = state.window.get(number) else { return };
        let topic = &sent.topic.name;
        let ended = match failures::refusal(code, &sent.outbound.event.id, topic) {
            Refusal::Ended => return,
            Refusal::Event { culprit, others } => {
                if self.batches == Batches::Single
                    && let Some(sent) = state.window.take(number)
                {
                    sent.outbound.report(Err(culprit));
                }
                Ended { failure: others, topic: None, batch_refused: true }
            }
            Refusal::Topic(failure) => Ended { failure, topic: Some(topic.clone()), batch_refused: false },
            Refusal::Other(failure) => failure.into(),
        };
        state.ended.get_or_insert(ended);
        self.bell.notify_one();
    }
}

/// librdkafka's callbacks.
#[derive(Debug, Clone)]
pub(crate) struct Context(pub(crate) Arc<Shared>);

impl ClientContext for Context {
    fn log(&self, _level: RDKafkaLogLevel, facility: &str, message: &str) {
        tracing::debug!(target: LOG, route = &*self.0.route, facility, "librdkafka: {message}");
        // Of a broker that hangs up there is no error, only this line: `[thrd:…]: host:port/id: Disconnected: …`.
        if facility == "FAIL" {
            let reason = message.split_once("]: ").map_or(message, |(_, reason)| reason);
            let mut state = self.0.state();
            if state.trouble.as_ref().is_none_or(|trouble| trouble.code == "kafka.unreachable") {
                state.trouble = failures::connecting(Code::BrokerTransportFailure, reason);
            }
        }
    }

    fn stats(&self, statistics: Statistics) {
        if statistics.eos.is_some_and(|state| state.idemp_state == "Assigned") {
            self.0.may_write.store(true, Ordering::Relaxed);
            self.0.bell.notify_one();
        }
    }

    fn error(&self, error: KafkaError, reason: &str) {
        let Some(code) = error.rdkafka_error_code() else { return };
        if let Some(failure) = failures::connecting(code, reason) {
            let mut state = self.0.state();
            if code == Code::AllBrokersDown {
                state.down = true;
                // Why was said before, as far as anything was.
                state.trouble.get_or_insert(failure);
            } else {
                state.trouble = Some(failure);
                return;
            }
        }
        // Fatal, or down.
        self.0.bell.notify_one();
    }
}

impl ProducerContext for Context {
    type DeliveryOpaque = usize;

    fn delivery(&self, result: &DeliveryResult<'_>, number: usize) {
        match result {
            Ok(message) => self.0.acknowledged(number, message.partition(), message.offset()),
            Err((error, _)) => self.0.refused(number, error.rdkafka_error_code().unwrap_or(Code::Unknown)),
        }
    }
}
