//! What a transport's test file provides, and the stand-in for the engine that the cases deliver with.

use std::collections::HashMap;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use postroom_core::{Event, FailureKind, Outbound, Outcome, Transport};
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};

/// How long a case waits for something that must happen before it fails.
pub const PATIENCE: Duration = Duration::from_mins(5);

/// A destination of its own for one case; it accepts everything unless told otherwise.
#[async_trait]
pub trait Harness: Sized + Send + Sync {
    /// A fresh destination, and transports to it that give up on an unanswered delivery after this long.
    async fn start(timeout: Duration) -> Self;

    /// A fresh transport to the destination. The case owns it alone.
    fn transport(&self) -> Arc<dyn Transport>;

    /// How many processes, connections or tasks of its transports still run.
    async fn running(&self) -> usize;
}

/// A destination that can tell what arrived.
#[async_trait]
pub trait Observed: Harness {
    /// What has arrived so far, in order.
    async fn arrived(&self) -> Vec<Arrived>;
}

/// A destination that can be told how to answer.
#[async_trait]
pub trait Scripted: Observed {
    /// From now on the event of this id is answered like this; also if it is being held already.
    async fn behave(&self, id: &str, behaviour: Behaviour);
}

/// A destination that can be switched off and on.
#[async_trait]
pub trait Breakable: Observed {
    /// Switches it off.
    async fn stop(&self);
    /// Switches it on again.
    async fn resume(&self);
}

/// An event as the destination saw it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Arrived {
    /// The event's id.
    pub id: String,
    /// The event's type.
    pub event_type: String,
    /// The payload's text.
    pub payload: String,
}

/// How a destination answers an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Behaviour {
    /// Takes it.
    Accept,
    /// Refuses it this time.
    RefuseForNow,
    /// Refuses it for good.
    RefuseForGood,
    /// Has it, and answers when told to behave otherwise.
    Hold,
    /// Has it, and never answers.
    Ignore,
}

/// Stands in for the engine: hands over, and collects what is reported.
#[derive(Debug)]
pub struct Post {
    transport: Arc<dyn Transport>,
    report: mpsc::UnboundedSender<(u64, Outcome)>,
    outcomes: mpsc::UnboundedReceiver<(u64, Outcome)>,
    handed_over: u64,
    // As the engine counts them: a new one begins when all is heard of.
    round: u64,
    on_their_way: HashMap<u64, Event>,
    // By event id: what is sent again has the number it had.
    positions: HashMap<String, i64>,
}

impl Post {
    /// Delivers through this transport.
    pub fn new(transport: Arc<dyn Transport>) -> Self {
        let (report, outcomes) = mpsc::unbounded_channel();
        let (on_their_way, positions) = (HashMap::new(), HashMap::new());
        Self { transport, report, outcomes, handed_over: 0, round: 0, on_their_way, positions }
    }

    /// Hands over one batch.
    pub async fn deliver(&mut self, events: &[Event]) {
        let mut batch = Vec::with_capacity(events.len());
        self.round += u64::from(self.on_their_way.is_empty());
        for event in events {
            self.handed_over += 1;
            self.on_their_way.insert(self.handed_over, event.clone());
            let next = i64::try_from(self.positions.len() + 1).unwrap_or(i64::MAX);
            let position = *self.positions.entry(event.id.clone()).or_insert(next);
            let (event, report) = (Arc::new(event.clone()), self.report.clone());
            let mut outbound = Outbound::new(self.handed_over, 1, event, Some(position), report);
            outbound.round = self.round;
            batch.push(outbound);
        }
        within("the hand-over", self.transport.deliver(batch)).await;
    }

    /// The next outcome and whose it is.
    pub async fn outcome(&mut self) -> (Event, Outcome) {
        let Some((ticket, outcome)) = within("an outcome", self.outcomes.recv()).await else {
            panic!("this post holds a sender, so the channel is open")
        };
        self.identify(ticket, outcome)
    }

    /// One outcome for everything handed over and not yet reported, by event id.
    pub async fn outcomes(&mut self) -> HashMap<String, Outcome> {
        let mut outcomes = HashMap::new();
        while !self.on_their_way.is_empty() {
            let (event, outcome) = self.outcome().await;
            outcomes.insert(event.id, outcome);
        }
        outcomes
    }

    /// Whether nothing has been reported that was not yet asked for.
    pub fn is_silent(&self) -> bool {
        self.outcomes.is_empty()
    }

    /// Delivers one batch, and what was unavailable again, as a relay would, until everything got through.
    pub async fn deliver_until_ok(&mut self, events: &[Event]) {
        let mut left = events.to_vec();
        let all_ok = async {
            while !left.is_empty() {
                self.deliver(&left).await;
                left.clear();
                let mut pause = Duration::ZERO;
                while !self.on_their_way.is_empty() {
                    let (event, outcome) = self.outcome().await;
                    let Err(failure) = outcome else { continue };
                    assert_eq!(failure.kind, FailureKind::Unavailable, "{failure:?}");
                    pause = pause.max(failure.retry_after.unwrap_or(Duration::from_millis(20)));
                    left.push(event);
                }
                sleep(pause).await;
            }
        };
        within("everything to get through", all_ok).await;
    }

    /// Closes the transport; nothing but the last outcomes may follow. They come back by event id.
    pub async fn close(self) -> HashMap<String, Outcome> {
        within("the close", self.transport.close()).await;
        self.give_up().await
    }

    /// Lets go of the transport without closing it. The last outcomes come back by event id.
    pub async fn give_up(self) -> HashMap<String, Outcome> {
        let Self { transport, report, mut outcomes, mut on_their_way, .. } = self;
        drop((transport, report));
        let mut last = HashMap::new();
        while let Some((ticket, outcome)) = within("the last outcomes", outcomes.recv()).await {
            let Some(event) = on_their_way.remove(&ticket) else { panic!("ticket {ticket} was reported twice") };
            last.insert(event.id, outcome);
        }
        assert!(on_their_way.is_empty(), "{} deliveries were never reported", on_their_way.len());
        last
    }

    fn identify(&mut self, ticket: u64, outcome: Outcome) -> (Event, Outcome) {
        match self.on_their_way.remove(&ticket) {
            Some(event) => (event, outcome),
            None => panic!("ticket {ticket} was reported twice"),
        }
    }
}

/// Looks again and again until it is so.
pub async fn until<F, R>(what: &str, mut is_so: F)
where
    F: FnMut() -> R,
    R: Future<Output = bool>,
{
    let lookup = async {
        while !is_so().await {
            sleep(Duration::from_millis(5)).await;
        }
    };
    within(what, lookup).await;
}

async fn within<R>(what: &str, future: impl Future<Output = R>) -> R {
    let Ok(result) = timeout(PATIENCE, future).await else { panic!("waited {PATIENCE:?} for {what}") };
    result
}

/// Time-out for the cases in which every answer is expected.
pub(super) const LONG: Duration = Duration::from_secs(30);

/// An event of this id.
pub(super) fn event(id: &str) -> Event {
    Event::new("parcel.sent").id(id).key(id).bytes(postroom_core::JSON, format!(r#"{{"parcel":"{id}"}}"#))
}

/// So many events.
pub(super) fn events(count: usize) -> Vec<Event> {
    (0..count).map(|n| event(&format!("e-{n}"))).collect()
}
