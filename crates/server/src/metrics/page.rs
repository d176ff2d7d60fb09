//! The page that Prometheus reads. Without the feature `http` nobody can ask for it, so nothing is written down.

#[cfg(feature = "http")]
pub use metrics::{Counter, Gauge, Histogram};
#[cfg(not(feature = "http"))]
pub(super) use nobody::Page;
#[cfg(not(feature = "http"))]
pub use nobody::{Counter, Gauge, Histogram};
#[cfg(feature = "http")]
pub(super) use prometheus::Page;

#[cfg(feature = "http")]
mod prometheus {
    use metrics::{Key, KeyName, Label, Level, Metadata, Recorder as _};
    use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle, PrometheusRecorder};
    use postroom_core::metrics::{Kind, METRICS, Metric, buckets};

    use super::{Counter, Gauge, Histogram};

    /// What all metrics of this program have in common.
    static ABOUT: Metadata<'_> = Metadata::new("postroom", Level::INFO, None);

    pub(in crate::metrics) struct Page {
        recorder: PrometheusRecorder,
        handle: PrometheusHandle,
    }

    impl Page {
        pub(in crate::metrics) fn new() -> Self {
            let builder = METRICS.iter().filter(|metric| metric.kind == Kind::Histogram).fold(
                PrometheusBuilder::new(),
                |builder, metric| {
                    let full = Matcher::Full(metric.name.to_owned());
                    // Only an empty list is refused, and there is none.
                    builder.set_buckets_for_metric(full, buckets(metric)).unwrap_or_default()
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
            Self { recorder, handle }
        }

        pub(in crate::metrics) fn text(&self) -> String {
            self.handle.render()
        }

        pub(in crate::metrics) fn tidy(&self) {
            self.handle.run_upkeep();
        }

        pub(in crate::metrics) fn counter(&self, metric: &Metric, values: &[&str]) -> Counter {
            self.recorder.register_counter(&key(metric, values), &ABOUT)
        }

        pub(in crate::metrics) fn gauge(&self, metric: &Metric, values: &[&str]) -> Gauge {
            self.recorder.register_gauge(&key(metric, values), &ABOUT)
        }

        pub(in crate::metrics) fn histogram(&self, metric: &Metric, values: &[&str]) -> Histogram {
            self.recorder.register_histogram(&key(metric, values), &ABOUT)
        }
    }

    /// A metric with the values of its labels, in their order.
    fn key(metric: &Metric, values: &[&str]) -> Key {
        debug_assert_eq!(metric.labels.len(), values.len(), "{}", metric.name);
        let labels = metric.labels.iter().zip(values).map(|(label, value)| Label::new(*label, (*value).to_owned()));
        Key::from_parts(metric.name, labels.collect::<Vec<_>>())
    }
}

#[cfg(not(feature = "http"))]
#[expect(clippy::unused_self, reason = "as it is where somebody reads")]
mod nobody {
    use postroom_core::metrics::Metric;

    pub(in crate::metrics) struct Page;

    impl Page {
        pub(in crate::metrics) fn new() -> Self {
            Self
        }

        pub(in crate::metrics) fn tidy(&self) {}

        pub(in crate::metrics) fn counter(&self, _: &Metric, _: &[&str]) -> Counter {
            Counter
        }

        pub(in crate::metrics) fn gauge(&self, _: &Metric, _: &[&str]) -> Gauge {
            Gauge
        }

        pub(in crate::metrics) fn histogram(&self, _: &Metric, _: &[&str]) -> Histogram {
            Histogram
        }
    }

    /// Counts nothing.
    #[derive(Debug, Clone)]
    pub struct Counter;

    impl Counter {
        /// So many more.
        pub fn increment(&self, _: u64) {}

        /// So many in all.
        pub fn absolute(&self, _: u64) {}
    }

    /// Shows nothing.
    #[derive(Debug, Clone)]
    pub struct Gauge;

    impl Gauge {
        /// It is this now.
        pub fn set<T>(&self, _: T) {}
    }

    /// Collects nothing.
    #[derive(Debug, Clone)]
    pub struct Histogram;

    impl Histogram {
        /// It was this once.
        pub fn record<T>(&self, _: T) {}
    }
}
