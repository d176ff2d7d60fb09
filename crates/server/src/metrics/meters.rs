//! What an engine tells, counted: one set of handles per route, so that a delivery costs a few additions.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use postroom_core::metrics as names;
use postroom_core::{Delivery, FailureKind, Outcome, RouteHealth, RouteState, Timestamp, Verdict};

use super::{Counter, Gauge, Histogram, Metrics};

/// Where routes go, by their names: `kafka`, `webhook`.
pub(crate) type Kinds = BTreeMap<String, &'static str>;

/// The meters of one route of one store.
pub(crate) struct RouteMeters {
    metrics: Arc<Metrics>,
    store: String,
    route: String,
    is_webhook: bool,
    outcomes: [Outcomes; 4],
    delivered: Counter,
    dead: Counter,
    latency: Histogram,
    in_flight: Gauge,
    taken_over: Counter,
    states: Mutex<Vec<(RouteState, Gauge)>>,
    read: Histogram,
    settle: Histogram,
}

/// Tries that came out alike. Made when the first one does: a page of metrics is the shorter for it.
struct Outcomes {
    outcome: &'static str,
    took: OnceLock<Histogram>,
    /// By code; few.
    by_code: Mutex<HashMap<Box<str>, Vec<Counter>>>,
}

/// In the order of [`RouteMeters::outcomes`].
const OUTCOMES: [&str; 4] = ["delivered", "transient", "permanent", "unavailable"];

impl RouteMeters {
    pub(crate) fn new(metrics: &Arc<Metrics>, kinds: &Kinds, store: &str, route: &str) -> Self {
        let of_route = [store, route];
        let outcomes = OUTCOMES.map(|outcome| Outcomes { outcome, took: OnceLock::new(), by_code: Mutex::default() });
        let result = |result| metrics.counter(&names::DELIVERIES, &[store, route, result]);
        let new = Self {
            store: store.to_owned(),
            route: route.to_owned(),
            is_webhook: kinds.get(route) == Some(&"webhook"),
            outcomes,
            delivered: result("delivered"),
            dead: result("dead"),
            latency: metrics.histogram(&names::DELIVERY_LATENCY, &of_route),
            in_flight: metrics.gauge(&names::IN_FLIGHT, &of_route),
            taken_over: metrics.counter(&names::LEASE_TAKEOVERS, &of_route),
            states: Mutex::default(),
            read: metrics.histogram(&names::READ_DURATION, &[store]),
            settle: metrics.histogram(&names::SETTLE_DURATION, &[store]),
            metrics: Arc::clone(metrics),
        };
        new.health(&RouteHealth::running());
        new
    }

    pub(crate) fn tried(&self, outcome: &Outcome, took: Duration) {
        let (n, code) = place(outcome);
        let outcomes = &self.outcomes[n];
        let histogram =
            || self.metrics.histogram(&names::ATTEMPT_DURATION, &[&self.store, &self.route, outcomes.outcome]);
        outcomes.took.get_or_init(histogram).record(took);
        let mut by_code = outcomes.by_code.lock().unwrap_or_else(PoisonError::into_inner);
        if !by_code.contains_key(code) {
            by_code.insert(code.into(), self.counters(outcomes.outcome, code));
        }
        for counter in by_code.get(code).into_iter().flatten() {
            counter.increment(1);
        }
    }

    /// What counts a try with this code.
    fn counters(&self, outcome: &str, code: &str) -> Vec<Counter> {
        let tries = self.metrics.counter(&names::ATTEMPTS, &[&self.store, &self.route, outcome, code]);
        let class = self.is_webhook.then(|| class(code)).flatten();
        let answers =
            class.map(|class| self.metrics.counter(&names::WEBHOOK_RESPONSES, &[&self.store, &self.route, class]));
        std::iter::once(tries).chain(answers).collect()
    }

    pub(crate) fn settled(&self, delivery: &Delivery, verdict: &Verdict) {
        match verdict {
            Verdict::Delivered(_) => {
                self.delivered.increment(1);
                let took = Timestamp::now().duration_since(delivery.appended_at);
                self.latency.record(took.as_secs_f64().max(0.0));
            }
            Verdict::Dead { .. } => self.dead.increment(1),
            Verdict::Retry { .. } | Verdict::Returned => {}
        }
    }

    pub(crate) fn health(&self, health: &RouteHealth) {
        let mut states = self.states.lock().unwrap_or_else(PoisonError::into_inner);
        if !states.iter().any(|(state, _)| *state == health.state) {
            // Like outcomes: a state that never was is not shown.
            let labels = [&*self.store, &*self.route, health.state.as_str()];
            states.push((health.state, self.metrics.gauge(&names::ROUTE_STATE, &labels)));
        }
        for (state, gauge) in &*states {
            gauge.set(if *state == health.state { 1.0 } else { 0.0 });
        }
    }

    pub(crate) fn in_flight(&self, deliveries: usize) {
        self.in_flight.set(u32::try_from(deliveries).unwrap_or(u32::MAX));
    }

    pub(crate) fn took_over(&self, lanes: usize) {
        self.taken_over.increment(u64::try_from(lanes).unwrap_or(u64::MAX));
    }

    pub(crate) fn read(&self, took: Duration) {
        self.read.record(took);
    }

    pub(crate) fn wrote(&self, took: Duration) {
        self.settle.record(took);
    }
}

/// Where it counts, and with which code.
fn place(outcome: &Outcome) -> (usize, &str) {
    match outcome {
        Ok(receipt) => (0, receipt.code),
        Err(failure) => match failure.kind {
            FailureKind::Permanent => (2, &*failure.code),
            FailureKind::Unavailable | FailureKind::Gone => (3, &*failure.code),
            _ => (1, &*failure.code),
        },
    }
}

/// The word for how a try came out, and the failure's code.
#[cfg(feature = "otlp")]
pub(crate) fn outcome_of(outcome: &Outcome) -> (&'static str, &str) {
    let (n, code) = place(outcome);
    (OUTCOMES[n], code)
}

/// How a receiver answered, by the code of the try; nothing when it never came to that.
fn class(code: &str) -> Option<&'static str> {
    match code.strip_prefix("webhook.").unwrap_or(code) {
        "" => Some("2xx"),
        "redirect" => Some("3xx"),
        "status_429" => Some("429"),
        "rejected" | "gone" => Some("4xx"),
        "timeout" | "cut" => Some("timeout"),
        "refused" | "dns" | "tls" => Some("refused"),
        status if status.starts_with("status_4") => Some("4xx"),
        status if status.starts_with("status_5") => Some("5xx"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {

    use super::*;

    #[test]
    fn every_answer_of_a_receiver_has_its_class_and_what_is_no_answer_has_none() {
        for (code, expected) in [
            ("", Some("2xx")),
            ("webhook.redirect", Some("3xx")),
            ("webhook.rejected", Some("4xx")),
            ("webhook.gone", Some("4xx")),
            ("webhook.status_429", Some("429")),
            ("webhook.status_503", Some("5xx")),
            ("webhook.timeout", Some("timeout")),
            ("webhook.cut", Some("timeout")),
            ("webhook.refused", Some("refused")),
            ("webhook.dns", Some("refused")),
            ("webhook.tls", Some("refused")),
            ("webhook.header", None),
            ("webhook.closed", None),
        ] {
            assert_eq!(class(code), expected, "{code}");
            assert!(code.is_empty() || crate::codes::find(code).is_some(), "{code} is not a code");
        }
    }
}
