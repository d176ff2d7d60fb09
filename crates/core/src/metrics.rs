//! List of all metrics: recorder, documentation, dashboards and alert rules are made from it.

use std::fmt::Write as _;

/// Kind of a metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Counter, which only grows while the process lives.
    Counter,
    /// Gauge, which goes up and down.
    Gauge,
    /// Histogram of durations, in seconds.
    Histogram,
}

impl Kind {
    /// Returns the name of the kind in Prometheus.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        }
    }
}

/// Metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Metric {
    /// Name of the metric.
    pub name: &'static str,
    /// Kind of the metric.
    pub kind: Kind,
    /// Labels of the metric; never an event id, a key or a URL.
    pub labels: &'static [&'static str],
    /// Help text of the metric.
    pub help: &'static str,
}

/// Upper bounds of the durations of store operations, in seconds.
const STEPS: &[f64] = &[0.001, 0.01, 0.1, 1.0, 5.0, 30.0];
/// Upper bounds of the durations of attempts, in seconds: few, because each route has several histograms.
const TRIES: &[f64] = &[0.01, 0.1, 1.0, 10.0];
/// Upper bounds of durations that include waiting, in seconds.
const WAITS: &[f64] = &[0.005, 0.025, 0.1, 0.5, 1.0, 5.0, 30.0, 120.0, 600.0];

/// Returns the upper bounds of a histogram, in seconds.
pub fn buckets(metric: &Metric) -> &'static [f64] {
    match metric.name {
        name if name == ATTEMPT_DURATION.name => TRIES,
        name if name == DELIVERY_LATENCY.name || name == CONSUMER_LAG.name => WAITS,
        _ => STEPS,
    }
}

const OF_ROUTE: &[&str] = &["store", "route"];
const OF_STORE: &[&str] = &["store"];

const fn metric(name: &'static str, kind: Kind, labels: &'static [&'static str], help: &'static str) -> Metric {
    Metric { name, kind, labels, help }
}

macro_rules! metrics {
    ($($constant:ident $name:literal $kind:ident $labels:expr, $help:literal;)*) => {
        $(
            #[doc = $help]
            pub const $constant: Metric = metric(concat!("postroom_", $name), Kind::$kind, $labels, $help);
        )*
        /// All metrics.
        pub const METRICS: &[Metric] = &[$($constant),*];
    };
}

metrics! {
    BUILD_INFO "build_info" Gauge &["version"], "Version of the program, as a label; the value is 1.";
    OLDEST_DUE_AGE "oldest_due_age_seconds" Gauge OF_ROUTE, "Age of the oldest due delivery; 0 if there is none. Only one of several relays measures it: use the maximum.";
    DELIVERIES_OPEN "deliveries_open" Gauge &["store", "route", "state"], "Open deliveries by state: due (exact up to 10,000), retrying, dead.";
    DELIVERIES "deliveries_total" Counter &["store", "route", "result"], "Finished deliveries by result: delivered or dead.";
    ATTEMPTS "attempts_total" Counter &["store", "route", "outcome", "code"], "Attempts by outcome (delivered, transient, permanent or unavailable) and code of the failure.";
    ATTEMPT_DURATION "attempt_duration_seconds" Histogram &["store", "route", "outcome"], "Duration of an attempt.";
    DELIVERY_LATENCY "delivery_latency_seconds" Histogram OF_ROUTE, "Time from the append to the settled delivery.";
    IN_FLIGHT "in_flight_deliveries" Gauge OF_ROUTE, "Deliveries in flight.";
    ROUTE_STATE "route_state" Gauge &["store", "route", "state"], "State of a route: 1 for the current state, 0 for earlier ones.";
    BLOCKED_KEYS "blocked_keys" Gauge OF_ROUTE, "Blocked keys: keys whose events wait behind an earlier event.";
    DEAD_LETTERS "dead_letters" Gauge OF_ROUTE, "Number of dead letters.";
    LEASE_TAKEOVERS "lease_takeovers_total" Counter OF_ROUTE, "Lanes taken over from a relay that did not release them.";
    READ_DURATION "read_duration_seconds" Histogram OF_STORE, "Duration of reading due events.";
    SETTLE_DURATION "settle_duration_seconds" Histogram OF_STORE, "Duration of writing outcomes.";
    STORE_UP "store_up" Gauge OF_STORE, "Reachability of the store: 1 if it answered the last query, else 0.";
    STORE_HORIZON_AGE "store_horizon_age_seconds" Gauge OF_STORE, "Age of the oldest snapshot that keeps the database from removing dead rows; 0 if there is none, as far as the role may see.";
    STORE_OLDEST_WRITER_AGE "store_oldest_writer_age_seconds" Gauge OF_STORE, "Age of the oldest open transaction that has written, as far as the role may see.";
    WEBHOOK_RESPONSES "webhook_responses_total" Counter &["store", "route", "class"], "Responses of webhook receivers by class: 2xx, 3xx, 4xx, 429, 5xx, timeout, refused.";
    INBOX_ACCEPTS "inbox_accepts_total" Counter &["consumer", "result"], "Events that a consumer in Rust accepted (new) or had accepted before (duplicate). Exported by the consumer's process, with the feature `metrics`.";
    PULL_FOREIGN_SETTLES "pull_foreign_settles_total" Counter OF_ROUTE, "Leases of pull routes that another worker than the one they belong to tried to settle; none of them was settled.";
    HTTP_REFUSED "http_requests_refused_total" Counter &["reason"], "Requests that the HTTP server refused: unauthorized (no valid token), forbidden (role or scope), origin (page of another site), host (name of another server).";
    HTTP_CONNECTIONS "http_connections" Gauge &[], "Open connections to the HTTP server of the relay.";
    HTTP_CONNECTIONS_CLOSED "http_connections_closed_total" Counter &["reason"], "Connections to the HTTP server that the relay refused or closed: full (all places busy), displaced (waited longest when a place was needed), silent (no request in time), slow (request took too long).";
    CONSUMER_LAG "consumer_lag_seconds" Histogram &["consumer"], "Time from the occurrence of an event to the end of its consumer's work, for consumers in Rust; the lag of any consumer is `postroom_consumer_lag_messages`. Exported by the consumer's process, with the feature `metrics`.";
    CONSUMER_LAG_MESSAGES "consumer_lag_messages" Gauge &["store", "route", "destination", "consumer"], "Messages that a consumer of the destination (group, durable consumer or queue, in any language) has not finished, as the destination tells the relay; NaN while unknown. Only one of several relays reads it: use the maximum.";
    CONSUMER_MEMBERS "consumer_members" Gauge &["store", "route", "destination", "consumer"], "Members of a consumer, as the destination counts them; NaN while unknown.";
    SPANS_DROPPED "spans_dropped_total" Counter &[], "Spans that were dropped because the collector rejected them or the queue was full.";
    LOG_LINES_DROPPED "log_lines_dropped_total" Counter &[], "Log lines that were dropped because they could not be written or the queue was full.";
    CONFIG_RELOAD_SUCCESS "config_reload_success" Gauge &[], "Result of the last reload of the configuration: 1 if it succeeded, else 0.";
    CONFIG_RELOAD_TIME "config_reload_timestamp_seconds" Gauge &[], "Time at which the current configuration was read, as a Unix timestamp.";
}

/// Renders the table of `docs/metrics.md`.
pub fn page() -> String {
    let mut page = "| name | kind | labels | meaning |\n| --- | --- | --- | --- |".to_owned();
    for Metric { name, kind, labels, help } in METRICS {
        let labels: Vec<String> = labels.iter().map(|label| format!("`{label}`")).collect();
        let _ = write!(page, "\n| `{name}` | {} | {} | {help} |", kind.as_str(), labels.join(", "));
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_as_prometheus_wants_them() {
        for metric in METRICS {
            let Metric { name, kind, labels, help } = metric;
            assert!(name.chars().all(|c| c.is_ascii_lowercase() || c == '_'), "{name}");
            assert_eq!(name.ends_with("_total"), *kind == Kind::Counter, "{name}");
            assert!(*kind != Kind::Histogram || name.ends_with("_seconds"), "{name}");
            assert!(!labels.contains(&"route") || labels.contains(&"store"), "{name} has a route without its store");
            assert!(help.ends_with('.'), "{name}");
        }
    }
}
