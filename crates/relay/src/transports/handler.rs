//! Delivers to handlers in this process.
//!
//! All handlers whose pattern matches an event run, one after the other, each contained: an error, a panic or a
//! time-out of one neither stops the others nor touches other deliveries. When one fails the event is delivered again
//! to *all* of them: a handler with effects accepts the event's id in an inbox first.

use std::fmt;
use std::future::Future;
use std::ops::Deref;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::FutureExt;
use postroom_core::{
    Capabilities, Event, Failure, FailureKind, HandlerError, Outbound, Outcome, Pattern, Receipt, Transport, units,
};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// How long a close waits for handlers to reach their next await.
const CLOSE_GRACE: Duration = Duration::from_secs(5);
/// When an event that no handler wants is offered again.
const MISSING_AGAIN: Duration = Duration::from_secs(30);

/// Event as a handler receives it, with the number of the attempt.
#[derive(Debug, Clone)]
pub struct Incoming {
    /// Event to handle.
    pub event: Arc<Event>,
    /// Number of this attempt, from 1.
    pub attempt: u32,
    /// Position of the event in the log, if it has one.
    pub position: Option<i64>,
}

impl Deref for Incoming {
    type Target = Event;
    fn deref(&self) -> &Event {
        &self.event
    }
}

type Running = Pin<Box<dyn Future<Output = Result<(), Failure>> + Send>>;

struct Handler {
    pattern: Pattern,
    name: String,
    run: Box<dyn Fn(Incoming) -> Running + Send + Sync>,
}

/// What becomes of events that no handler matches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum UnknownTypes {
    Wait,
    Ignore,
}

/// Transport that calls handlers by event type.
///
/// ```
/// use postroom_core::Failure;
/// use postroom_relay::{Handlers, Incoming};
///
/// let handlers = Handlers::new()
///     .on("order.*", "mailer", |incoming: Incoming| async move {
///         println!("order {:?} on attempt {}", incoming.ordering_key(), incoming.attempt);
///         Ok::<(), Failure>(())
///     })
///     .on("*", "audit", |incoming: Incoming| async move {
///         incoming.payload_as::<serde_json::Value>()?; // any error is worth another try
///         Ok::<(), Failure>(())
///     });
/// # drop(handlers);
/// ```
pub struct Handlers {
    registered: Vec<Arc<Handler>>,
    timeout: Duration,
    in_flight: usize,
    unknown: UnknownTypes,
    // Deliveries on their way, and the word that ends them.
    running: TaskTracker,
    closed: CancellationToken,
}

impl Default for Handlers {
    fn default() -> Self {
        Self {
            registered: Vec::new(),
            timeout: Duration::from_secs(30),
            in_flight: 64,
            unknown: UnknownTypes::Wait,
            running: TaskTracker::new(),
            closed: CancellationToken::new(),
        }
    }
}

impl Handlers {
    /// Creates a transport without handlers: every event waits as `handler.missing` until one matches, unless
    /// [`Handlers::ignore_unknown`] says otherwise.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a handler for the event types that match. Handlers run in the order they were added.
    ///
    /// # Panics
    ///
    /// If the pattern is not valid or the name is taken: failures are told apart by name.
    #[track_caller]
    pub fn on<F, R, E>(mut self, pattern: &str, name: impl Into<String>, handler: F) -> Self
    where
        F: Fn(Incoming) -> R + Send + Sync + 'static,
        R: Future<Output = Result<(), E>> + Send + 'static,
        E: Into<Failure>,
    {
        let name = name.into();
        let pattern = match Pattern::parse(pattern) {
            Ok(pattern) => pattern,
            #[allow(clippy::panic, reason = "a mistake in the program, found at its start")]
            Err(e) => panic!("handler {name:?}: {e}"),
        };
        assert!(self.registered.iter().all(|h| h.name != name), "there are two handlers called {name:?}");
        let run = move |incoming| -> Running {
            let result = handler(incoming);
            Box::pin(async move { result.await.map_err(Into::into) })
        };
        self.registered.push(Arc::new(Handler { pattern, name, run: Box::new(run) }));
        self
    }

    /// Sets the time after which a handler is dropped at its next await. Defaults to 30 seconds.
    ///
    /// The event has then failed with `handler.timeout`. A system whose handlers may take longer, such as an event queue
    /// that abandons its events after a minute, sets that time here.
    ///
    /// A handler that blocks its thread cannot be dropped; use `spawn_blocking` for such work.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Counts events that no handler matches as delivered, as a bus does whose events nobody subscribes to.
    ///
    /// Without it such an event waits, and is offered again: a program that is not upgraded yet loses nothing that a newer
    /// one appended. With it the event is gone for a handler that is added later, except by a replay.
    pub fn ignore_unknown(mut self) -> Self {
        self.unknown = UnknownTypes::Ignore;
        self
    }

    /// Sets the maximum number of events that are handled at once. Defaults to 64.
    pub fn in_flight(mut self, in_flight: usize) -> Self {
        self.in_flight = in_flight;
        self
    }
}

#[async_trait]
impl Transport for Handlers {
    fn capabilities(&self) -> Capabilities {
        Capabilities { in_flight_max: Some(self.in_flight.max(1)), ..Capabilities::plain("handler") }
    }

    async fn deliver(&self, batch: Vec<Outbound>) {
        for outbound in batch {
            let event = Arc::clone(&outbound.event);
            let matching: Vec<_> =
                self.registered.iter().filter(|h| h.pattern.matches(&event.event_type)).map(Arc::clone).collect();
            if matching.is_empty() && self.unknown == UnknownTypes::Ignore {
                outbound.report(Ok(Receipt::default()));
                continue;
            }
            if matching.is_empty() {
                let error = format!("no handler matches type {:?}; add one, or narrow the route", event.event_type);
                // A program that is not upgraded yet meets what a newer one appended.
                outbound.report(Err(Failure::not_yet("handler.missing", error).retry_after(MISSING_AGAIN)));
                continue;
            }
            let (limit, closed) = (self.timeout, self.closed.clone());
            self.running.spawn(async move {
                let incoming = Incoming { event, attempt: outbound.attempt, position: outbound.position };
                let outcome = closed.run_until_cancelled(handle(&matching, limit, incoming)).await;
                outbound.report(outcome.unwrap_or_else(|| {
                    Err(Failure::unavailable("handler.closed", "the relay stopped before the handlers were done"))
                }));
            });
        }
    }

    async fn close(&self) {
        self.closed.cancel();
        self.running.close();
        // A handler that blocks its thread cannot be ended; it must not keep the relay from stopping.
        let _ = timeout(CLOSE_GRACE, self.running.wait()).await;
    }
}

impl Drop for Handlers {
    fn drop(&mut self) {
        // Nobody is left to settle what they do.
        self.closed.cancel();
    }
}

impl fmt::Debug for Handlers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<(String, &str)> = self.registered.iter().map(|h| (h.pattern.to_string(), &*h.name)).collect();
        f.debug_struct("Handlers").field("handlers", &names).field("timeout", &self.timeout).finish_non_exhaustive()
    }
}

/// Runs the handlers one after the other and collects what went wrong.
async fn handle(handlers: &[Arc<Handler>], limit: Duration, incoming: Incoming) -> Outcome {
    let mut failures = Vec::new();
    for handler in handlers {
        // The closure runs inside the future, so that a panic before its first await is caught too.
        let run = AssertUnwindSafe(async { (handler.run)(incoming.clone()).await }).catch_unwind();
        let failure = match timeout(limit, run).await {
            Ok(Ok(Ok(()))) => continue,
            Ok(Ok(Err(failure))) => failure,
            // What it said may quote the payload; the panic hook has it.
            Ok(Err(_)) => Failure::transient("handler.panicked", "the handler panicked"),
            Err(_) => Failure::transient(
                "handler.timeout",
                format!("the handler was not done after {}", units::format_duration(limit)),
            ),
        };
        failures.push((handler.name.as_str(), failure));
    }
    if failures.is_empty() { Ok(Receipt::default()) } else { Err(collect(failures)) }
}

/// One failure for all: another try if any handler wants one, else death if any wants that.
fn collect(failures: Vec<(&str, Failure)>) -> Failure {
    let kind = if failures.iter().all(|(_, f)| f.kind == FailureKind::NotYet) {
        FailureKind::NotYet
    } else if failures.iter().any(|(_, f)| f.kind.is_retried()) {
        FailureKind::Transient
    } else if failures.iter().any(|(_, f)| f.kind == FailureKind::Permanent) {
        FailureKind::Permanent
    } else {
        FailureKind::Unavailable
    };
    let code = failures.first().map_or("handler.error".into(), |(_, f)| f.code.clone());
    let text: Vec<String> = failures.iter().map(|(name, f)| format!("{name}: {}", f.error)).collect();
    let mut whole = Failure::new(kind, code, text.join("; "));
    whole.retry_after = failures.iter().filter_map(|(_, f)| f.retry_after).max();
    whole.handlers =
        failures.into_iter().map(|(name, f)| HandlerError { handler: name.to_owned(), error: f.error }).collect();
    whole
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_wish_for_another_try_outweighs_a_refusal_and_unavailable_counts_only_alone() {
        use FailureKind::{NotYet as N, Permanent as P, Transient as T, Unavailable as U};
        for (kinds, expected) in [
            (vec![P, T, U], T),
            (vec![U, T], T),
            (vec![U, P], P),
            (vec![P], P),
            (vec![U, U], U),
            (vec![N, N], N),
            (vec![N, P], T),
        ] {
            let failures = kinds.iter().map(|kind| ("h", Failure::new(*kind, "x", "y"))).collect();
            assert_eq!(collect(failures).kind, expected, "{kinds:?}");
        }
    }

    #[test]
    fn the_text_names_each_handler_and_the_longest_wish_wins() {
        let wish = |seconds| Failure::transient("first", "x").retry_after(Duration::from_secs(seconds));
        let failure = collect(vec![("a", wish(5)), ("b", wish(9)), ("c", Failure::permanent("c", "z"))]);
        assert_eq!((failure.error.as_str(), &*failure.code), ("a: x; b: x; c: z", "first"));
        assert_eq!((failure.retry_after, failure.handlers.len()), (Some(Duration::from_secs(9)), 3));
    }
}
