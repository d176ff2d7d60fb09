//! Tells what happens, one line per thing, and counts it. Printing is a task of its own: the engine never waits for it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use jiff::Timestamp;
use postroom_core::{Delivery, Event, Outcome, RouteHealth, RouteState, Verdict};
use postroom_relay::{Observer, RouteObserver};
use serde::Serialize;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::exit::Failed;
use crate::output::{Format, plain};
use crate::traces::{Spans, Traces};
use crate::when;

/// Most lines that wait to be printed; a reader slower than that misses some, the counts stay right.
const LINES_MAX: usize = 1024;

/// One thing that happened.
#[derive(Debug, Serialize)]
pub(crate) struct Line {
    at: Timestamp,
    what: &'static str,
    #[serde(rename = "type", skip_serializing_if = "String::is_empty")]
    event_type: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    key: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    id: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    message: String,
}

impl Line {
    fn of(what: &'static str, event: &Event, message: String) -> Self {
        Self {
            at: Timestamp::now(),
            what,
            event_type: event.event_type.clone(),
            key: event.ordering_key().unwrap_or_default().to_owned(),
            id: event.id.clone(),
            message,
        }
    }

    fn about(what: &'static str, message: String) -> Self {
        let (event_type, key, id) = (String::new(), String::new(), String::new());
        Self { at: Timestamp::now(), what, event_type, key, id, message }
    }

    fn text(&self) -> String {
        let (time, note) = (when::clock(self.at), plain(&self.message, 300));
        let line = if self.id.is_empty() {
            format!("{time}  {:16} {note}", self.what)
        } else {
            let (kind, key) = (plain(&self.event_type, 72), plain(&self.key, 72));
            format!("{time}  {:16} {kind:14} {key:10} {note}", self.what)
        };
        line.trim_end().to_owned()
    }
}

/// Hears of everything, keeps the counts.
#[derive(Debug)]
pub(crate) struct Narrator {
    lines: mpsc::Sender<Line>,
    appended: AtomicU64,
    delivered: AtomicU64,
    retried: AtomicU64,
    dead: AtomicU64,
    traces: Traces,
}

/// A narrator, and the lines it makes.
pub(crate) fn narrator(traces: Traces) -> (Arc<Narrator>, mpsc::Receiver<Line>) {
    let (lines, told) = mpsc::channel(LINES_MAX);
    let zero = AtomicU64::default;
    let narrator = Narrator { lines, appended: zero(), delivered: zero(), retried: zero(), dead: zero(), traces };
    (Arc::new(narrator), told)
}

/// Prints every line; when nobody reads any more, the demo stops.
pub(crate) async fn print_all(
    mut told: mpsc::Receiver<Line>,
    format: Format,
    stop: CancellationToken,
) -> Result<(), Failed> {
    let _stop = stop.drop_guard();
    while let Some(line) = told.recv().await {
        format.stream(&line, || line.text())?;
    }
    Ok(())
}

impl Narrator {
    /// The shop's transaction committed.
    pub(crate) fn appended(&self, event: &Event) {
        self.appended.fetch_add(1, Ordering::Relaxed);
        self.tell(Line::of("appended", event, String::new()));
    }

    /// The last line: what was done.
    pub(crate) fn stopped(&self) {
        let n = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let (appended, delivered) = (n(&self.appended), n(&self.delivered));
        let (retried, dead) = (n(&self.retried), n(&self.dead));
        let note = format!("{appended} appended, {delivered} delivered, {retried} retried, {dead} dead");
        self.tell(Line::about("stopped", note));
    }

    fn tell(&self, line: Line) {
        // A full queue means that the reader is too slow; the story goes on without this line.
        let _ = self.lines.try_send(line);
    }
}

impl Observer for Narrator {
    fn route(self: Arc<Self>, store: &str, route: &str) -> Arc<dyn RouteObserver> {
        let spans = self.traces.route(store, route);
        Arc::new(RouteNarrator { by: self, route: route.to_owned(), spans })
    }
}

/// Observer that prints the deliveries of a route.
#[derive(Debug)]
struct RouteNarrator {
    by: Arc<Narrator>,
    route: String,
    spans: Spans,
}

impl RouteObserver for RouteNarrator {
    fn tried(&self, delivery: &Delivery, outcome: &Outcome, took: Duration) {
        self.spans.tried(delivery, outcome, took);
    }

    fn settled(&self, delivery: &Delivery, verdict: &Verdict) {
        let event = &delivery.event;
        let line = match verdict {
            Verdict::Delivered(_) => {
                self.by.delivered.fetch_add(1, Ordering::Relaxed);
                let note = if delivery.attempts == 0 {
                    String::new()
                } else {
                    format!("on attempt {}", delivery.attempts + 1)
                };
                Line::of("delivered", event, note)
            }
            Verdict::Retry { attempts, after, failure } => {
                self.by.retried.fetch_add(1, Ordering::Relaxed);
                let wait = when::age(*after);
                Line::of("will be retried", event, format!("in {wait}: attempt {attempts} failed, {}", failure.error))
            }
            Verdict::Dead { attempts, failure, .. } => {
                self.by.dead.fetch_add(1, Ordering::Relaxed);
                let note =
                    format!("given up at attempt {attempts}: {}; later events of its key are delivered", failure.error);
                Line::of("dead letter", event, note)
            }
            Verdict::Returned => return,
        };
        self.by.tell(line);
    }

    fn health(&self, health: &RouteHealth) {
        let mut note = format!("{} is {}", self.route, health.state.as_str().replace('_', " "));
        if health.state != RouteState::Running && !health.message.is_empty() {
            note.push_str(": ");
            note.push_str(&health.message);
        }
        self.by.tell(Line::about("route", note));
    }
}
