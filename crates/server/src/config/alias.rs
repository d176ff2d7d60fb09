//! Metrics under further names: those that people graph already.

use postroom_core::metrics::{METRICS, Metric};

#[cfg(feature = "http")]
use crate::metrics::Kinds;

/// Additional name of a metric, or of a part of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Alias {
    name: String,
    of: Metric,
    /// Only where this label has one of these values.
    only: Option<(String, Vec<String>)>,
}

/// Label of an alias that no metric has: where a route goes (`to="webhook"`).
const TO: &str = "to";

impl Alias {
    /// `NAME = "postroom_attempts_total"`, or of a part of it: `postroom_attempts_total{outcome="transient|permanent"}`.
    pub fn parse(name: &str, of: &str) -> Result<Self, String> {
        let word = |text: &str| {
            text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
                && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
        };
        if !word(name) || name.starts_with("postroom_") {
            return Err(format!(
                "{name:?} cannot be another name of a metric: letters, digits and `_`, not `postroom_`"
            ));
        }
        let (metric, part) = of.split_once('{').map_or((of, None), |(metric, part)| (metric, Some(part)));
        let Some(metric) = METRICS.iter().find(|known| known.name == metric.trim()) else {
            return Err(format!("there is no metric {metric:?}; docs/metrics.md lists them"));
        };
        let only = match part {
            None => None,
            Some(part) => {
                let part = part.trim_end().strip_suffix("\"}").and_then(|part| part.split_once("=\""));
                let routed = metric.labels.contains(&"route");
                let known =
                    part.filter(|(label, _)| metric.labels.contains(&label.trim()) || routed && label.trim() == TO);
                let Some((label, values)) = known else {
                    let labels = metric.labels.join(", ") + if routed { ", to" } else { "" };
                    return Err(format!(
                        "{of:?} is not a part of a metric: write LABEL=\"a|b\" in braces, with one of {labels}"
                    ));
                };
                Some((label.trim().to_owned(), values.split('|').map(str::to_owned).collect()))
            }
        };
        Ok(Self { name: name.to_owned(), of: *metric, only })
    }
}

#[cfg(feature = "http")]
impl Alias {
    /// What of a page belongs to it, under its name.
    fn copy(&self, page: &str, kinds: &Kinds) -> String {
        use std::fmt::Write as _;

        let Metric { name, kind, help, .. } = self.of;
        let mut copy = format!("# HELP {} {help}\n# TYPE {} {}\n", self.name, self.name, kind.as_str());
        let before = copy.len();
        for line in page.lines() {
            let Some(rest) = line.strip_prefix(name) else { continue };
            let end = rest.find(['{', ' ']).unwrap_or(rest.len());
            if ["", "_bucket", "_sum", "_count"].contains(&&rest[..end]) && self.wants(rest, kinds) {
                let _ = writeln!(copy, "{}{rest}", self.name);
            }
        }
        if copy.len() == before { String::new() } else { copy }
    }

    fn wants(&self, labels: &str, kinds: &Kinds) -> bool {
        let Some((label, values)) = &self.only else { return true };
        if label == TO {
            let route = labels.split_once("route=\"").and_then(|(_, rest)| rest.split_once('"'));
            let kind = route.and_then(|(route, _)| kinds.get(route));
            return kind.is_some_and(|kind| values.iter().any(|value| value == kind));
        }
        values.iter().any(|value| {
            let pair = format!("{label}=\"{value}\"");
            labels.contains(&format!("{{{pair}")) || labels.contains(&format!(",{pair}"))
        })
    }
}

/// The page, and behind it what has further names.
#[cfg(feature = "http")]
pub(crate) fn extended(mut page: String, aliases: &[Alias], kinds: &Kinds) -> String {
    let copies: String = aliases.iter().map(|alias| alias.copy(&page, kinds)).collect();
    if !copies.is_empty() {
        page.push('\n');
        page.push_str(&copies);
    }
    page
}

#[cfg(feature = "http")]
#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "\
        # TYPE postroom_attempts_total counter\n\
        postroom_attempts_total{store=\"main\",route=\"a\",outcome=\"delivered\",code=\"\"} 7\n\
        postroom_attempts_total{store=\"main\",route=\"a\",outcome=\"transient\",code=\"x\"} 2\n\
        # TYPE postroom_in_flight_deliveries gauge\n\
        postroom_in_flight_deliveries{store=\"main\",route=\"a\"} 3\n\
        postroom_attempt_duration_seconds_sum{store=\"main\",route=\"a\",outcome=\"delivered\"} 0.5\n";

    fn lines(name: &str, of: &str) -> Vec<String> {
        let kinds = Kinds::from([("a".to_owned(), "webhook")]);
        let page = extended(PAGE.to_owned(), &[Alias::parse(name, of).unwrap()], &kinds);
        page.lines().filter(|line| line.starts_with(name)).map(str::to_owned).collect()
    }

    #[test]
    fn a_metric_is_also_there_under_its_other_name() {
        let inflight = lines("corebilling_outbox_dispatcher_inflight", "postroom_in_flight_deliveries");
        assert_eq!(inflight, ["corebilling_outbox_dispatcher_inflight{store=\"main\",route=\"a\"} 3"]);
        let errors = lines("errors", "postroom_attempts_total{outcome=\"transient|permanent\"}");
        assert_eq!(errors, ["errors{store=\"main\",route=\"a\",outcome=\"transient\",code=\"x\"} 2"]);
        let took = lines("took_seconds", "postroom_attempt_duration_seconds");
        assert_eq!(took, ["took_seconds_sum{store=\"main\",route=\"a\",outcome=\"delivered\"} 0.5"]);
        assert!(lines("dead", "postroom_dead_letters").is_empty());
        let inflight = lines("webhooks", "postroom_in_flight_deliveries{to=\"webhook\"}");
        assert_eq!(inflight, ["webhooks{store=\"main\",route=\"a\"} 3"]);
        assert!(lines("published", "postroom_in_flight_deliveries{to=\"kafka\"}").is_empty());
    }

    #[test]
    fn what_is_none_is_named() {
        for (name, of, says) in [
            ("postroom_x", "postroom_dead_letters", "postroom_x"),
            ("a b", "postroom_dead_letters", "a b"),
            ("x", "postroom_nothing", "postroom_nothing"),
            ("x", "postroom_dead_letters{colour=\"red\"}", "store, route"),
            ("x", "postroom_dead_letters{route=a}", "LABEL"),
        ] {
            assert!(Alias::parse(name, of).unwrap_err().contains(says), "{name} {of}");
        }
    }
}
