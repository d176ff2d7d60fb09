//! Traces of what becomes of events: made from what the engine tells and commands do, taken to a collector beside it all.
//!
//! An event that is appended begins a trace, or goes on with its application's (`traceparent`). Every try to deliver it is
//! a `send` span of its own, linked to that: a try may come days later, and many may go on their way together.
//! Nothing here waits: a span for which there is no room is dropped and counted.

mod exporter;
mod span;

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use opentelemetry_proto::tonic::trace::v1::Span;
use postroom_core::metrics as names;
use postroom_core::{Delivery, Event, Outcome, TRACEPARENT, TraceParent};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::config::{RouteConfig, TelemetryConfig};
use crate::metrics::{Counter, Metrics};
use exporter::Exporter;

/// Most spans that wait for the collector.
const WAITING_MAX: usize = 2048;
/// How long an end waits for what is still to be sent.
const STOP: Duration = Duration::from_secs(2);

/// Makes spans and has them taken to a collector.
#[derive(Debug)]
pub struct Tracer {
    spans: Spans,
    sample: f64,
    destinations: Mutex<Destinations>,
    stop: CancellationToken,
    exporting: Mutex<Option<JoinHandle<()>>>,
}

/// Where routes go, by their names: which kind of thing, and which one of them.
type Destinations = BTreeMap<String, (&'static str, Option<String>)>;

/// The way to the collector.
#[derive(Debug, Clone)]
struct Spans {
    queue: mpsc::Sender<Span>,
    dropped: Counter,
}

impl Spans {
    fn take(&self, span: Span) {
        if self.queue.try_send(span).is_err() {
            self.dropped.increment(1);
        }
    }
}

impl Tracer {
    /// One that runs until it is stopped, if a collector is named. What is dropped is counted in `metrics`.
    ///
    /// Within a tokio runtime.
    pub fn start(config: &TelemetryConfig, metrics: &Metrics) -> Option<Self> {
        let dropped = metrics.counter(&names::SPANS_DROPPED, &[]);
        let url = config.traces.as_ref()?;
        let (queue, waiting) = mpsc::channel(WAITING_MAX);
        let stop = CancellationToken::new();
        let exporter = Exporter::new(url, config, dropped.clone())
            .inspect_err(|error| tracing::error!(collector = %url, error, "traces are off"))
            .ok()?;
        let exporting = tokio::spawn(exporter.run(waiting, stop.clone()));
        Some(Self {
            spans: Spans { queue, dropped },
            sample: config.sample,
            destinations: Mutex::default(),
            stop,
            exporting: Mutex::new(Some(exporting)),
        })
    }

    /// Says where routes go. One that is not among them is called by its name.
    pub(crate) fn routes(&self, routes: &[RouteConfig]) {
        let destination = |route: &RouteConfig| (route.to.name(), route.to.destination());
        *self.destinations.lock().unwrap_or_else(PoisonError::into_inner) =
            routes.iter().map(|route| (route.definition.name.clone(), destination(route))).collect();
    }

    /// Makes spans of one route of one store.
    pub fn route(&self, store: &str, route: &str) -> RouteSpans {
        let destinations = self.destinations.lock().unwrap_or_else(PoisonError::into_inner);
        let (system, destination) = destinations.get(route).cloned().unwrap_or(("postroom", None));
        RouteSpans {
            spans: self.spans.clone(),
            sample: self.sample,
            of: span::Of {
                system,
                destination: destination.unwrap_or_else(|| route.to_owned()),
                store: store.to_owned(),
                route: route.to_owned(),
            },
        }
    }

    /// Begins a trace with each event that is not part of one. They are about to be appended to this store.
    pub fn begin<'e>(&self, store: &str, events: impl IntoIterator<Item = &'e mut Event>) -> Creations {
        let mut begun = Vec::new();
        for event in events {
            if event.headers.contains_key(TRACEPARENT) {
                continue;
            }
            let context = TraceParent::new(fastrand::f64() < self.sample);
            event.headers.insert(TRACEPARENT.to_owned(), context.to_string());
            if context.sampled {
                begun.push(span::create(context, store, event));
            }
        }
        Creations { spans: self.spans.clone(), begun }
    }

    /// Stops when everything has been sent, after two seconds at the latest.
    pub async fn stop(&self) {
        self.stop.cancel();
        let exporting = self.exporting.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(exporting) = exporting {
            let end = exporting.abort_handle();
            if tokio::time::timeout(STOP, exporting).await.is_err() {
                end.abort();
            }
        }
    }
}

/// Makes spans of one route of one store.
#[derive(Debug)]
pub struct RouteSpans {
    spans: Spans,
    sample: f64,
    of: span::Of,
}

impl RouteSpans {
    /// A try came back.
    pub fn tried(&self, delivery: &Delivery, outcome: &Outcome, took: Duration) {
        let begun = delivery.event.headers.get(TRACEPARENT).and_then(|text| TraceParent::parse(text));
        let wanted = begun.map_or_else(|| fastrand::f64() < self.sample, |begun| begun.sampled);
        if wanted {
            self.spans.take(span::send(&self.of, begun, delivery, outcome, took));
        }
    }
}

/// Events that are about to be appended.
#[derive(Debug)]
#[must_use]
pub struct Creations {
    spans: Spans,
    begun: Vec<Span>,
}

impl Creations {
    /// They were appended, or they were not.
    pub fn end<T, E>(self, result: &Result<T, E>) {
        for span in self.begun {
            self.spans.take(span::ended(span, result.is_ok()));
        }
    }
}
