//! The transport: one task that owns the connection and everybody who waits for an acknowledgement.
//!
//! ```text
//!            first delivery: connect, look the stream up
//!   idle ───────────────────────────────────────────────► connected
//!     ▲                                                      │ lost, timed out, lame duck, no permission
//!     └──────────────────────────────────────────────────────┘
//!                everything in hand: unavailable
//! ```
//!
//! With core NATS nobody acknowledges. A marker to ourselves follows what was sent, one at a time; when it is back, the server
//! has taken what was before it.
//!
//! There is no task per event and no wait between two: messages are handed to the client one behind the other, and their
//! answers come to one inbox by number.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use postroom_core::envelope::Encoder;
use postroom_core::{Capabilities, Diagnostic, Failure, LagReader, Outbound, Transport};
use postroom_transport_kit::driver::{DriverTask, at};
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout, timeout_at};

use crate::connection::{Connection, ConnectionEvent, IN_FLIGHT_MAX, Sent};
use crate::lag::StreamLag;
use crate::message::Message;
use crate::options::NatsOptions;
use crate::window::Window;
use crate::{LOG, check, failures};

/// How long the question whether the stream is still there may take once an acknowledgement is overdue.
const LOOK_UP_MAX: Duration = Duration::from_secs(1);

/// Transport to a JetStream stream, or to a subject of core NATS.
#[derive(Debug)]
pub struct Nats {
    shared: Arc<Shared>,
    encoder: Encoder,
    driver: DriverTask<Vec<Ready>>,
}

#[derive(Debug)]
struct Shared {
    route: String,
    options: NatsOptions,
    /// What the server said when we last connected; 0 before.
    payload_bytes_max: AtomicUsize,
}

/// A delivery with its message.
#[derive(Debug)]
struct Ready {
    outbound: Outbound,
    message: Message,
}

impl Nats {
    /// Creates a transport with these options. Nothing is connected before the first delivery.
    pub fn new(route: impl Into<String>, options: NatsOptions, encoder: Encoder) -> Self {
        // Without certificates of our own, a server that insists on TLS makes the client build its own.
        postroom_tls::install_provider();
        let shared = Shared { route: route.into(), options, payload_bytes_max: AtomicUsize::new(0) };
        Self { shared: Arc::new(shared), encoder, driver: DriverTask::default() }
    }
}

#[async_trait]
impl Transport for Nats {
    fn capabilities(&self) -> Capabilities {
        let bytes = self.shared.payload_bytes_max.load(Ordering::Relaxed);
        Capabilities {
            in_flight_max: Some(IN_FLIGHT_MAX),
            envelope_bytes_max: (bytes > 0).then_some(bytes),
            logs_errors: true,
            ..Capabilities::plain("nats")
        }
    }

    async fn deliver(&self, batch: Vec<Outbound>) {
        let Shared { route, options, .. } = &*self.shared;
        let mut ready = Vec::with_capacity(batch.len());
        for outbound in batch {
            match Message::of(route, options, &self.encoder, &outbound) {
                Ok(message) => ready.push(Ready { outbound, message }),
                Err(failure) => outbound.report(Err(failure)),
            }
        }
        if let Err(refused) =
            self.driver.hand_over(ready, |batches| Driver::new(Arc::clone(&self.shared), batches).run())
        {
            Outbound::report_all(refused.into_iter().map(|r| r.outbound), &failures::closed());
        }
    }

    async fn check(&self) -> Vec<Diagnostic> {
        check::check(&self.shared.options, &client_name(&self.shared.route)).await
    }

    fn lag_reader(&self) -> Option<Box<dyn LagReader>> {
        let Shared { route, options, .. } = &*self.shared;
        Some(Box::new(StreamLag::new(options, client_name(route), options.consumers.as_ref()?)?))
    }

    async fn close(&self) {
        self.driver.close().await;
    }
}

/// Owns the connection.
#[derive(Debug)]
struct Driver {
    shared: Arc<Shared>,
    batches: mpsc::UnboundedReceiver<Vec<Ready>>,
    // What the window has no room for yet; a relay that honours the capabilities leaves it empty.
    queue: VecDeque<Ready>,
    window: Window,
    connection: Option<Connection>,
    /// With core NATS: number of the last delivery before the marker that is on its way.
    marker: Option<u64>,
}

impl Driver {
    fn new(shared: Arc<Shared>, batches: mpsc::UnboundedReceiver<Vec<Ready>>) -> Self {
        Self { shared, batches, queue: VecDeque::new(), window: Window::default(), connection: None, marker: None }
    }

    async fn run(mut self) {
        loop {
            let deadline = self.window.oldest().map(|(until, _)| until);
            tokio::select! {
                batch = self.batches.recv() => match batch {
                    Some(batch) => self.queue.extend(batch),
                    None => break,
                },
                said = next(&mut self.connection) => self.hear(said).await,
                () = at(deadline) => self.timed_out().await,
            }
            if self.queue.is_empty() {
                continue;
            }
            if self.connection.is_none() && !self.connect().await {
                break;
            }
            self.fill_window().await;
        }
        self.give_up(&failures::closed());
    }

    /// Connects; hand-overs go on meanwhile. False when the transport was closed.
    async fn connect(&mut self) -> bool {
        let shared = Arc::clone(&self.shared);
        let mut connecting = std::pin::pin!(connect(&shared));
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
                self.shared.payload_bytes_max.store(connection.payload_bytes_max(), Ordering::Relaxed);
                self.connection = Some(connection);
            }
            Err(failure) => self.give_up(&failure),
        }
        true
    }

    /// Puts as many on their way as the window allows.
    async fn fill_window(&mut self) {
        let Some(connection) = &self.connection else { return };
        let until = Instant::now() + self.shared.options.timeout;
        let jetstream = self.shared.options.jetstream;
        while self.window.len() < IN_FLIGHT_MAX
            && let Some(Ready { outbound, message }) = self.queue.pop_front()
        {
            let bytes = message.body.len();
            let number = self.window.next_number();
            let sending = async {
                if jetstream {
                    connection.send(number, message).await
                } else {
                    connection.send_unacknowledged(message).await
                }
            };
            match timeout_at(until, sending).await {
                Ok(Sent::OnItsWay) => self.window.add(outbound, until),
                Ok(Sent::TooLarge) => {
                    let failure = failures::too_large(&outbound.event.id, bytes, connection.payload_bytes_max());
                    outbound.report(Err(failure));
                }
                // The time is up, or the connection; the loop finds out what of the two.
                Ok(Sent::Lost) | Err(_) => {
                    self.window.add(outbound, until);
                    break;
                }
            }
        }
        if !jetstream {
            self.mark().await;
        }
    }

    /// Sends a marker behind all that is on its way, unless one is on its way itself.
    async fn mark(&mut self) {
        let (Some(connection), None, Some((until, _))) = (&self.connection, self.marker, self.window.oldest()) else {
            return;
        };
        self.marker = self.window.next_number().checked_sub(1);
        // Not in time is found out by the loop.
        let _ = timeout_at(until, connection.mark()).await;
    }

    async fn hear(&mut self, said: ConnectionEvent) {
        let mut said = Some(said);
        while let Some(now) = said {
            match now {
                ConnectionEvent::Answer(number, answer) => self.settle(number, &answer),
                ConnectionEvent::Marked => self.marked().await,
                ConnectionEvent::Over(failure) => return self.give_up(&failure),
            }
            said = self.connection.as_mut().and_then(Connection::next_at_hand);
        }
    }

    fn settle(&mut self, number: u64, answer: &async_nats::Message) {
        // Somebody who only listens on the subject may answer, too, or the server twice; the acknowledgement counts.
        let Some(outcome) = failures::outcome(answer, self.shared.options.stream.as_deref()) else { return };
        if let Some(outbound) = self.window.take(number) {
            outbound.report(outcome);
        }
    }

    /// The marker is back, which settles what was before it; the next one follows what was sent since.
    async fn marked(&mut self) {
        let (Some(connection), Some(number)) = (&self.connection, self.marker.take()) else { return };
        let receipt = failures::taken(&connection.server);
        for outbound in self.window.take_through(number) {
            outbound.report(Ok(receipt.clone()));
        }
        self.mark().await;
    }

    /// An acknowledgement is overdue. A stream that was deleted is the one reason that can be found out.
    async fn timed_out(&mut self) {
        let (Some(connection), Some((_, overdue))) = (&mut self.connection, self.window.oldest()) else { return };
        let options = &self.shared.options;
        let mut failure = failures::timeout(&connection.server, &overdue.event.id, options.timeout);
        if let Some(stream) = &options.stream {
            let look_up = timeout(LOOK_UP_MAX.min(options.timeout), connection.stream(stream, None)).await;
            // No answer to that either is nothing new.
            if let Ok(Err(reason)) = look_up
                && reason.code != "nats.unreachable"
            {
                failure = reason;
            }
        }
        // What has come while we asked counts.
        while let Some(ConnectionEvent::Answer(number, answer)) =
            self.connection.as_mut().and_then(Connection::next_at_hand)
        {
            self.settle(number, &answer);
        }
        self.give_up(&failure);
    }

    /// Ends the connection, and with it everything in hand.
    fn give_up(&mut self, failure: &Failure) {
        let in_hand = self.window.len() + self.queue.len();
        self.marker = None;
        if self.connection.take().is_some() && failure.code != "nats.closed" {
            tracing::warn!(
                target: LOG, route = self.shared.route, code = &*failure.code, error = failure.error, in_hand,
                "connection ended"
            );
        }
        Outbound::report_all(self.window.drain().chain(self.queue.drain(..).map(|r| r.outbound)), failure);
    }
}

async fn connect(shared: &Shared) -> Result<Connection, Failure> {
    let options = &shared.options;
    let mut connection = Connection::open(options, &client_name(&shared.route)).await?;
    if !options.jetstream {
        tracing::warn!(
            target: LOG, route = shared.route, server = connection.server, code = failures::CORE,
            "core NATS: events count as delivered when the server has taken them, whether or not anybody listens"
        );
    }
    if let Some(stream) = &options.stream {
        let found = connection.stream(stream, options.create.as_ref()).await?;
        if found.config.no_ack {
            return Err(failures::never_acks(stream));
        }
    }
    Ok(connection)
}

/// How the server's list of connections calls us.
fn client_name(route: &str) -> String {
    format!("postroom {route}")
}

async fn next(connection: &mut Option<Connection>) -> ConnectionEvent {
    match connection {
        Some(connection) => connection.next().await,
        None => std::future::pending().await,
    }
}
