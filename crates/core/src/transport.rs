//! Hands envelopes to a broker, a URL or a handler, and says what came of each.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use jiff::Timestamp;
use tokio::sync::mpsc;

use crate::consumers::LagReader;
use crate::diagnostic::Diagnostic;
use crate::event::Event;
use crate::failure::{Failure, FailureKind};

/// Transport: delivers events to a destination.
///
/// - `deliver` returns as soon as the batch is *on its way*; outcomes follow one by one through [`Outbound::report`], in
///   any order, at any time. There is no barrier: one slow delivery never holds back another.
/// - Calls come one after the other, and hand over in that order: a transport that [`Capabilities::pipelines_key`]
///   must keep it on the wire.
/// - Every outbound is reported within the transport's own time-out. One that is dropped counts as failed.
/// - `Ok` means the destination has taken responsibility (acknowledged, committed), not that bytes were written.
/// - `Unavailable` means this delivery did not fail, the destination did; it is sent again with the same id.
#[async_trait]
pub trait Transport: Any + fmt::Debug + Send + Sync {
    /// Returns the capabilities of the transport.
    fn capabilities(&self) -> Capabilities;

    /// Starts the delivery of a batch.
    async fn deliver(&self, batch: Vec<Outbound>);

    /// Checks whether deliveries would succeed, without sending one: connects, and looks up the destination and its
    /// permissions. Changes nothing at the destination. Returns no diagnostic if there is nothing to check.
    async fn check(&self) -> Vec<Diagnostic> {
        Vec::new()
    }

    /// Returns a reader of the lag of the destination's consumers, with a connection of its own that is opened by the first read;
    /// `None` if the destination knows no consumers.
    fn lag_reader(&self) -> Option<Box<dyn LagReader>> {
        None
    }

    /// Prepares for a stop: no further delivery comes, and deliveries that are not on their way yet should be reported as
    /// `Unavailable` now.
    fn wind_down(&self) {}

    /// Closes connections and child processes. Called once, after the last outcome or at the end of the shutdown grace.
    async fn close(&self);
}

/// Forwards every method.
#[deny(clippy::missing_trait_methods)]
#[async_trait]
impl<T: Transport + ?Sized> Transport for Arc<T> {
    fn capabilities(&self) -> Capabilities {
        (**self).capabilities()
    }

    async fn deliver(&self, batch: Vec<Outbound>) {
        (**self).deliver(batch).await;
    }

    async fn check(&self) -> Vec<Diagnostic> {
        (**self).check().await
    }

    fn lag_reader(&self) -> Option<Box<dyn LagReader>> {
        (**self).lag_reader()
    }

    fn wind_down(&self) {
        (**self).wind_down();
    }

    async fn close(&self) {
        (**self).close().await;
    }
}

/// Capabilities of a transport, as data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Capabilities {
    /// Name of the transport in the configuration, for instance `exec`.
    pub name: &'static str,
    /// Whether several deliveries of one key may be in flight at once and still arrive in order, failures included.
    pub pipelines_key: bool,
    /// Maximum number of deliveries in flight; `None` leaves it to the relay.
    pub in_flight_max: Option<usize>,
    /// Largest encoded envelope; the transport refuses larger ones itself, as a permanent failure of that event.
    pub envelope_bytes_max: Option<usize>,
    /// Whether the transport publishes dead letters; see [`Outbound::dead_letter`].
    pub takes_dead_letters: bool,
    /// Whether texts of failures may be logged: they quote neither a payload nor a receiver, which may quote one.
    pub logs_errors: bool,
}

impl Capabilities {
    /// Returns the capabilities of a transport without special ones.
    pub fn plain(name: &'static str) -> Self {
        Self {
            name,
            pipelines_key: false,
            in_flight_max: None,
            envelope_bytes_max: None,
            takes_dead_letters: false,
            logs_errors: false,
        }
    }
}

/// Cause of a dead letter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeadLetterCause {
    /// Failure of the last attempt.
    pub failure: Failure,
    /// Number of attempts.
    pub attempts: u32,
    /// Time of the last failed attempt.
    pub at: Timestamp,
}

impl DeadLetterCause {
    /// Returns the reason in one word: attempts used up, or the code of a permanent failure.
    pub fn reason(&self) -> &str {
        match self.failure.kind {
            FailureKind::Permanent => &self.failure.code,
            _ => "max_retries_exceeded",
        }
    }
}

/// Stage of a delivery: fields that an envelope can have beside the event itself.
#[derive(Debug, Clone, Copy, Default)]
pub struct Stage<'a> {
    /// Position of the event in the log, if it has one.
    pub position: Option<i64>,
    /// Number of earlier attempts.
    pub attempts: u32,
    /// Cause of the dead letter, if the event is one.
    pub dead_letter: Option<&'a DeadLetterCause>,
}

impl Stage<'_> {
    /// Returns the stage of an event at this position that was never tried.
    pub fn at(position: Option<i64>) -> Self {
        Self { position, attempts: 0, dead_letter: None }
    }
}

/// Outcome of an attempt.
pub type Outcome = Result<Receipt, Failure>;

/// Receipt of the destination.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Receipt {
    /// Place of the event at the destination, for people: `orders.v1[3]@88214`.
    pub place: Option<Box<str>>,
    /// Code of something that went another way than usual and still counts as delivered; empty otherwise. Attempts are counted by it.
    pub code: &'static str,
}

impl Receipt {
    /// Creates a receipt with the place of the event at the destination.
    pub fn at(place: impl Into<Box<str>>) -> Self {
        Self { place: Some(place.into()), code: "" }
    }

    /// Sets the code of something that went another way than usual.
    #[must_use]
    pub fn code(self, code: &'static str) -> Self {
        Self { code, ..self }
    }
}

/// Delivery that a transport sends. Report it; dropping it reports a failure.
pub struct Outbound {
    ticket: u64,
    /// Number of this attempt, from 1.
    pub attempt: u32,
    /// Event to deliver.
    pub event: Arc<Event>,
    /// Position of the event in the log, if it has one.
    pub position: Option<i64>,
    /// Set when the event is dead and goes to the transport's place for such, by its leave ([`Capabilities::takes_dead_letters`]).
    /// It counts as a dead letter when this is reported `Ok`, and is tried again when not.
    pub dead_letter: Option<Box<DeadLetterCause>>,
    /// Changes when deliveries go on after one was unavailable: by then everything handed over before was reported, and heard
    /// of. Counted only for transports that [`Capabilities::pipelines_key`].
    pub round: u64,
    report: Option<mpsc::UnboundedSender<(u64, Outcome)>>,
}

impl Outbound {
    /// Creates an outbound, for the engine and for tests that stand in for it.
    pub fn new(
        ticket: u64,
        attempt: u32,
        event: Arc<Event>,
        position: Option<i64>,
        report: mpsc::UnboundedSender<(u64, Outcome)>,
    ) -> Self {
        Self { ticket, attempt, event, position, dead_letter: None, round: 0, report: Some(report) }
    }

    /// Returns the stage of the delivery.
    pub fn stage(&self) -> Stage<'_> {
        let dead_letter = self.dead_letter.as_deref();
        let before = self.attempt.saturating_sub(1);
        Stage {
            position: self.position,
            attempts: dead_letter.map_or(before, |dead_letter| dead_letter.attempts),
            dead_letter,
        }
    }

    /// Reports the same failure for all deliveries.
    pub fn report_all(outbounds: impl IntoIterator<Item = Self>, failure: &Failure) {
        for outbound in outbounds {
            outbound.report(Err(failure.clone()));
        }
    }

    /// Reports the outcome of the delivery.
    pub fn report(mut self, outcome: Outcome) {
        if let Some(report) = self.report.take() {
            // Nobody listens any more: the relay has stopped, and whoever owns the lane next sends it again.
            let _ = report.send((self.ticket, outcome));
        }
    }
}

impl Drop for Outbound {
    fn drop(&mut self) {
        if let Some(report) = self.report.take() {
            let failure =
                Failure::transient("transport.dropped", "the transport gave the delivery up without an outcome");
            let _ = report.send((self.ticket, Err(failure)));
        }
    }
}

impl fmt::Debug for Outbound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Outbound").field("id", &self.event.id).field("attempt", &self.attempt).finish_non_exhaustive()
    }
}
