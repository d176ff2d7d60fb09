//! The transport: one task that owns the program, and decides what its end means for the events it had.
//!
//! ```text
//!                                   answered
//!   delivered ──► program ────────────────────────────────► reported
//!                  │    ▲ ended: had not read it                ▲
//!                  │    └──────────────┐                        │
//!                  │ ended: had read it│  (several, or it died) │
//!                  └──────────────────►│──► program of its own ─┤ answered
//!                                           one event at a time └ ended: had read it ──► crashed
//! ```
//!
//! A program that ends without having read anything is down: everything it had is unavailable, no attempt is counted.
//! Whatever it had begun to read may have ended it; those events are tried once more, one by one, in a second program, so
//! that the others go on meanwhile. The one that ends that program too is to blame ([`crate::suspicion`]), and is tried
//! there from then on. Of a socket nobody knows what was read, nor is there a second one: its end is always that of the destination.
//!
//! What goes over the wire is [`crate::protocol`], how it gets there is [`crate::connection`].

use std::collections::VecDeque;
use std::sync::Arc;

use async_trait::async_trait;
use postroom_core::{Capabilities, Diagnostic, Failure, FailureKind, Outbound, Transport};
use postroom_transport_kit::driver::DriverTask;
use tokio::sync::mpsc;

use crate::LOG;
use crate::check;
use crate::options::{ExecOptions, Target};
use crate::program::{Ended, News, Program};
use crate::protocol;
use crate::suspicion::{Suspect, Suspicion};

/// How many events that ended a program are remembered.
const BLAMED_MAX: usize = 1024;

/// Transport to a child process or a unix socket. See the [crate] for the protocol.
#[derive(Debug)]
pub struct Exec {
    options: Arc<ExecOptions>,
    driver: DriverTask<Vec<Ready>>,
}

/// A delivery with its line.
#[derive(Debug)]
pub(crate) struct Ready {
    pub(crate) outbound: Outbound,
    pub(crate) line: Arc<[u8]>,
}

impl Ready {
    pub(crate) fn id(&self) -> &str {
        &self.outbound.event.id
    }
}

impl Exec {
    /// Creates a transport with these options. Nothing is started before the first delivery.
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
                Ok(line) => ready.push(Ready { outbound, line: line.into() }),
                Err(failure) => outbound.report(Err(failure)),
            }
        }
        if let Err(refused) =
            self.driver.hand_over(ready, |batches| Driver::new(Arc::clone(&self.options), batches).run())
        {
            Outbound::report_all(refused.into_iter().map(|r| r.outbound), &closed());
        }
    }

    async fn check(&self) -> Vec<Diagnostic> {
        check::check(&self.options).await
    }

    async fn close(&self) {
        self.driver.close().await;
    }
}

/// Owns the programs.
#[derive(Debug)]
struct Driver {
    options: Arc<ExecOptions>,
    batches: mpsc::UnboundedReceiver<Vec<Ready>>,
    program: Program,
    // For events that may have ended the other one: one at a time, and only while there are some.
    apart: Program,
    suspicion: Suspicion,
    // Events that are to blame for an end, the latest last.
    blamed: VecDeque<String>,
}

impl Driver {
    fn new(options: Arc<ExecOptions>, batches: mpsc::UnboundedReceiver<Vec<Ready>>) -> Self {
        Self {
            program: Program::new(Arc::clone(&options), options.in_flight.max(1)),
            apart: Program::new(Arc::clone(&options), 1),
            options,
            batches,
            suspicion: Suspicion::default(),
            blamed: VecDeque::new(),
        }
    }

    async fn run(mut self) {
        loop {
            tokio::select! {
                batch = self.batches.recv() => match batch {
                    Some(batch) => self.sort(batch),
                    None => break,
                },
                news = self.program.next() => self.happened(news).await,
                news = self.apart.next() => self.happened_apart(news).await,
            }
            self.program.fill_window().await;
            self.apart.fill_window().await;
            if self.program.is_idle()
                && self.apart.is_idle()
                && let Some(suspect) = self.suspicion.nobody_else_to_ask()
            {
                self.blame(suspect);
            }
            self.apart.dismiss_if_idle();
        }
        let Self { program, apart, suspicion, .. } = self;
        Outbound::report_all(suspicion.into_suspect().map(|suspect| suspect.ready.outbound), &closed());
        tokio::join!(program.close(), apart.close());
    }

    fn sort(&mut self, batch: Vec<Ready>) {
        let (blamed, others): (Vec<Ready>, Vec<Ready>) =
            batch.into_iter().partition(|ready| self.blamed.iter().any(|id| id == ready.id()));
        self.program.push(others);
        self.apart.push(blamed);
    }

    async fn happened(&mut self, news: News) {
        let ended = match news {
            News::Answer(answer) => {
                self.program.settle(answer);
                return self.answered();
            }
            News::Ended(ending) => self.program.ended(&ending).await,
            News::TimedOut => self.program.timed_out().await,
        };
        let Some(Ended { failure, timed_out, mut read, untouched }) = ended else { return };
        if read.is_empty() || matches!(self.options.target, Target::Socket(_)) {
            return self.program.down(failure, read.into_iter().chain(untouched));
        }
        self.program.push_first(untouched);
        // It had all its time, and nothing else was asked of the program.
        if timed_out && read.len() == 1 {
            return self.ended_by(&failure, read);
        }
        if timed_out {
            // Tried last: the others may only have waited behind it.
            read.rotate_left(1);
        }
        let route = &self.options.route;
        tracing::warn!(
            target: LOG, route, code = &*failure.code, error = failure.error, events = read.len(),
            "program ended; the events that it had begun to read are tried one by one in another one"
        );
        self.apart.push(read);
    }

    async fn happened_apart(&mut self, news: News) {
        let ended = match news {
            News::Answer(answer) => {
                if let Some(id) = self.apart.settle(answer) {
                    self.blamed.retain(|blamed| *blamed != id);
                }
                return self.answered();
            }
            News::Ended(ending) => self.apart.ended(&ending).await,
            News::TimedOut => self.apart.timed_out().await,
        };
        let Some(Ended { failure, read, untouched, .. }) = ended else { return };
        if read.is_empty() {
            return self.apart.down(failure, untouched);
        }
        self.ended_by(&failure, read);
    }

    /// Takes in that a program answered: it works.
    fn answered(&mut self) {
        if let Some(suspect) = self.suspicion.answered() {
            self.blame(suspect);
        }
    }

    /// Takes in that these, which is one, have ended a program that had nothing else.
    fn ended_by(&mut self, failure: &Failure, events: VecDeque<Ready>) {
        for ready in events {
            let down = self.suspicion.ended_by(ready, failure.clone());
            if !down.is_empty() {
                self.apart.down(failure.clone(), down.into_iter().map(|suspect| suspect.ready));
            }
        }
    }

    /// Reports that this event has ended its program.
    fn blame(&mut self, Suspect { ready, failure }: Suspect) {
        let (route, id, attempt) = (&self.options.route, ready.id(), ready.outbound.attempt);
        let Failure { code, error, .. } = &failure;
        tracing::warn!(target: LOG, route, event_id = id, attempt, code = &**code, error, "event ended its program");
        if !self.blamed.iter().any(|blamed| blamed == id) {
            self.blamed.push_back(id.to_owned());
        }
        if self.blamed.len() > BLAMED_MAX {
            self.blamed.pop_front();
        }
        ready.outbound.report(Err(Failure { kind: FailureKind::Crashed, ..failure }));
    }
}

pub(crate) fn closed() -> Failure {
    Failure::unavailable("exec.closed", "the transport is closed; the event is sent again by the next relay")
}
