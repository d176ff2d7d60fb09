//! The transport: one task that owns the conversation and everybody who waits for an answer.
//!
//! ```text
//!            first delivery                    died, timed out, broke the protocol
//!   idle ───────────────────────► connected ─────────────────────────────────────► resting
//!                                     ▲        everything in flight: unavailable       │
//!                                     └────────────────────────────────────────────────┘
//!                                       first delivery after the backoff; those before it: unavailable
//! ```
//!
//! What goes over the wire is [`crate::protocol`], how it gets there is [`crate::connection`].

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use postroom_core::driver::{DriverTask, at};
use postroom_core::{Capabilities, Failure, Finding, Outbound, Transport, units};
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout_at};

use crate::LOG;
use crate::backoff::Backoff;
use crate::check;
use crate::connection::{Connection, Ending};
use crate::in_flight::InFlight;
use crate::lines::Throttle;
use crate::options::{ExecOptions, Target};
use crate::protocol::{self, Answer};

/// How long a child may take to leave once its stdin is closed.
const CLOSE_GRACE: Duration = Duration::from_secs(5);

/// Delivers to a child process or a unix socket. See the [crate] for the protocol.
#[derive(Debug)]
pub struct Exec {
    options: Arc<ExecOptions>,
    driver: DriverTask<Vec<Ready>>,
}

/// A delivery with its line.
#[derive(Debug)]
struct Ready {
    outbound: Outbound,
    line: Vec<u8>,
}

impl Exec {
    /// A transport with these options. Nothing is started before the first delivery.
    pub fn new(options: ExecOptions) -> Self {
        Self { options: Arc::new(options), driver: DriverTask::default() }
    }
}

#[async_trait]
impl Transport for Exec {
    fn capabilities(&self) -> Capabilities {
        Capabilities { in_flight_max: Some(self.options.in_flight.max(1)), ..Capabilities::plain("exec") }
    }

    async fn deliver(&self, batch: Vec<Outbound>) {
        let mut ready = Vec::with_capacity(batch.len());
        for outbound in batch {
            match protocol::request(&self.options.encoder, &self.options.route, &outbound) {
                Ok(line) => ready.push(Ready { outbound, line }),
                Err(failure) => outbound.report(Err(failure)),
            }
        }
        if let Err(refused) =
            self.driver.hand_over(ready, |batches| Driver::new(Arc::clone(&self.options), batches).run())
        {
            Outbound::report_all(refused.into_iter().map(|r| r.outbound), &closed());
        }
    }

    async fn check(&self) -> Vec<Finding> {
        check::check(&self.options.target).await
    }

    async fn close(&self) {
        self.driver.close().await;
    }
}

/// Owns the conversation.
#[derive(Debug)]
struct Driver {
    options: Arc<ExecOptions>,
    batches: mpsc::UnboundedReceiver<Vec<Ready>>,
    // What the window has no room for yet; a relay that honours the capabilities leaves it empty.
    queue: VecDeque<Ready>,
    in_flight: InFlight,
    connection: Option<Connection>,
    backoff: Backoff,
    // Why there is no conversation, and when one may be tried again.
    resting: Option<(Instant, Failure)>,
    throttle: Throttle,
}

impl Driver {
    fn new(options: Arc<ExecOptions>, batches: mpsc::UnboundedReceiver<Vec<Ready>>) -> Self {
        Self {
            options,
            batches,
            queue: VecDeque::new(),
            in_flight: InFlight::default(),
            connection: None,
            backoff: Backoff::default(),
            resting: None,
            throttle: Throttle::new(),
        }
    }

    async fn run(mut self) {
        loop {
            let deadline = self.in_flight.first().map(|(until, _)| until);
            tokio::select! {
                batch = self.batches.recv() => match batch {
                    Some(batch) => self.queue.extend(batch),
                    None => break,
                },
                said = next(&mut self.connection) => match said {
                    Ok(answer) => self.settle(answer),
                    Err(ending) => self.ended(&ending).await,
                },
                () = at(deadline) => self.timed_out().await,
            }
            self.fill_window().await;
        }
        self.close().await;
    }

    /// Hands over as many as the window allows, starting the conversation if there is none.
    async fn fill_window(&mut self) {
        while self.in_flight.len() < self.options.in_flight.max(1)
            && let Some(Ready { outbound, line }) = self.queue.pop_front()
        {
            if let Err(failure) = self.connect().await {
                outbound.report(Err(failure));
                continue;
            }
            if let Some(connection) = &self.connection {
                connection.send(line);
                // Counted from here, so that a child that does not even read is found out.
                self.in_flight.add(outbound, Instant::now() + self.options.timeout);
            }
        }
    }

    async fn connect(&mut self) -> Result<(), Failure> {
        if self.connection.is_some() {
            return Ok(());
        }
        if let Some((until, failure)) = &self.resting {
            let left = until.saturating_duration_since(Instant::now());
            if !left.is_zero() {
                return Err(failure.clone().retry_after(left));
            }
        }
        match Connection::open(&self.options).await {
            Ok(connection) => {
                self.connection = Some(connection);
                self.resting = None;
                Ok(())
            }
            Err(failure) => Err(self.rest(failure)),
        }
    }

    fn settle(&mut self, answer: Answer) {
        let Some(outbound) = self.in_flight.take(&answer.id) else {
            if let Some(suppressed) = self.throttle.admit() {
                let route = &self.options.route;
                tracing::warn!(target: LOG, route, suppressed, "an answer nobody waits for was ignored");
            }
            return;
        };
        if answer.outcome.is_ok() {
            self.backoff.reset();
        }
        outbound.report(answer.outcome);
    }

    async fn ended(&mut self, ending: &Ending) {
        if let Some(connection) = self.connection.take() {
            let how = connection.ended(ending).await;
            let failure = Failure::unavailable("exec.died", format!("{}: {how}", self.options.target));
            self.fail_in_flight(failure);
        }
    }

    async fn timed_out(&mut self) {
        let (Some((_, id)), Some(connection)) = (self.in_flight.first(), self.connection.take()) else { return };
        let was_ended = match self.options.target {
            Target::Command(_) => "killed",
            Target::Socket(_) => "disconnected",
        };
        let error = format!(
            "{} did not answer event {id} within {} and was {was_ended}",
            self.options.target,
            units::format_duration(self.options.timeout)
        );
        connection.end(Duration::ZERO).await;
        self.fail_in_flight(Failure::unavailable("exec.timeout", error));
    }

    fn fail_in_flight(&mut self, failure: Failure) {
        let failure = self.rest(failure);
        Outbound::report_all(self.in_flight.drain(), &failure);
    }

    /// Starts the backoff; the failure comes back with it.
    fn rest(&mut self, failure: Failure) -> Failure {
        let pause = self.backoff.next();
        tracing::warn!(
            target: LOG, route = self.options.route, code = &*failure.code, error = failure.error,
            in_flight = self.in_flight.len(), backoff = units::format_duration(pause), "the conversation is over"
        );
        self.resting = Some((Instant::now() + pause, failure.clone()));
        failure.retry_after(pause)
    }

    async fn close(mut self) {
        Outbound::report_all(self.queue.drain(..).map(|r| r.outbound), &closed());
        let Some(mut connection) = self.connection.take() else { return };
        let grace = Instant::now() + CLOSE_GRACE;
        connection.close_input();
        let is_child = matches!(self.options.target, Target::Command(_));
        // Answers that still come count; a child must also have left, a socket's other end has a life of its own.
        while is_child || self.in_flight.len() > 0 {
            match timeout_at(grace, connection.next()).await {
                Ok(Ok(answer)) => self.settle(answer),
                Ok(Err(_)) | Err(_) => break,
            }
        }
        connection.end(grace.saturating_duration_since(Instant::now())).await;
        Outbound::report_all(self.in_flight.drain(), &closed());
    }
}

async fn next(connection: &mut Option<Connection>) -> Result<Answer, Ending> {
    match connection {
        Some(connection) => connection.next().await,
        None => std::future::pending().await,
    }
}

fn closed() -> Failure {
    Failure::unavailable("exec.closed", "the transport is closed; the event is sent again by the next relay")
}
