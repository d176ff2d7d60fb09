//! Every metric: recorder, documentation, dashboards and alert rules are made from this list.

use std::fmt::Write as _;

/// What a metric is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Only grows while the process lives.
    Counter,
    /// Goes up and down.
    Gauge,
    /// How often something took how long, in seconds.
    Histogram,
}

impl Kind {
    /// As Prometheus says it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        }
    }
}

/// One metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Metric {
    /// Its name.
    pub name: &'static str,
    /// What it is.
    pub kind: Kind,
    /// Its labels; never an event's id, key, or a URL.
    pub labels: &'static [&'static str],
    /// What it tells.
    pub help: &'static str,
}

/// Upper bounds in seconds of what a store takes.
const STEPS: &[f64] = &[0.001, 0.01, 0.1, 1.0, 5.0, 30.0];
/// Upper bounds in seconds of a try: few, for there are several histograms of each route, and a page of many stays small.
const TRIES: &[f64] = &[0.01, 0.1, 1.0, 10.0];
/// Upper bounds in seconds of what may wait.
const WAITS: &[f64] = &[0.005, 0.025, 0.1, 0.5, 1.0, 5.0, 30.0, 120.0, 600.0];

/// Upper bounds of a histogram, in seconds.
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
        /// All there are.
        pub const METRICS: &[Metric] = &[$($constant),*];
    };
}

metrics! {
    BUILD_INFO "build_info" Gauge &["version"], "1, with the version of the program.";
    OLDEST_DUE_AGE "oldest_due_age_seconds" Gauge OF_ROUTE, "Age of the oldest delivery that should have been tried by now; 0 when there is none. Of several relays one asks: take the greatest.";
    DELIVERIES_OPEN "deliveries_open" Gauge &["store", "route", "state"], "Deliveries that are not finished: due (exact up to 10,000), retrying, dead.";
    DELIVERIES "deliveries_total" Counter &["store", "route", "result"], "Finished deliveries: delivered or dead.";
    ATTEMPTS "attempts_total" Counter &["store", "route", "outcome", "code"], "Tries: delivered, transient, permanent or unavailable, with the failure's code.";
    ATTEMPT_DURATION "attempt_duration_seconds" Histogram &["store", "route", "outcome"], "How long one try took.";
    DELIVERY_LATENCY "delivery_latency_seconds" Histogram OF_ROUTE, "From the append to the settled delivery.";
    IN_FLIGHT "in_flight_deliveries" Gauge OF_ROUTE, "Deliveries on their way now.";
    ROUTE_STATE "route_state" Gauge &["store", "route", "state"], "1 for the state a route is in, 0 for those it was in before.";
    BLOCKED_KEYS "blocked_keys" Gauge OF_ROUTE, "Keys with events waiting behind an earlier one.";
    DEAD_LETTERS "dead_letters" Gauge OF_ROUTE, "Dead letters.";
    LEASE_TAKEOVERS "lease_takeovers_total" Counter OF_ROUTE, "Lanes taken over from a relay that did not give them up.";
    READ_DURATION "read_duration_seconds" Histogram OF_STORE, "How long reading due events took.";
    SETTLE_DURATION "settle_duration_seconds" Histogram OF_STORE, "How long writing outcomes took.";
    STORE_UP "store_up" Gauge OF_STORE, "Whether the store answered when it was last asked.";
    STORE_HORIZON_AGE "store_horizon_age_seconds" Gauge OF_STORE, "How long somebody has kept the database from removing dead rows; 0 when nobody does, as far as the role may see.";
    STORE_OLDEST_WRITER_AGE "store_oldest_writer_age_seconds" Gauge OF_STORE, "Age of the oldest open transaction that has written, as far as the role may see.";
    WEBHOOK_RESPONSES "webhook_responses_total" Counter &["store", "route", "class"], "Answers of receivers: 2xx, 3xx, 4xx, 429, 5xx, timeout, refused.";
    INBOX_ACCEPTS "inbox_accepts_total" Counter &["consumer", "result"], "Events that a consumer in Rust accepted and did the work of (new), or had accepted before (duplicate). In its own process, with the feature `metrics`.";
    CONSUMER_LAG "consumer_lag_seconds" Histogram &["consumer"], "How long after an event occurred the work of its consumer was done. In its own process, with the feature `metrics`.";
    SPANS_DROPPED "spans_dropped_total" Counter &[], "Spans that the collector of traces did not take, or for which there was no room to wait.";
    LOG_LINES_DROPPED "log_lines_dropped_total" Counter &[], "Log lines that could not be written, or for which there was no room to wait.";
    CONFIG_RELOAD_SUCCESS "config_reload_success" Gauge &[], "Whether the last reload of the configuration was taken.";
    CONFIG_RELOAD_TIME "config_reload_timestamp_seconds" Gauge &[], "When the configuration in force was read.";
}

/// All of it as a page shows it.
pub fn page() -> String {
    let mut page = "| name | what it is | labels | what it tells |\n| --- | --- | --- | --- |".to_owned();
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
