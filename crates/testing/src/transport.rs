//! A transport that does what the test says and remembers what it got.

use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use postroom_core::{Capabilities, Clock, DeadLetterCause, Event, Failure, Outbound, Outcome, Receipt, Transport};
use tokio::sync::watch;

/// One try that reached the transport.
#[derive(Debug, Clone)]
pub struct Arrival {
    /// The event.
    pub event: Arc<Event>,
    /// Which try this is, from 1.
    pub attempt: u32,
    /// Its number in the log, if it has one.
    pub position: Option<i64>,
    /// Why the event is dead, when it comes as a dead letter.
    pub dead_letter: Option<DeadLetterCause>,
    /// The engine's [`Outbound::round`].
    pub round: u64,
}

/// What the transport does about a try.
#[derive(Debug, Clone)]
pub enum Reply {
    /// Says that it is delivered.
    Deliver,
    /// Says that it is delivered, and where it was put.
    Receipt(String),
    /// Says that it failed.
    Fail(Failure),
    /// Delivers it after this long, by this clock.
    Slow(Duration, Arc<dyn Clock>),
    /// Says after this long, by this clock, that it failed.
    FailSlow(Duration, Arc<dyn Clock>, Failure),
    /// Says nothing until [`ScriptedTransport::release`].
    Stuck,
    /// Gives it up without a word, as a transport with a bug would.
    Drop,
}

type Rule = Box<dyn Fn(&Arrival) -> Option<Reply> + Send + Sync>;

/// A transport for tests: delivers everything, unless told otherwise. Clones are the same transport.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// use std::sync::Arc;
/// use postroom_core::{Event, Failure, Outbound, Transport};
/// use postroom_testing::ScriptedTransport;
///
/// let transport = ScriptedTransport::new();
/// transport.fail_next(1, Failure::transient("test.busy", "busy"));
///
/// let (report, mut outcomes) = tokio::sync::mpsc::unbounded_channel();
/// let outbound = |n| Outbound::new(n, 1, Arc::new(Event::new("order.placed")), None, report.clone());
/// transport.deliver(vec![outbound(1), outbound(2)]).await;
/// assert!(outcomes.recv().await.unwrap().1.is_err());
/// assert!(outcomes.recv().await.unwrap().1.is_ok());
///
/// transport.delivered(1).await; // waits for the signal, not for a while
/// assert_eq!(transport.arrivals().len(), 2);
/// # });
/// ```
#[derive(Clone)]
pub struct ScriptedTransport {
    inner: Arc<Inner>,
}

struct Inner {
    capabilities: Capabilities,
    state: Mutex<State>,
    counts: watch::Sender<Counts>,
}

#[derive(Default)]
struct State {
    /// The newest is asked first; the first that says something counts.
    rules: Vec<Rule>,
    down: Option<Failure>,
    arrivals: Vec<Arrival>,
    delivered: Vec<String>,
    stuck: Vec<Outbound>,
    closed: bool,
}

#[derive(Debug, Clone, Copy, Default)]
struct Counts {
    arrived: usize,
    delivered: usize,
    stuck: usize,
}

impl ScriptedTransport {
    /// A transport that delivers everything.
    pub fn new() -> Self {
        let none = Capabilities::plain("scripted");
        Self::with(none)
    }

    /// A transport with these capabilities.
    pub fn with(capabilities: Capabilities) -> Self {
        let inner =
            Inner { capabilities, state: Mutex::new(State::default()), counts: watch::Sender::new(Counts::default()) };
        Self { inner: Arc::new(inner) }
    }

    /// Adds a rule; it is asked before the ones added earlier. `None` leaves the try to those, and in the end it is
    /// delivered.
    pub fn rule(&self, rule: impl Fn(&Arrival) -> Option<Reply> + Send + Sync + 'static) {
        self.lock().rules.push(Box::new(rule));
    }

    /// Fails every try for which `fits` holds.
    pub fn fail_when(&self, fits: impl Fn(&Arrival) -> bool + Send + Sync + 'static, failure: Failure) {
        self.rule(move |arrival| fits(arrival).then(|| Reply::Fail(failure.clone())));
    }

    /// Fails the next tries, whichever they are.
    pub fn fail_next(&self, count: usize, failure: Failure) {
        let left = AtomicUsize::new(count);
        self.rule(move |_| {
            let counted = left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
            counted.is_ok().then(|| Reply::Fail(failure.clone()))
        });
    }

    /// Holds every try for which `fits` holds, until [`ScriptedTransport::release`].
    pub fn hold_when(&self, fits: impl Fn(&Arrival) -> bool + Send + Sync + 'static) {
        self.rule(move |arrival| fits(arrival).then_some(Reply::Stuck));
    }

    /// Forgets all rules.
    pub fn clear_rules(&self) {
        self.lock().rules.clear();
    }

    /// The destination is down from now on: every try is answered as unavailable, whatever the rules say.
    pub fn go_down(&self) {
        self.lock().down = Some(Failure::unavailable("scripted.down", "the destination is down"));
    }

    /// The destination is back.
    pub fn come_back(&self) {
        self.lock().down = None;
    }

    /// Answers everything that is held. Rules stay as they are.
    pub fn release(&self, outcome: &Outcome) {
        let stuck = std::mem::take(&mut self.lock().stuck);
        self.inner.counts.send_modify(|counts| counts.stuck = 0);
        for outbound in stuck {
            self.report(outbound, outcome.clone());
        }
    }

    /// Every try so far, in the order they came.
    pub fn arrivals(&self) -> Vec<Arrival> {
        self.lock().arrivals.clone()
    }

    /// Ids of what was delivered, in order; one that was delivered twice is here twice.
    pub fn delivered_ids(&self) -> Vec<String> {
        self.lock().delivered.clone()
    }

    /// Whether the relay has closed it.
    pub fn is_closed(&self) -> bool {
        self.lock().closed
    }

    /// Resolves when at least this many tries have come.
    pub async fn arrived(&self, count: usize) {
        self.until(|counts| counts.arrived >= count).await;
    }

    /// Resolves when at least this many tries were answered as delivered.
    pub async fn delivered(&self, count: usize) {
        self.until(|counts| counts.delivered >= count).await;
    }

    /// Resolves when at least this many tries are held at once.
    pub async fn stuck(&self, count: usize) {
        self.until(|counts| counts.stuck >= count).await;
    }

    async fn until(&self, reached: impl FnMut(&Counts) -> bool) {
        // The sender lives in `self`, so that the wait cannot end early.
        let _ = self.inner.counts.subscribe().wait_for(reached).await;
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.inner.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes the try and decides what becomes of it.
    fn arrive(&self, outbound: &Outbound) -> Reply {
        let arrival = Arrival {
            event: Arc::clone(&outbound.event),
            attempt: outbound.attempt,
            position: outbound.position,
            dead_letter: outbound.dead_letter.as_deref().cloned(),
            round: outbound.round,
        };
        let mut state = self.lock();
        let reply = match &state.down {
            Some(failure) => Reply::Fail(failure.clone()),
            None => state.rules.iter().rev().find_map(|rule| rule(&arrival)).unwrap_or(Reply::Deliver),
        };
        state.arrivals.push(arrival);
        reply
    }

    fn report_after(&self, pause: impl Future<Output = ()> + Send + 'static, outbound: Outbound, outcome: Outcome) {
        let transport = self.clone();
        tokio::spawn(async move {
            pause.await;
            transport.report(outbound, outcome);
        });
    }

    fn report(&self, outbound: Outbound, outcome: Outcome) {
        let delivered = outcome.is_ok();
        if delivered {
            self.lock().delivered.push(outbound.event.id.clone());
        }
        outbound.report(outcome);
        self.inner.counts.send_modify(|counts| counts.delivered += usize::from(delivered));
    }
}

impl Default for ScriptedTransport {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for ScriptedTransport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScriptedTransport").field("counts", &*self.inner.counts.borrow()).finish_non_exhaustive()
    }
}

#[async_trait]
impl Transport for ScriptedTransport {
    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities.clone()
    }

    async fn deliver(&self, batch: Vec<Outbound>) {
        for outbound in batch {
            match self.arrive(&outbound) {
                Reply::Deliver => self.report(outbound, Ok(Receipt::default())),
                Reply::Receipt(text) => self.report(outbound, Ok(Receipt::at(text))),
                Reply::Fail(failure) => self.report(outbound, Err(failure)),
                Reply::Drop => drop(outbound),
                Reply::Stuck => {
                    self.lock().stuck.push(outbound);
                    self.inner.counts.send_modify(|counts| counts.stuck += 1);
                }
                Reply::Slow(time, clock) => self.report_after(clock.sleep(time), outbound, Ok(Receipt::default())),
                Reply::FailSlow(time, clock, failure) => self.report_after(clock.sleep(time), outbound, Err(failure)),
            }
            self.inner.counts.send_modify(|counts| counts.arrived += 1);
        }
    }

    async fn close(&self) {
        self.lock().closed = true;
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::mpsc;

    use super::*;
    use crate::ManualClock;

    struct Admin {
        transport: ScriptedTransport,
        report: mpsc::UnboundedSender<(u64, Outcome)>,
        outcomes: mpsc::UnboundedReceiver<(u64, Outcome)>,
    }

    impl Admin {
        fn new() -> Self {
            let (report, outcomes) = mpsc::unbounded_channel();
            Self { transport: ScriptedTransport::new(), report, outcomes }
        }

        async fn send(&self, ticket: u64, id: &str) {
            let event = Arc::new(Event::new("t").id(id));
            self.transport.deliver(vec![Outbound::new(ticket, 1, event, None, self.report.clone())]).await;
        }

        async fn next(&mut self) -> (u64, Outcome) {
            self.outcomes.recv().await.unwrap()
        }
    }

    #[tokio::test]
    async fn it_fails_what_it_is_told_to_fail_and_delivers_the_rest() {
        let mut admin = Admin::new();
        admin.transport.fail_when(|arrival| arrival.event.id == "bad", Failure::permanent("test.bad", "bad"));
        admin.transport.fail_next(1, Failure::transient("test.first", "first"));
        let mut codes = Vec::new();
        for (ticket, id) in [(1, "a"), (2, "bad"), (3, "b")] {
            admin.send(ticket, id).await;
            codes.push(admin.next().await.1.err().map(|failure| failure.code.to_string()));
        }
        assert_eq!(codes, [Some("test.first".to_owned()), Some("test.bad".to_owned()), None]);
        assert_eq!(admin.transport.delivered_ids(), ["b"]);
    }

    #[tokio::test]
    async fn while_it_is_down_everything_is_unavailable() {
        let mut admin = Admin::new();
        admin.transport.go_down();
        admin.send(1, "a").await;
        let failure = admin.next().await.1.unwrap_err();
        assert_eq!(failure.kind, postroom_core::FailureKind::Unavailable);
        admin.transport.come_back();
        admin.send(2, "a").await;
        assert!(admin.next().await.1.is_ok());
    }

    #[tokio::test]
    async fn a_stuck_try_is_answered_when_it_is_released() {
        let mut admin = Admin::new();
        admin.transport.hold_when(|arrival| arrival.event.id == "a");
        admin.send(1, "a").await;
        admin.send(2, "b").await;
        admin.transport.stuck(1).await;
        assert_eq!(admin.next().await.0, 2, "others pass it");
        admin.transport.release(&Ok(Receipt::default()));
        assert_eq!(admin.next().await.0, 1);
        assert_eq!(admin.transport.delivered_ids(), ["b", "a"]);
    }

    #[tokio::test]
    async fn a_slow_try_takes_its_time_by_the_clock() {
        let (mut admin, clock) = (Admin::new(), ManualClock::new());
        let slow: Arc<dyn Clock> = Arc::new(clock.clone());
        admin.transport.rule(move |_| Some(Reply::Slow(Duration::from_secs(5), Arc::clone(&slow))));
        admin.send(1, "a").await;
        admin.transport.arrived(1).await;
        assert!(admin.transport.delivered_ids().is_empty());
        clock.advance(Duration::from_secs(5));
        assert!(admin.next().await.1.is_ok());
    }

    #[tokio::test]
    async fn a_dropped_try_counts_as_failed() {
        let mut admin = Admin::new();
        admin.transport.rule(|_| Some(Reply::Drop));
        admin.send(1, "a").await;
        assert_eq!(admin.next().await.1.unwrap_err().code, "transport.dropped");
    }
}
