//! Prints one envelope per line, for pipes and for people.
//!
//! A task of its own writes, so that a reader who pauses holds back this route and nothing else.

use std::fmt;
use std::io;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use postroom_core::envelope::Encoder;
use postroom_core::{Capabilities, Failure, Outbound, Receipt, Transport};
use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

/// How long a close waits for a reader who has paused.
const CLOSE_GRACE: Duration = Duration::from_secs(5);

/// Transport that prints envelopes, one JSON text per line; flushed after every batch, and only then reported as delivered.
///
/// Line breaks between the tokens of a payload become spaces; everything else is printed byte for byte. A closed pipe
/// is `Unavailable` (`stdout.closed`). An envelope that is not JSON cannot be one line and is a dead letter.
pub struct Stdout<W = tokio::io::Stdout> {
    encoder: Encoder,
    state: Mutex<State<W>>,
    // Set when a close has waited long enough.
    give_up: CancellationToken,
}

enum State<W> {
    Idle(W),
    Running(mpsc::UnboundedSender<Vec<Printable>>, JoinHandle<()>),
    Closed,
}

struct Printable {
    outbound: Outbound,
    line: Vec<u8>,
}

impl Stdout {
    /// Prints to the process's stdout.
    pub fn new(encoder: Encoder) -> Self {
        Self::to_writer(encoder, tokio::io::stdout())
    }
}

impl<W: AsyncWrite + Unpin + Send + 'static> Stdout<W> {
    /// Prints to any writer.
    pub fn to_writer(encoder: Encoder, writer: W) -> Self {
        Self { encoder, state: Mutex::new(State::Idle(writer)), give_up: CancellationToken::new() }
    }

    fn hand_over(&self, batch: Vec<Printable>) -> Result<(), Vec<Printable>> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        *state = match std::mem::replace(&mut *state, State::Closed) {
            State::Idle(writer) => {
                let (sender, batches) = mpsc::unbounded_channel();
                State::Running(sender, tokio::spawn(print(writer, batches, self.give_up.clone())))
            }
            started => started,
        };
        match &*state {
            State::Running(sender, _) => sender.send(batch).map_err(|e| e.0),
            State::Idle(_) | State::Closed => Err(batch),
        }
    }
}

#[async_trait]
impl<W: AsyncWrite + Unpin + Send + 'static> Transport for Stdout<W> {
    fn capabilities(&self) -> Capabilities {
        Capabilities::plain("stdout")
    }

    async fn deliver(&self, batch: Vec<Outbound>) {
        let mut printable = Vec::with_capacity(batch.len());
        for outbound in batch {
            match self.encoder.json_line(&outbound.event, outbound.stage(), "stdout.not_json") {
                Ok(line) => printable.push(Printable { outbound, line }),
                Err(failure) => outbound.report(Err(failure)),
            }
        }
        if let Err(refused) = self.hand_over(printable) {
            for printable in refused {
                printable.outbound.report(Err(closed()));
            }
        }
    }

    async fn close(&self) {
        let state = {
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            std::mem::replace(&mut *state, State::Closed)
        };
        if let State::Running(sender, mut printer) = state {
            drop(sender);
            if timeout(CLOSE_GRACE, &mut printer).await.is_err() {
                self.give_up.cancel();
                let _ = printer.await;
            }
        }
    }
}

impl<W> fmt::Debug for Stdout<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stdout").finish_non_exhaustive()
    }
}

async fn print<W: AsyncWrite + Unpin>(
    mut writer: W,
    mut batches: mpsc::UnboundedReceiver<Vec<Printable>>,
    give_up: CancellationToken,
) {
    while let Some(batch) = batches.recv().await {
        let outcome = match give_up.run_until_cancelled(write(&mut writer, &batch)).await {
            Some(Ok(())) => Ok(Receipt::default()),
            Some(Err(e)) => Err(failure(&e)),
            None => Err(closed()),
        };
        for printable in batch {
            printable.outbound.report(outcome.clone());
        }
    }
}

fn closed() -> Failure {
    Failure::unavailable("stdout.closed", "the transport is closed")
}

async fn write<W: AsyncWrite + Unpin>(writer: &mut W, batch: &[Printable]) -> io::Result<()> {
    for printable in batch {
        writer.write_all(&printable.line).await?;
    }
    writer.flush().await
}

fn failure(error: &io::Error) -> Failure {
    if error.kind() == io::ErrorKind::BrokenPipe {
        Failure::unavailable("stdout.closed", "the reader of stdout is gone")
    } else {
        Failure::unavailable("stdout.failed", format!("stdout cannot be written: {error}"))
    }
}
