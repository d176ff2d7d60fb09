//! The transport: one task that owns the connection and everybody who waits for an answer.
//!
//! ```text
//!            first delivery: connect
//!   idle ──────────────────────────► connected ──────────────► leaving: nothing new, the last answers
//!     ▲                                 │        READONLY          │
//!     │          lost, timed out        │                          │
//!     └─────────────────────────────────┴──────────────────────────┘
//!                everything in hand: unavailable
//! ```
//!
//! Answers come in the order of the commands, so those who wait are a queue of chunks.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesOrdered;
use futures_util::{FutureExt, StreamExt};
use postroom_core::envelope::Encoder;
use postroom_core::{Capabilities, Diagnostic, Failure, LagReader, Outbound, Transport};
use postroom_transport_kit::driver::{DriverTask, at};
use redis::{Pipeline, RedisResult, Value};
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::connection::Connection;
use crate::lag::GroupLag;
use crate::message::Message;
use crate::options::RedisOptions;
use crate::{LOG, check, failures};

/// Most commands that wait for their answer.
const IN_FLIGHT_MAX: usize = 16_384;
/// Most commands of one pipeline. More of them cost less each, but if the connection is lost between two answers, those
/// before it are lost, too, and their events sent twice.
const CHUNK_MAX: usize = 512;
/// A pipeline is long enough at this size, too.
const CHUNK_BYTES: usize = 256 * 1024;

/// Transport to a Redis stream.
#[derive(Debug)]
pub struct Redis {
    shared: Arc<Shared>,
    driver: DriverTask<Vec<Outbound>>,
}

#[derive(Debug)]
struct Shared {
    route: String,
    options: RedisOptions,
    encoder: Encoder,
    /// What the server said when we last connected; 0 before.
    bulk_bytes_max: AtomicUsize,
}

impl Redis {
    /// Creates a transport with these options. Nothing is connected before the first delivery.
    pub fn new(route: impl Into<String>, options: RedisOptions, encoder: Encoder) -> Self {
        let shared = Shared { route: route.into(), options, encoder, bulk_bytes_max: AtomicUsize::new(0) };
        Self { shared: Arc::new(shared), driver: DriverTask::default() }
    }
}

#[async_trait]
impl Transport for Redis {
    fn capabilities(&self) -> Capabilities {
        let bytes = self.shared.bulk_bytes_max.load(Ordering::Relaxed);
        Capabilities {
            in_flight_max: Some(IN_FLIGHT_MAX),
            envelope_bytes_max: (bytes > 0).then_some(bytes),
            logs_errors: true,
            ..Capabilities::plain("redis")
        }
    }

    async fn deliver(&self, batch: Vec<Outbound>) {
        if let Err(refused) =
            self.driver.hand_over(batch, |batches| Driver::new(Arc::clone(&self.shared), batches).run())
        {
            Outbound::report_all(refused, &failures::closed());
        }
    }

    async fn check(&self) -> Vec<Diagnostic> {
        check::check(&self.shared.options).await
    }

    fn lag_reader(&self) -> Option<Box<dyn LagReader>> {
        let options = &self.shared.options;
        Some(Box::new(GroupLag::new(options, options.consumers.as_ref()?)?))
    }

    async fn close(&self) {
        self.driver.close().await;
    }
}

/// Deliveries of one pipeline.
#[derive(Debug)]
struct Chunk {
    deliveries: Vec<Outbound>,
    until: Instant,
}

/// Owns the connection.
#[derive(Debug)]
struct Driver {
    shared: Arc<Shared>,
    batches: mpsc::UnboundedReceiver<Vec<Outbound>>,
    // What there is no room for yet; a relay that honours the capabilities leaves it empty.
    queue: VecDeque<Outbound>,
    connection: Option<Connection>,
    // The server is no longer the one to write to: only the last answers are waited for.
    leaving: bool,
    // One answer for each of `chunks`, in the same order.
    answers: FuturesOrdered<BoxFuture<'static, RedisResult<Vec<Value>>>>,
    chunks: VecDeque<Chunk>,
    in_flight: usize,
}

impl Driver {
    fn new(shared: Arc<Shared>, batches: mpsc::UnboundedReceiver<Vec<Outbound>>) -> Self {
        Self {
            shared,
            batches,
            queue: VecDeque::new(),
            connection: None,
            leaving: false,
            answers: FuturesOrdered::new(),
            chunks: VecDeque::new(),
            in_flight: 0,
        }
    }

    async fn run(mut self) {
        loop {
            let deadline = self.chunks.front().map(|chunk| chunk.until);
            tokio::select! {
                // What was answered before the end counts.
                biased;
                Some(answers) = self.answers.next() => self.settle(answers),
                () = ended(&mut self.connection) => self.ended(),
                () = at(deadline) => self.timed_out(),
                batch = self.batches.recv() => match batch {
                    Some(batch) => self.queue.extend(batch),
                    None => break,
                },
            }
            if self.leaving && self.chunks.is_empty() {
                (self.connection, self.leaving) = (None, false);
            }
            if self.queue.is_empty() || self.leaving {
                continue;
            }
            if self.connection.is_none() && !self.connect().await {
                break;
            }
            self.fill_window();
        }
        self.give_up(&failures::closed());
    }

    /// Connects; hand-overs go on meanwhile. False when the transport was closed.
    async fn connect(&mut self) -> bool {
        let shared = Arc::clone(&self.shared);
        let mut connecting =
            std::pin::pin!(Connection::open(&shared.options.url, &shared.options.tls, shared.options.timeout));
        let connected = loop {
            tokio::select! {
                connected = &mut connecting => break connected,
                batch = self.batches.recv() => match batch {
                    Some(batch) => self.queue.extend(batch),
                    None => return false,
                },
            }
        };
        match connected {
            Ok(connection) => {
                self.shared.bulk_bytes_max.store(connection.bulk_bytes_max, Ordering::Relaxed);
                self.connection = Some(connection);
            }
            Err(failure) => self.give_up(&failure),
        }
        true
    }

    /// Puts as many on their way as there is room for.
    fn fill_window(&mut self) {
        let Some(connection) = &self.connection else { return };
        let options = &self.shared.options;
        let until = Instant::now() + options.timeout;
        while self.in_flight < IN_FLIGHT_MAX && !self.queue.is_empty() {
            let mut commands = Pipeline::with_capacity(CHUNK_MAX);
            let mut chunk = Chunk { deliveries: Vec::with_capacity(self.queue.len().min(CHUNK_MAX)), until };
            let mut bytes = 0;
            while chunk.deliveries.len() < CHUNK_MAX
                && bytes < CHUNK_BYTES
                && let Some(outbound) = self.queue.pop_front()
            {
                match Message::of(options, &self.shared.encoder, &outbound, connection.bulk_bytes_max) {
                    Ok(message) => {
                        bytes += message.bytes;
                        commands.add_command(message.command);
                        chunk.deliveries.push(outbound);
                    }
                    Err(failure) => outbound.report(Err(failure)),
                }
            }
            if chunk.deliveries.is_empty() {
                continue;
            }
            if let Some(replicas) = options.wait_replicas {
                let within = (options.timeout / 2).as_millis();
                commands.cmd("WAIT").arg(replicas).arg(u64::try_from(within).unwrap_or(u64::MAX).max(1));
            }
            self.in_flight += chunk.deliveries.len();
            self.chunks.push_back(chunk);
            self.answers.push_back(connection.send(commands).boxed());
        }
    }

    fn settle(&mut self, answers: RedisResult<Vec<Value>>) {
        let (mut answers, chunk) = match (answers, self.chunks.pop_front()) {
            (Ok(answers), Some(chunk)) => (answers, chunk),
            (answers, chunk) => {
                // Put back, so that it goes with the others.
                self.chunks.extend(chunk);
                return self.lost(answers.err());
            }
        };
        self.in_flight -= chunk.deliveries.len();
        let too_few = self.shared.options.wait_replicas.and_then(|wanted| too_few(wanted, answers.pop()));
        for (n, outbound) in chunk.deliveries.into_iter().enumerate() {
            let stream = self.shared.options.stream.render(&outbound.event);
            let outcome = stream.and_then(|stream| failures::outcome(answers.get(n).unwrap_or(&Value::Nil), &stream));
            self.leaving |= outcome.as_ref().is_err_and(|failure| failure.code == "redis.read_only");
            outbound.report(match (&too_few, outcome) {
                (Some(failure), Ok(_)) => Err(failure.clone()),
                (_, outcome) => outcome,
            });
        }
        if let Some(failure) = too_few {
            // Those behind would each wait as long for the same replicas.
            self.give_up(&failure);
        }
    }

    fn lost(&mut self, error: Option<redis::RedisError>) {
        let Some(connection) = &self.connection else { return };
        let error = error.unwrap_or_else(|| std::io::Error::from(std::io::ErrorKind::BrokenPipe).into());
        self.give_up(&failures::lost(&error, &connection.server));
    }

    /// The server has hung up. Nobody need know who waits for nothing.
    fn ended(&mut self) {
        if self.chunks.is_empty() { self.connection = None } else { self.lost(None) }
    }

    fn timed_out(&mut self) {
        let overdue = self.chunks.front().and_then(|chunk| chunk.deliveries.first());
        let (Some(connection), Some(overdue)) = (&self.connection, overdue) else { return };
        self.give_up(&failures::timeout(&connection.server, &overdue.event.id, self.shared.options.timeout));
    }

    /// Ends the connection, and with it everything in hand.
    fn give_up(&mut self, failure: &Failure) {
        let in_hand = self.in_flight + self.queue.len();
        if self.connection.take().is_some() && failure.code != "redis.closed" {
            tracing::warn!(
                target: LOG, route = self.shared.route, code = &*failure.code, error = failure.error, in_hand,
                "connection ended"
            );
        }
        (self.answers, self.leaving, self.in_flight) = (FuturesOrdered::new(), false, 0);
        let waiting = self.chunks.drain(..).flat_map(|chunk| chunk.deliveries);
        Outbound::report_all(waiting.chain(self.queue.drain(..)), failure);
    }
}

/// Whether the answer to `WAIT` says that fewer replicas have it than wanted.
fn too_few(wanted: u32, answer: Option<Value>) -> Option<Failure> {
    match answer {
        Some(Value::Int(have)) if have >= i64::from(wanted) => None,
        Some(Value::Int(have)) => Some(failures::replicas(wanted, have)),
        Some(Value::ServerError(error)) => Some(failures::refused(&error, "of every event")),
        _ => Some(failures::replicas(wanted, 0)),
    }
}

async fn ended(connection: &mut Option<Connection>) {
    match connection {
        Some(connection) => connection.ended().await,
        None => std::future::pending().await,
    }
}
