//! Patterns that RabbitMQ does not have: `*` as part of a word, as in `stock_*.*`.
//!
//! RabbitMQ matches whole words only. So the publisher binds the queue with the word itself (`stock_transfer.*`) before the
//! first event of that word is published, on the same channel: the broker handles both in order. A connection makes each
//! binding once, and a new connection makes them again, which changes nothing.

use std::collections::HashSet;

use super::Topology;

/// Maximum number of bindings that one connection makes for patterns. Words come from events, and a broker must not be
/// filled with bindings by a word that has an id in it.
pub(crate) const PATTERN_BINDINGS_MAX: usize = 1000;

/// Maximum number of routing keys that are known to need no further binding.
const KNOWN_KEYS_MAX: usize = 10_000;

/// Reports whether RabbitMQ would take a `*` of this binding key for a character like any other.
pub(crate) fn has_half_a_word(pattern: &str) -> bool {
    pattern.split('.').any(|word| word.len() > 1 && word.contains('*'))
}

/// The binding key that lets this routing key through, if the pattern means it: `stock_transfer.*` for `stock_*.*`.
fn binding_key(pattern: &str, routing_key: &str) -> Option<String> {
    let pattern: Vec<&str> = pattern.split('.').collect();
    let words: Vec<&str> = routing_key.split('.').collect();
    let mut found = Vec::with_capacity(pattern.len());
    matched(&pattern, &words, &mut found).then(|| found.join("."))
}

/// Matches word by word, and collects the words of the binding key.
fn matched<'a>(pattern: &[&'a str], words: &[&'a str], found: &mut Vec<&'a str>) -> bool {
    let Some((&first, rest)) = pattern.split_first() else { return words.is_empty() };
    let kept = found.len();
    if first == "#" {
        found.push(first);
        return (0..=words.len()).any(|skipped| {
            found.truncate(kept + 1);
            matched(rest, &words[skipped..], found)
        });
    }
    let Some((&word, further)) = words.split_first() else { return false };
    let is_half = first.len() > 1 && first.contains('*');
    let fits = first == "*" || if is_half { word_fits(first, word) } else { first == word };
    // A word of wildcards alone would let everything through.
    let fits = fits && !(is_half && matches!(word, "*" | "#"));
    found.push(if is_half { word } else { first });
    fits && matched(rest, further, found)
}

/// Whether a word has the parts around the `*` of a pattern, in their order.
fn word_fits(pattern: &str, word: &str) -> bool {
    let Some((start, rest)) = pattern.split_once('*') else { return pattern == word };
    let Some(left) = word.strip_prefix(start) else { return false };
    (0..=left.len()).any(|end| left.is_char_boundary(end) && word_fits(rest, &left[end..]))
}

/// What is bound for patterns on one connection.
#[derive(Debug, Default)]
pub(crate) struct PatternBindings {
    /// Queues with their patterns, of the exchange that is published to.
    patterns: Vec<(String, String)>,
    made: HashSet<(String, String)>,
    known: HashSet<String>,
}

/// More bindings are needed than a connection makes.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TooManyBindings {
    pub(crate) pattern: String,
}

impl PatternBindings {
    /// The patterns of a topology for this exchange, with nothing bound.
    pub(crate) fn new(topology: Option<&Topology>, exchange: &str) -> Self {
        let queues = topology.into_iter().flat_map(|topology| &topology.queues);
        let patterns = queues
            .flat_map(|queue| queue.bindings.iter().map(move |binding| (queue, binding)))
            .filter(|(_, binding)| binding.exchange == exchange && has_half_a_word(&binding.routing_key))
            .map(|(queue, binding)| (queue.name.clone(), binding.routing_key.clone()))
            .collect();
        Self { patterns, ..Self::default() }
    }

    /// The bindings to make before this routing key is published: queues with their binding keys.
    pub(crate) fn missing(&mut self, routing_key: &str) -> Result<Vec<(String, String)>, TooManyBindings> {
        if self.patterns.is_empty() || self.known.contains(routing_key) {
            return Ok(Vec::new());
        }
        let mut missing = Vec::new();
        for (queue, pattern) in &self.patterns {
            let Some(key) = binding_key(pattern, routing_key) else { continue };
            let binding = (queue.clone(), key);
            if self.made.contains(&binding) || missing.contains(&binding) {
                continue;
            }
            if self.made.len() + missing.len() >= PATTERN_BINDINGS_MAX {
                return Err(TooManyBindings { pattern: pattern.clone() });
            }
            missing.push(binding);
        }
        self.made.extend(missing.iter().cloned());
        if self.known.len() >= KNOWN_KEYS_MAX {
            self.known.clear();
        }
        self.known.insert(routing_key.to_owned());
        Ok(missing)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Binding, Queue, QueueKind};
    use super::*;

    #[test]
    fn a_word_of_which_the_pattern_has_a_part_is_bound_as_it_is() {
        for (pattern, key, expected) in [
            ("stock_*.*", "stock_transfer.posted", Some("stock_transfer.*")),
            ("stock_*.*", "stock_.posted", Some("stock_.*")),
            ("stock_*.*", "stock.posted", None),
            ("stock_*.*", "stock_transfer", None),
            ("stock_*.*", "stock_transfer.posted.late", None),
            ("stock_*.#", "stock_transfer.posted.late", Some("stock_transfer.#")),
            ("#.price_*", "a.b.price_list", Some("#.price_list")),
            ("#.price_*.#", "price_a.price_b", Some("#.price_a.#")),
            ("*_price.set", "list_price.set", Some("list_price.set")),
            ("a*b*c.x", "aXbXbc.x", Some("aXbXbc.x")),
            ("a*b*c.x", "aXc.x", None),
            ("ö*.x", "öü.x", Some("öü.x")),
        ] {
            assert_eq!(binding_key(pattern, key).as_deref(), expected, "{pattern} {key}");
        }
    }

    fn bindings() -> PatternBindings {
        let binding =
            |exchange: &str, key: &str| Binding { exchange: exchange.to_owned(), routing_key: key.to_owned() };
        let queue = Queue {
            name: "stock".to_owned(),
            kind: QueueKind::Classic,
            bindings: vec![
                binding("events", "stock_*.*"),
                binding("events", "order.*"),
                binding("others", "price_*.*"),
            ],
            dlq: false,
            max_length: None,
        };
        PatternBindings::new(Some(&Topology { queues: vec![queue], ..Topology::default() }), "events")
    }

    #[test]
    fn each_binding_is_made_once_and_only_for_the_exchange_that_is_published_to() {
        let mut bindings = bindings();
        let made = bindings.missing("stock_transfer.posted").unwrap();
        assert_eq!(made, [("stock".to_owned(), "stock_transfer.*".to_owned())]);
        for key in ["stock_transfer.posted", "stock_transfer.undone", "order.created", "price_list.changed"] {
            assert_eq!(bindings.missing(key), Ok(Vec::new()), "{key}");
        }
    }

    #[test]
    fn there_are_not_more_bindings_than_the_limit() {
        let mut bindings = bindings();
        for n in 0..PATTERN_BINDINGS_MAX {
            assert_eq!(bindings.missing(&format!("stock_{n}.posted")).map(|made| made.len()), Ok(1));
        }
        let error = TooManyBindings { pattern: "stock_*.*".to_owned() };
        assert_eq!(bindings.missing("stock_more.posted"), Err(error));
        assert_eq!(bindings.missing("stock_0.undone"), Ok(Vec::new()), "what is bound goes on");
    }
}
