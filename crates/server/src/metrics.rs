//! Metrics of this process, as Prometheus reads them. Their names are [`postroom_core::metrics`]'s.

mod alias;
mod gauges;
mod meters;

use metrics::{Counter, Gauge, Histogram, Key, KeyName, Label, Level, Metadata, Recorder as _};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle, PrometheusRecorder};
use postroom_core::metrics::{self as names, Kind, METRICS, Metric};

pub use alias::Alias;
pub(crate) use alias::extended;
pub(crate) use gauges::watch;
#[cfg(feature = "otlp")]
pub(crate) use meters::outcome_of;
pub(crate) use meters::{Kinds, RouteMeters};

/// What all metrics of this program have in common.
static ABOUT: Metadata<'_> = Metadata::new("postroom", Level::INFO, None);

/// The metrics of this process.
pub struct Metrics {
    recorder: PrometheusRecorder,
    handle: PrometheusHandle,
}

impl Metrics {
    /// All of them, without a value yet.
    pub fn new() -> Self {
        let builder = METRICS.iter().filter(|metric| metric.kind == Kind::Histogram).fold(
            PrometheusBuilder::new(),
            |builder, metric| {
                let full = Matcher::Full(metric.name.to_owned());
                // Only an empty list is refused, and there is none.
                builder.set_buckets_for_metric(full, names::buckets(metric)).unwrap_or_default()
            },
        );
        let recorder = builder.build_recorder();
        for Metric { name, kind, help, .. } in METRICS {
            let (name, help) = (KeyName::from_const_str(name), (*help).into());
            match kind {
                Kind::Counter => recorder.describe_counter(name, None, help),
                Kind::Gauge => recorder.describe_gauge(name, None, help),
                Kind::Histogram => recorder.describe_histogram(name, None, help),
            }
        }
        let handle = recorder.handle();
        let new = Self { recorder, handle };
        new.gauge(&names::BUILD_INFO, &[env!("CARGO_PKG_VERSION")]).set(1.0);
        new
    }

    /// All values, as Prometheus reads them.
    pub fn text(&self) -> String {
        self.handle.render()
    }

    /// Counts log lines that nobody took.
    pub fn log_lines_dropped(&self) -> Counter {
        self.counter(&names::LOG_LINES_DROPPED, &[])
    }

    /// Puts what histograms have collected in order; now and then, or memory grows until somebody asks.
    pub(crate) fn tidy(&self) {
        self.handle.run_upkeep();
    }

    pub(crate) fn counter(&self, metric: &Metric, values: &[&str]) -> Counter {
        self.recorder.register_counter(&key(metric, values), &ABOUT)
    }

    pub(crate) fn gauge(&self, metric: &Metric, values: &[&str]) -> Gauge {
        self.recorder.register_gauge(&key(metric, values), &ABOUT)
    }

    pub(crate) fn histogram(&self, metric: &Metric, values: &[&str]) -> Histogram {
        self.recorder.register_histogram(&key(metric, values), &ABOUT)
    }
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

impl std::fmt::Debug for Metrics {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Metrics").finish_non_exhaustive()
    }
}

/// A metric with the values of its labels, in their order.
fn key(metric: &Metric, values: &[&str]) -> Key {
    debug_assert_eq!(metric.labels.len(), values.len(), "{}", metric.name);
    let labels = metric.labels.iter().zip(values).map(|(label, value)| Label::new(*label, (*value).to_owned()));
    Key::from_parts(metric.name, labels.collect::<Vec<_>>())
}
