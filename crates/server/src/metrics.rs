//! Metrics of this process, as Prometheus reads them. Their names are [`postroom_core::metrics`]'s.

mod gauges;
mod meters;
mod page;

use postroom_core::metrics::{self as names, Metric};

pub(crate) use gauges::watch;
#[cfg(feature = "otlp")]
pub(crate) use meters::outcome_of;
pub(crate) use meters::{Kinds, RouteMeters};
use page::Page;
pub use page::{Counter, Gauge, Histogram};

/// The metrics of this process.
pub struct Metrics {
    page: Page,
}

impl Metrics {
    /// All of them, without a value yet.
    pub fn new() -> Self {
        let new = Self { page: Page::new() };
        new.gauge(&names::BUILD_INFO, &[env!("CARGO_PKG_VERSION")]).set(1.0);
        new
    }

    /// All values, as Prometheus reads them.
    #[cfg(feature = "http")]
    pub fn text(&self) -> String {
        self.page.text()
    }

    /// Counts log lines that nobody took.
    pub fn log_lines_dropped(&self) -> Counter {
        self.counter(&names::LOG_LINES_DROPPED, &[])
    }

    /// Puts what histograms have collected in order; now and then, or memory grows until somebody asks.
    pub(crate) fn tidy(&self) {
        self.page.tidy();
    }

    pub(crate) fn counter(&self, metric: &Metric, values: &[&str]) -> Counter {
        self.page.counter(metric, values)
    }

    pub(crate) fn gauge(&self, metric: &Metric, values: &[&str]) -> Gauge {
        self.page.gauge(metric, values)
    }

    pub(crate) fn histogram(&self, metric: &Metric, values: &[&str]) -> Histogram {
        self.page.histogram(metric, values)
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
