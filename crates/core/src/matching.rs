//! Which events a route wants. Lists are and-ed, their entries or-ed; `*` only at the end, any rest, dots included.

use serde::{Deserialize, Serialize};

use crate::event::Event;

/// Filter of a route.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Filter {
    /// Patterns of event types; an empty list matches every type.
    #[serde(default, skip_serializing_if = "Vec::is_empty", rename = "match")]
    pub types: Vec<Pattern>,
    /// Aggregate types; empty wants every event.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub aggregate_type: Vec<Pattern>,
    /// Tenants; empty wants every event.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tenant: Vec<Pattern>,
}

impl Filter {
    /// Creates a filter by event types.
    pub fn types<I: IntoIterator<Item = P>, P: AsRef<str>>(patterns: I) -> Result<Self, PatternError> {
        let types = patterns.into_iter().map(|p| Pattern::parse(p.as_ref())).collect::<Result<_, _>>()?;
        Ok(Self { types, ..Self::default() })
    }

    /// Reports whether the route matches this event.
    pub fn matches(&self, event: &Event) -> bool {
        self.matches_parts(&event.event_type, event.aggregate_type.as_deref(), event.tenant.as_deref())
    }

    /// Reports whether the route matches an event with these fields, so that a store need not build the event.
    pub fn matches_parts(&self, event_type: &str, aggregate_type: Option<&str>, tenant: Option<&str>) -> bool {
        any(&self.types, Some(event_type)) && any(&self.aggregate_type, aggregate_type) && any(&self.tenant, tenant)
    }
}

fn any(patterns: &[Pattern], value: Option<&str>) -> bool {
    patterns.is_empty() || value.is_some_and(|v| patterns.iter().any(|p| p.matches(v)))
}

/// Pattern such as `order.placed`, `order.*` or `*`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(try_from = "String", into = "String")]
pub struct Pattern {
    text: String,
    prefix: bool,
}

/// Error of a pattern that is not valid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("pattern {pattern:?} is not valid: {reason}")]
pub struct PatternError {
    /// Text of the pattern.
    pub pattern: String,
    /// Reason why the pattern is not valid.
    pub reason: &'static str,
}

impl Pattern {
    /// Parses a pattern.
    pub fn parse(text: &str) -> Result<Self, PatternError> {
        let error = |reason| Err(PatternError { pattern: text.to_owned(), reason });
        if text.is_empty() {
            return error("it is empty; `*` wants everything");
        }
        let (stem, prefix) = match text.strip_suffix('*') {
            Some(stem) => (stem, true),
            None => (text, false),
        };
        if stem.contains('*') {
            return error("`*` may stand only at the end, for instance `order.*`");
        }
        Ok(Self { text: stem.to_owned(), prefix })
    }

    /// Reports whether the pattern matches the value.
    pub fn matches(&self, value: &str) -> bool {
        if self.prefix { value.starts_with(&self.text) } else { value == self.text }
    }
}

impl std::fmt::Display for Pattern {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}{}", self.text, if self.prefix { "*" } else { "" })
    }
}

impl TryFrom<String> for Pattern {
    type Error = PatternError;
    fn try_from(text: String) -> Result<Self, PatternError> {
        Self::parse(&text)
    }
}

impl From<Pattern> for String {
    fn from(pattern: Pattern) -> Self {
        pattern.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_exactly_or_by_prefix() {
        for (pattern, value, expected) in [
            ("order.placed", "order.placed", true),
            ("order.placed", "order.placed.v2", false),
            ("order.*", "order.placed", true),
            ("order.*", "order.item.added", true),
            ("order.*", "order", false),
            ("order.*", "orders.placed", false),
            ("*", "anything.at.all", true),
        ] {
            assert_eq!(Pattern::parse(pattern).unwrap().matches(value), expected, "{pattern} ~ {value}");
        }
    }

    #[test]
    fn a_star_elsewhere_is_refused() {
        for bad in ["", "*.placed", "order.*.x", "**"] {
            assert!(Pattern::parse(bad).is_err(), "{bad} was accepted");
        }
    }

    #[test]
    fn lists_are_anded_and_their_entries_ored() {
        let filter = Filter {
            types: vec![Pattern::parse("order.*").unwrap(), Pattern::parse("paid").unwrap()],
            tenant: vec![Pattern::parse("acme").unwrap()],
            ..Filter::default()
        };
        assert!(filter.matches(&Event::new("paid").tenant("acme")));
        assert!(!filter.matches(&Event::new("paid").tenant("other")));
        assert!(!filter.matches(&Event::new("paid")), "no tenant fits no tenant pattern");
        assert!(Filter::default().matches(&Event::new("anything")));
    }
}
