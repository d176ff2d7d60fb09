//! Traces of appended events and of the demo's deliveries, sent to the configured collector. Without the feature `otlp`
//! there are none.

#[cfg(not(feature = "otlp"))]
pub(crate) use none::{Spans, Traces};
#[cfg(feature = "otlp")]
pub(crate) use some::{Spans, Traces};

#[cfg(feature = "otlp")]
mod some {
    use std::sync::Arc;
    use std::time::Duration;

    use postroom_core::{Delivery, Event, Outcome};
    use postroom_server::config::Config;
    use postroom_server::metrics::Metrics;
    use postroom_server::telemetry::{Creations, RouteSpans, Tracer};

    /// Tracer, if a collector is configured.
    #[derive(Debug, Clone)]
    pub(crate) struct Traces(Option<Arc<Tracer>>);

    impl Traces {
        /// Starts the tracer that the configuration asks for. Must run within a tokio runtime.
        pub(crate) fn start(config: &Config) -> Self {
            Self(Tracer::start(&config.telemetry, &Metrics::new()).map(Arc::new))
        }

        /// Returns the spans of one route of one store.
        pub(crate) fn route(&self, store: &str, route: &str) -> Spans {
            Spans(self.0.as_ref().map(|tracer| tracer.route(store, route)))
        }

        /// Begins the spans of events that are about to be appended to this store.
        pub(crate) fn begin<'e>(&self, store: &str, events: impl IntoIterator<Item = &'e mut Event>) -> Begun {
            Begun(self.0.as_ref().map(|tracer| tracer.begin(store, events)))
        }

        /// Waits briefly until the collector has all spans.
        pub(crate) async fn stop(&self) {
            if let Some(tracer) = &self.0 {
                tracer.stop().await;
            }
        }
    }

    /// Spans of one route.
    #[derive(Debug)]
    pub(crate) struct Spans(Option<RouteSpans>);

    impl Spans {
        /// Records an attempt.
        pub(crate) fn tried(&self, delivery: &Delivery, outcome: &Outcome, took: Duration) {
            if let Some(spans) = &self.0 {
                spans.tried(delivery, outcome, took);
            }
        }
    }

    /// Spans of events that are about to be appended.
    #[derive(Debug)]
    #[must_use]
    pub(crate) struct Begun(Option<Creations>);

    impl Begun {
        /// Ends the spans with the result of the append.
        pub(crate) fn end<T, E>(self, result: &Result<T, E>) {
            if let Some(begun) = self.0 {
                begun.end(result);
            }
        }
    }
}

#[cfg(not(feature = "otlp"))]
#[expect(clippy::unused_self, clippy::unused_async, reason = "as it is where there are some")]
mod none {
    use std::time::Duration;

    use postroom_core::{Delivery, Event, Outcome};
    use postroom_server::config::Config;

    #[derive(Debug, Clone)]
    pub(crate) struct Traces;

    impl Traces {
        pub(crate) fn start(_: &Config) -> Self {
            Self
        }

        pub(crate) fn route(&self, _: &str, _: &str) -> Spans {
            Spans
        }

        pub(crate) fn begin<'e>(&self, _: &str, _: impl IntoIterator<Item = &'e mut Event>) -> Begun {
            Begun
        }

        pub(crate) async fn stop(&self) {}
    }

    #[derive(Debug)]
    pub(crate) struct Spans;

    impl Spans {
        pub(crate) fn tried(&self, _: &Delivery, _: &Outcome, _: Duration) {}
    }

    #[derive(Debug)]
    #[must_use]
    pub(crate) struct Begun;

    impl Begun {
        pub(crate) fn end<T, E>(self, _: &Result<T, E>) {}
    }
}
