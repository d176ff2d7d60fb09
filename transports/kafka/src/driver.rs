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
//! It feeds librdkafka in the order of the hand-over and sleeps while acknowledgements come ([`crate::context`]). What it
//! decides is when to stop: a producer that had one failure is not used again, because what it would write next could
//! belong behind what failed.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use postroom_core::envelope::Encoder;
use postroom_core::{Failure, FailureKind, Outbound};
use tokio::sync::{mpsc, oneshot};
use tokio::task::{JoinHandle, spawn_blocking};
use tokio::time::{Instant, sleep_until, timeout};

use crate::LOG;
use crate::batches::BatchSizes;
use crate::behind::Behind;
use crate::connection::Connection;
use crate::context::Ended;
use crate::failures;
use crate::message::{self, Message};
use crate::options::{KafkaOptions, QUEUE_MESSAGES};
use crate::topics::{self, Question, Topic, Topics};
use crate::turns::Turns;

/// Most topics looked up at once.
const TOPICS_AT_ONCE: usize = 100;
/// A limit younger than this may kill an event; an older one is looked up again before it does.
const LIMIT_AGE_MAX: Duration = Duration::from_secs(5);
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
    behind: Behind,
    // Only where the topic is made from the event.
    turns: Option<Turns>,
    sizes: BatchSizes,
}

impl Driver {
    pub(crate) fn new(orders: Arc<Orders>, batches: mpsc::UnboundedReceiver<Vec<Outbound>>) -> Self {
        let turns = orders.options.topic.fixed().is_none().then(Turns::default);
        Self {
            orders,
            batches,
            closed: false,
            connection: None,
            queue: VecDeque::new(),
            ready: VecDeque::new(),
            topics: Topics::default(),
            behind: Behind::default(),
            turns,
            sizes: BatchSizes::new(),
        }
    }

    pub(crate) async fn run(mut self) {
        while !self.closed {
            let oldest = self.connection.as_ref().and_then(Connection::oldest_since);
            let deadline = oldest.map(|since| since + self.orders.options.timeout);
            tokio::select! {
                biased;
                () = bell(self.connection.as_ref()) => {}
                batch = self.batches.recv() => self.handed_over(batch),
                () = at(deadline) => {}
            }
            if let Some(ended) = self.must_end() {
                self.give_up(ended);
            }
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

    /// Gives librdkafka as much as it takes. An error is about everything.
    async fn feed(&mut self) -> Result<(), Failure> {
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

    /// Sends what may go; false when librdkafka has no room for it.
    fn send_ready(&mut self) -> bool {
        let Some(connection) = &self.connection else { return true };
        if let Some(turns) = &mut self.turns
            && turns.is_waiting()
        {
            // First, because what is acknowledged from here on rings the bell.
            connection.shared.want_next();
            self.ready.extend(turns.due());
        }
        while let Some(ready) = self.ready.pop_front() {
            if let Some(ready) = connection.send(ready) {
                self.ready.push_front(ready);
                tracing::debug!(target: LOG, route = &*self.orders.route, "librdkafka is full: waiting for acknowledgements");
                // For many at once: each look costs a wake-up.
                connection.shared.want(QUEUE_MESSAGES / 4 * 3);
                return false;
            }
        }
        true
    }

    /// Makes the first of the queue ready, reports why it cannot be, or looks up what that needs.
    async fn prepare_next(&mut self) -> Result<(), Failure> {
        let orders = Arc::clone(&self.orders);
        let Some(outbound) = self.queue.front() else { return Ok(()) };
        let topic = match message::topic(&orders.options, outbound) {
            Ok(name) => match self.topics.get(&name) {
                Some(topic) => topic,
                None => match message::valid_name(&name) {
                    Ok(()) => return self.look_up().await,
                    Err(failure) => Err(failure),
                },
            },
            Err(failure) => Err(failure),
        };
        let Some(outbound) = self.queue.pop_front() else { return Ok(()) };
        if self.behind.must_wait(&outbound) {
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
        let Some((producer, shared)) = self.connection.as_ref().and_then(Connection::to_ask) else { return Ok(()) };
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
        let fixed = options.topic.fixed().map(str::to_owned);
        let asking = spawn_blocking(move || topics::look_up(&producer, &shared, Question { options, names, until }));
        let Some(found) = self.meanwhile(asking).await else { return Ok(()) };
        for (name, topic) in found? {
            if let Ok(Topic { limits, bytes_max, .. }) = &topic {
                limits.batch_bytes_max.into_iter().for_each(|bytes| self.sizes.topic_takes(bytes));
                if fixed.as_ref() == Some(&name) {
                    self.orders.bytes_max.store(bytes_max.unwrap_or_default(), Ordering::Relaxed);
                }
            }
            self.topics.learn(name, topic, &self.orders.route);
        }
        Ok(())
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

    /// Waits for work on another thread while hand-overs come in. Nothing when the wait is over for another reason.
    async fn meanwhile<T>(&mut self, mut work: JoinHandle<Result<T, Failure>>) -> Option<Result<T, Failure>> {
        while !self.closed {
            tokio::select! {
                biased;
                done = &mut work => {
                    let panicked = |_| Err(Failure::unavailable("kafka.fatal", "a thread of the transport panicked"));
                    return Some(done.unwrap_or_else(panicked));
                }
                () = bell(self.connection.as_ref()) => {
                    if let Some(ended) = self.must_end() {
                        self.give_up(ended);
                        return None;
                    }
                }
                batch = self.batches.recv() => self.handed_over(batch),
            }
        }
        None
    }

    /// Reports that this one fails by itself.
    fn refuse(&mut self, outbound: Outbound, failure: Failure) {
        if failure.kind == FailureKind::Unavailable {
            self.behind.given_up(&outbound);
        }
        outbound.report(Err(failure));
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
                given_up = given_up.len(), "the producer is given up, with everything that was not acknowledged"
            );
        }
        for outbound in given_up {
            self.behind.given_up(&outbound);
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

async fn at(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}
