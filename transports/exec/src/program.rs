//! One running program, or none at the moment: what waits for it, what it has not answered, and when it may be started.
//!
//! Says what an end means for the program; what becomes of the events it had is [`crate::deliver`]'s.

use std::collections::VecDeque;
use std::process::ExitStatus;
use std::sync::Arc;
use std::time::Duration;

use postroom_core::{Failure, Outbound, units};
use postroom_transport_kit::driver::at;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout_at};

use crate::LOG;
use crate::backoff::Backoff;
use crate::connection::{Connection, Ending};
use crate::deliver::{Ready, closed};
use crate::in_flight::InFlight;
use crate::lines::Throttle;
use crate::options::{ExecOptions, Target};
use crate::protocol::Answer;

/// How long a child may take to leave once its stdin is closed.
const CLOSE_GRACE: Duration = Duration::from_secs(5);

/// A program, while there is one.
#[derive(Debug)]
pub(crate) struct Program {
    options: Arc<ExecOptions>,
    window: usize,
    // What the window has no room for yet.
    queue: VecDeque<Ready>,
    in_flight: InFlight,
    connection: Option<Connection>,
    backoff: Backoff,
    // Why there is no conversation, and when one may be tried again.
    resting: Option<(Instant, Failure)>,
    throttle: Throttle,
    // Programs that were let go and have not left yet.
    leaving: JoinSet<Option<ExitStatus>>,
}

/// What happened to a program.
#[derive(Debug)]
pub(crate) enum News {
    Answer(Answer),
    Ended(Ending),
    TimedOut,
}

/// What a program had when it ended.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) failure: Failure,
    /// Whether it was killed because the first of those it had read was not answered in time.
    pub(crate) timed_out: bool,
    /// What it had begun to read; all there was, where that cannot be known.
    pub(crate) read: VecDeque<Ready>,
    /// What lay in its input.
    pub(crate) untouched: VecDeque<Ready>,
}

impl Program {
    pub(crate) fn new(options: Arc<ExecOptions>, window: usize) -> Self {
        Self {
            options,
            window,
            queue: VecDeque::new(),
            in_flight: InFlight::default(),
            connection: None,
            backoff: Backoff::default(),
            resting: None,
            throttle: Throttle::new(),
            leaving: JoinSet::new(),
        }
    }

    /// Adds what it is to get next.
    pub(crate) fn push(&mut self, ready: impl IntoIterator<Item = Ready>) {
        self.queue.extend(ready);
    }

    /// Adds what it is to get before everything else.
    pub(crate) fn push_first(&mut self, ready: VecDeque<Ready>) {
        ready.into_iter().rev().for_each(|ready| self.queue.push_front(ready));
    }

    /// Waits for what happens next. May be cancelled and called again.
    pub(crate) async fn next(&mut self) -> News {
        let deadline = self.in_flight.first().map(|(until, _)| until);
        tokio::select! {
            said = next(&mut self.connection) => said.map_or_else(News::Ended, News::Answer),
            () = at(deadline) => News::TimedOut,
        }
    }

    /// Hands over as many as the window allows, starting the program if there is none.
    pub(crate) async fn fill_window(&mut self) {
        while self.in_flight.len() < self.window
            && let Some(ready) = self.queue.pop_front()
        {
            if let Err(failure) = self.connect().await {
                ready.outbound.report(Err(failure));
                continue;
            }
            if let Some(connection) = &mut self.connection {
                connection.send(Arc::clone(&ready.line));
                // Counted from here, so that a child that does not even read is found out.
                self.in_flight.add(ready, Instant::now() + self.options.timeout);
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

    /// Takes in an answer. Returns the id of the event if it is done with.
    pub(crate) fn settle(&mut self, answer: Answer) -> Option<String> {
        let Some(Ready { outbound, .. }) = self.in_flight.take(&answer.id) else {
            if let Some(suppressed) = self.throttle.admit() {
                let route = &self.options.route;
                tracing::warn!(target: LOG, route, suppressed, "answer to an unknown delivery ignored");
            }
            return None;
        };
        if answer.outcome.is_ok() {
            self.backoff.reset();
        }
        outbound.report(answer.outcome);
        Some(answer.id)
    }

    /// Takes in that the program has ended.
    pub(crate) async fn ended(&mut self, ending: &Ending) -> Option<Ended> {
        let connection = self.connection.take()?;
        let unread = connection.unread();
        let how = connection.ended(ending).await;
        let failure = Failure::unavailable("exec.died", format!("{}: {how}", self.options.target));
        Some(self.what_it_had(failure, false, unread))
    }

    /// Ends the program because its first event was not answered in time.
    pub(crate) async fn timed_out(&mut self) -> Option<Ended> {
        let (Some((_, id)), Some(connection)) = (self.in_flight.first(), self.connection.take()) else { return None };
        let was_ended = match self.options.target {
            Target::Command(_) => "killed",
            Target::Socket(_) => "disconnected",
        };
        let error = format!(
            "{} did not answer event {id} within {} and was {was_ended}",
            self.options.target,
            units::format_duration(self.options.timeout)
        );
        let unread = connection.unread();
        connection.end(Duration::ZERO).await;
        Some(self.what_it_had(Failure::unavailable("exec.timeout", error), true, unread))
    }

    fn what_it_had(&mut self, failure: Failure, timed_out: bool, unread: Option<usize>) -> Ended {
        let (read, untouched) = self.in_flight.drain_by_read(unread.unwrap_or_default());
        Ended { failure, timed_out, read, untouched }
    }

    /// Reports that the program is down to all of these, and lets it rest before it is started again.
    pub(crate) fn down(&mut self, failure: Failure, lost: impl IntoIterator<Item = Ready>) {
        let failure = self.rest(failure);
        Outbound::report_all(lost.into_iter().map(|ready| ready.outbound), &failure);
    }

    /// Starts the backoff; the failure comes back with it.
    fn rest(&mut self, failure: Failure) -> Failure {
        let pause = self.backoff.next();
        tracing::warn!(
            target: LOG, route = self.options.route, code = &*failure.code, error = failure.error,
            backoff = units::format_duration(pause), "connection to the program ended"
        );
        self.resting = Some((Instant::now() + pause, failure.clone()));
        failure.retry_after(pause)
    }

    /// Whether it has nothing to do.
    pub(crate) fn is_idle(&self) -> bool {
        self.in_flight.len() == 0 && self.queue.is_empty()
    }

    /// Lets a program go that has nothing to do. It leaves by itself, or is killed.
    pub(crate) fn dismiss_if_idle(&mut self) {
        if self.is_idle()
            && let Some(mut connection) = self.connection.take()
        {
            connection.close_input();
            while self.leaving.try_join_next().is_some() {}
            self.leaving.spawn(connection.end(CLOSE_GRACE));
        }
    }

    /// Ends it: answers that still come count.
    pub(crate) async fn close(mut self) {
        Outbound::report_all(self.queue.drain(..).map(|ready| ready.outbound), &closed());
        let grace = Instant::now() + CLOSE_GRACE;
        if let Some(connection) = self.connection.take() {
            self.let_it_answer(connection, grace).await;
        }
        while self.leaving.join_next().await.is_some() {}
    }

    async fn let_it_answer(&mut self, mut connection: Connection, grace: Instant) {
        connection.close_input();
        let is_child = matches!(self.options.target, Target::Command(_));
        // A child must also have left, a socket's other end has a life of its own.
        while is_child || self.in_flight.len() > 0 {
            match timeout_at(grace, connection.next()).await {
                Ok(Ok(answer)) => drop(self.settle(answer)),
                Ok(Err(_)) | Err(_) => break,
            }
        }
        connection.end(grace.saturating_duration_since(Instant::now())).await;
        Outbound::report_all(self.in_flight.drain().map(|ready| ready.outbound), &closed());
    }
}

async fn next(connection: &mut Option<Connection>) -> Result<Answer, Ending> {
    match connection {
        Some(connection) => connection.next().await,
        None => std::future::pending().await,
    }
}
