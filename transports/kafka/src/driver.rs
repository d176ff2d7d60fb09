//! One task that owns the producer and everything that waits for it.
//!
//! ```text
//!        first delivery                       refused, down, silent, fatal
//!   no producer ───────────────► producer ──────────────────────────────────────► no producer
//!                                 │      ▲   everything not acknowledged: unavailable
//!             batches must change │      │
//!                                 └──────┘
//!                            drained, and made anew
//! ```
//!
//! It feeds librdkafka ([`feed`]) in the order of the hand-over and sleeps while acknowledgements come ([`crate::context`]).
//! What it decides here is when to stop: a producer that had one failure is not used again, because what it would write next could
//! belong behind what failed.

mod feed;

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;

use postroom_core::envelope::Encoder;
use postroom_core::{Failure, Outbound};
use postroom_transport_kit::driver::at;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout};

use crate::LOG;
use crate::batches::BatchSizes;
use crate::behind::Behind;
use crate::connection::Connection;
use crate::context::Ended;
use crate::failures;
use crate::message::Message;
use crate::options::KafkaOptions;
use crate::topics::{Question, Topic, Topics};
use crate::turns::Turns;

/// How long an acknowledgement may take before we look whether its topic is still there. librdkafka does not say.
const WORRIED_AFTER: Duration = Duration::from_secs(2);
/// How long a close waits for librdkafka's threads.
const CLOSE_GRACE: Duration = Duration::from_secs(2);

/// A delivery with everything that is sent.
#[derive(Debug)]
pub(crate) struct Ready {
    pub(crate) outbound: Outbound,
    pub(crate) topic: Arc<Topic>,
    pub(crate) message: Message,
    /// How many of its key are on their way, where that is counted.
    pub(crate) turn: Option<Arc<AtomicUsize>>,
}

/// What a transport tells its driver once.
#[derive(Debug)]
pub(crate) struct Orders {
    pub(crate) route: Arc<str>,
    pub(crate) options: Arc<KafkaOptions>,
    pub(crate) encoder: Encoder,
    /// The size the topic takes, where that is one topic, once it is known; 0 before.
    pub(crate) bytes_max: AtomicUsize,
}

#[derive(Debug)]
pub(crate) struct Driver {
    orders: Arc<Orders>,
    batches: mpsc::UnboundedReceiver<Vec<Outbound>>,
    closed: bool,
    connection: Option<Connection>,
    // Handed over and not looked at; looked at and waiting for room.
    queue: VecDeque<Outbound>,
    ready: VecDeque<Ready>,
    topics: Topics,
    /// Where the next of a key may come before the engine has heard of one that was given up.
    behind: Option<Behind>,
    // Only where the topic is made from the event.
    turns: Option<Turns>,
    sizes: BatchSizes,
    // When we last looked why an acknowledgement takes so long.
    worried: Option<Instant>,
    // When librdkafka may have room again.
    retry_at: Option<Instant>,
}

impl Driver {
    pub(crate) fn new(orders: Arc<Orders>, batches: mpsc::UnboundedReceiver<Vec<Outbound>>) -> Self {
        let behind = orders.options.pipelines_key().then(Behind::default);
        let turns = orders.options.topic.fixed().is_none().then(Turns::default);
        Self {
            orders,
            batches,
            closed: false,
            connection: None,
            queue: VecDeque::new(),
            ready: VecDeque::new(),
            topics: Topics::default(),
            behind,
            turns,
            sizes: BatchSizes::new(),
            worried: None,
            retry_at: None,
        }
    }

    pub(crate) async fn run(mut self) {
        while !self.closed {
            let look_at = self.next_look();
            tokio::select! {
                biased;
                () = bell(self.connection.as_ref()) => {}
                batch = self.batches.recv() => self.handed_over(batch),
                () = at(look_at) => {}
                () = at(self.retry_at) => {}
            }
            if let Some(ended) = self.must_end() {
                self.give_up(ended);
            }
            self.look_why().await;
            if let Err(failure) = self.feed().await {
                self.give_up(failure.into());
            }
        }
        if let Some(gone) = self.give_up(failures::closed().into()) {
            // Threads of librdkafka that hang in a name server are left to themselves.
            let _ = timeout(CLOSE_GRACE, gone).await;
        }
    }

    fn handed_over(&mut self, batch: Option<Vec<Outbound>>) {
        match batch {
            Some(batch) => self.queue.extend(batch),
            None => self.closed = true,
        }
    }

    /// When the oldest has waited too long.
    fn deadline(&self) -> Option<Instant> {
        self.connection.as_ref().and_then(Connection::oldest_since).map(|since| since + self.orders.options.timeout)
    }

    /// When the oldest has waited too long, or long enough to ask why.
    fn next_look(&self) -> Option<Instant> {
        let since = self.connection.as_ref().and_then(Connection::oldest_since)?;
        let worry = self.worried.map_or(since, |last| last.max(since)) + WORRIED_AFTER;
        Some(worry.min(since + self.orders.options.timeout))
    }

    /// Asks for the topic of the oldest again when its acknowledgement takes long: it may have been deleted.
    async fn look_why(&mut self) {
        if self.next_look().is_none_or(|at| at > Instant::now()) {
            return;
        }
        let Some((since, topic)) = self.connection.as_ref().and_then(Connection::oldest_topic) else { return };
        self.worried = Some(Instant::now());
        let until = since + self.orders.options.timeout;
        let question = Question { options: Arc::clone(&self.orders.options), names: vec![topic], until, limits: false };
        // Who does not answer is found out by the time-out.
        for (name, topic) in self.ask(question).await.into_iter().flatten().flatten() {
            if let Err(failure) = topic {
                self.give_up(Ended { failure, topic: Some(name), batch_refused: false });
            }
        }
    }

    /// Why the producer must not go on, if so.
    fn must_end(&mut self) -> Option<Ended> {
        let connection = self.connection.as_ref()?;
        if let Some(ended) = connection.ended() {
            return Some(ended);
        }
        if connection.shared.is_down() {
            if connection.in_flight() > 0 {
                return connection.shared.trouble().map(Ended::from);
            }
            // An idle connection that was closed is no outage: asking tells.
            self.topics.forget_all();
        }
        let timeout = self.orders.options.timeout;
        let (since, id) = connection.oldest()?;
        let silent = || failures::silent(&format!("event {id} was not acknowledged"), timeout);
        (since + timeout <= Instant::now()).then(silent).map(Ended::from)
    }

    /// Waits for work on another thread while hand-overs come in. Nothing when the wait is over for another reason.
    async fn meanwhile<T>(&mut self, mut work: JoinHandle<Result<T, Failure>>) -> Option<Result<T, Failure>> {
        while !self.closed {
            let deadline = self.deadline();
            tokio::select! {
                biased;
                done = &mut work => {
                    let panicked = |_| Err(Failure::unavailable("kafka.fatal", "a thread of the transport panicked"));
                    return Some(done.unwrap_or_else(panicked));
                }
                () = bell(self.connection.as_ref()) => {}
                batch = self.batches.recv() => self.handed_over(batch),
                () = at(deadline) => {}
            }
            if let Some(ended) = self.must_end() {
                self.give_up(ended);
                return None;
            }
        }
        None
    }

    /// Ends the producer and gives back everything there is. The receiver hears when it has gone.
    fn give_up(&mut self, ended: Ended) -> Option<oneshot::Receiver<()>> {
        let Ended { failure, topic, batch_refused } = ended;
        let (mut given_up, mut gone) = (Vec::new(), None);
        if let Some(connection) = self.connection.take() {
            let acknowledged = connection.shared.acked();
            let (unacknowledged, hears) = connection.end();
            if batch_refused {
                self.sizes.refused(unacknowledged.len(), acknowledged);
            }
            (given_up, gone) = (unacknowledged, Some(hears));
        }
        self.topics.forget_all();
        if let Some(topic) = topic {
            self.topics.refuse(topic, failure.clone());
        }
        given_up.extend(self.ready.drain(..).map(|ready| ready.outbound));
        given_up.extend(self.turns.as_mut().into_iter().flat_map(Turns::drain));
        given_up.extend(self.queue.drain(..));
        if !self.closed {
            tracing::warn!(
                target: LOG, route = &*self.orders.route, code = &*failure.code, error = failure.error,
                given_up = given_up.len(), "Kafka producer replaced; events that were not acknowledged are sent again"
            );
        }
        for outbound in given_up {
            if let Some(behind) = &mut self.behind {
                behind.given_up(&outbound);
            }
            outbound.report(Err(failure.clone()));
        }
        gone
    }
}

async fn bell(connection: Option<&Connection>) {
    match connection {
        Some(connection) => connection.shared.bell.notified().await,
        None => std::future::pending().await,
    }
}
