//! Hands envelopes to a broker, a URL or a handler, and says what came of each.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use tokio::sync::mpsc;

use crate::event::Event;
use crate::failure::{Failure, FailureKind};

/// A destination.
///
/// - `deliver` returns as soon as the batch is *on its way*; outcomes follow one by one through [`Outbound::report`], in
///   any order, at any time. There is no barrier: one slow delivery never holds back another.
/// - Calls come one after the other, and hand over in that order: a transport that [`Capabilities::pipelines_key`]
///   must keep it on the wire.
/// - Every outbound is reported within the transport's own time-out. One that is dropped counts as failed.
/// - `Ok` means the destination has taken responsibility (acknowledged, committed), not that bytes were written.
/// - `Unavailable` means this delivery did not fail, the destination did; it is sent again with the same id.
#[async_trait]
pub trait Transport: fmt::Debug + Send + Sync {
    /// What it can and cannot do.
    fn capabilities(&self) -> Capabilities;

    /// Starts the delivery of a batch.
    async fn deliver(&self, batch: Vec<Outbound>);

    /// Looks whether deliveries would get through, without sending one: connects, looks up what it needs there and
    /// whether it may use it. Changes nothing at the destination. One with nothing to look up finds nothing.
    async fn check(&self) -> Vec<Finding> {
        Vec::new()
    }

    /// The relay stops: nothing more comes, and what lies here and is on nobody's way yet should be reported as
    /// `Unavailable` now.
    fn wind_down(&self) {}

    /// Ends connections and child processes. Called once, after the last outcome or when the grace is over.
    async fn close(&self);
}

/// What a transport can and cannot do, as data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Capabilities {
    /// The word in the configuration, for instance `exec`.
    pub name: &'static str,
    /// Whether several deliveries of one key may be on their way at once and still arrive in order, failures included.
    pub pipelines_key: bool,
    /// Most deliveries it wants on their way at once; `None` leaves it to the relay.
    pub in_flight_max: Option<usize>,
    /// Largest encoded envelope it can carry; it refuses larger ones itself, as a permanent failure of that event.
    pub envelope_bytes_max: Option<usize>,
    /// Whether it has a place for what will not be tried again; see [`Outbound::burial`].
    pub buries: bool,
}

impl Capabilities {
    /// Of a transport that can nothing special.
    pub fn plain(name: &'static str) -> Self {
        Self { name, pipelines_key: false, in_flight_max: None, envelope_bytes_max: None, buries: false }
    }
}

/// One thing [`Transport::check`] found out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Finding {
    /// As it should be, in a few words: `topic orders.v1 has 12 partitions`.
    Fine(String),
    /// It works, but promises less than people may expect: a code, what, and what to do about it.
    Warning(&'static str, String, String),
    /// Deliveries would fail like this.
    Problem(Failure),
    /// A second copy of an event is recognised for so long. Whether that is enough the caller knows: it has the retries.
    Remembers {
        /// The code of a warning that it is not.
        code: &'static str,
        /// Who remembers: `stream orders`.
        what: String,
        /// For how long.
        lasts: Duration,
        /// The command that changes it, up to where the new duration stands.
        mend: String,
    },
}

/// Why an event is dead.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Burial {
    /// What came of the last try.
    pub failure: Failure,
    /// How often it was tried.
    pub attempts: u32,
    /// When the last try failed.
    pub at: Timestamp,
}

impl Burial {
    /// Why, in one word: that it was tried as often as allowed, or the code of what can never succeed.
    pub fn reason(&self) -> &str {
        match self.failure.kind {
            FailureKind::Permanent => &self.failure.code,
            FailureKind::Transient | FailureKind::Unavailable => "max_retries_exceeded",
        }
    }
}

/// Where an event is on its way: what an envelope can say beside the event itself.
#[derive(Debug, Clone, Copy, Default)]
pub struct Stage<'a> {
    /// Its number in the log, if it has one.
    pub position: Option<i64>,
    /// How often it was tried before.
    pub attempts: u32,
    /// Why it is dead, if it is.
    pub burial: Option<&'a Burial>,
}

impl Stage<'_> {
    /// Of an event with this number that was never tried.
    pub fn at(position: Option<i64>) -> Self {
        Self { position, attempts: 0, burial: None }
    }
}

/// What came of one try.
pub type Outcome = Result<Receipt, Failure>;

/// Where the destination put it, for people: `orders.v1[3]@88214`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Receipt(pub Option<Box<str>>);

/// One delivery in a transport's hands. Report it; dropping it reports a failure.
pub struct Outbound {
    ticket: u64,
    /// Which try this is, from 1.
    pub attempt: u32,
    /// The event.
    pub event: Arc<Event>,
    /// Its number in the log, if it has one.
    pub position: Option<i64>,
    /// Set when the event is dead and goes to the transport's place for such, by its leave ([`Capabilities::buries`]).
    /// It counts as a dead letter when this is reported `Ok`, and is tried again when not.
    pub burial: Option<Box<Burial>>,
    /// Changes when deliveries go on after one was unavailable: by then everything handed over before was reported, and heard
    /// of. Counted only for transports that [`Capabilities::pipelines_key`].
    pub round: u64,
    report: Option<mpsc::UnboundedSender<(u64, Outcome)>>,
}

impl Outbound {
    /// For the engine, and for tests that stand in for it.
    pub fn new(
        ticket: u64,
        attempt: u32,
        event: Arc<Event>,
        position: Option<i64>,
        report: mpsc::UnboundedSender<(u64, Outcome)>,
    ) -> Self {
        Self { ticket, attempt, event, position, burial: None, round: 0, report: Some(report) }
    }

    /// Where it is on its way.
    pub fn stage(&self) -> Stage<'_> {
        let burial = self.burial.as_deref();
        let before = self.attempt.saturating_sub(1);
        Stage { position: self.position, attempts: burial.map_or(before, |burial| burial.attempts), burial }
    }

    /// Says of all of them that they failed like this.
    pub fn report_all(outbounds: impl IntoIterator<Item = Self>, failure: &Failure) {
        for outbound in outbounds {
            outbound.report(Err(failure.clone()));
        }
    }

    /// Says what came of it.
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
