//! Exchanges, queues and bindings that a route counts on.
//!
//! They are looked up whenever a connection is opened, and what exists is left as it is. What is missing is made or
//! reported, as the [`Mode`] says ([`setup`]).

#[cfg(feature = "config")]
pub(crate) mod config;
pub(crate) mod pattern;
pub(crate) mod setup;

use crate::wire::SHORT_BYTES_MAX;

/// Topology: exchanges and queues that must exist. They are durable.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Topology {
    /// Handling of missing exchanges and queues.
    pub mode: Mode,
    /// Exchanges; those of the broker (`amq.topic`) need no mention.
    pub exchanges: Vec<Exchange>,
    /// Queues with their bindings.
    pub queues: Vec<Queue>,
}

/// Handling of missing exchanges and queues.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Mode {
    /// It is made.
    #[default]
    Declare,
    /// The destination counts as unavailable until somebody has made it.
    Check,
}

/// Exchange of a topology.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exchange {
    /// Name, at most 255 bytes.
    pub name: String,
    /// Type of the exchange.
    pub kind: ExchangeKind,
}

/// Type of an exchange.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum ExchangeKind {
    /// By patterns of words: `order.*`, `#`.
    #[default]
    Topic,
    /// By the same routing key.
    Direct,
    /// All of them.
    Fanout,
    /// By headers.
    Headers,
}

impl ExchangeKind {
    /// Returns the name in RabbitMQ.
    pub fn word(self) -> &'static str {
        match self {
            Self::Topic => "topic",
            Self::Direct => "direct",
            Self::Fanout => "fanout",
            Self::Headers => "headers",
        }
    }
}

/// Queue of a topology.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Queue {
    /// Name, at most 255 bytes, `.dlq` included where it has one.
    pub name: String,
    /// Type of the queue.
    pub kind: QueueKind,
    /// Bindings of the queue.
    pub bindings: Vec<Binding>,
    /// Whether messages that consumers reject go to a queue `NAME.dlq`; see [`Queue::dead_letter_exchange`].
    pub dlq: bool,
    /// Maximum number of messages. Further ones are rejected, and the relay retries them; none is dropped.
    ///
    /// Defaults to no limit.
    pub max_length: Option<u64>,
}

impl Queue {
    /// Returns the exchange of its dead letters: `EXCHANGE.dlx` by its first binding, direct, with the name of the
    /// dead-letter queue as routing key. So the queues of one exchange share one. Without a binding, or with one to an
    /// exchange of the broker's own, it is `NAME.dlx`.
    pub fn dead_letter_exchange(&self) -> String {
        let exchange = self.bindings.first().map(|binding| &binding.exchange).filter(|name| !is_brokers(name));
        format!("{}.dlx", exchange.unwrap_or(&self.name))
    }

    /// Returns the queue of its dead letters.
    pub fn dead_letter_queue(&self) -> String {
        format!("{}.dlq", self.name)
    }

    /// Checks the name of the queue, and the names derived from it.
    pub fn check_names(&self) -> Result<(), TopologyError> {
        check_name(&self.name)?;
        if self.dlq {
            check_name(&self.dead_letter_queue())?;
            check_name(&self.dead_letter_exchange())?;
        }
        Ok(())
    }
}

/// Type of a queue.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum QueueKind {
    /// On a majority of the cluster's nodes.
    #[default]
    Quorum,
    /// On one node.
    Classic,
}

impl QueueKind {
    /// Returns the name in RabbitMQ.
    pub fn word(self) -> &'static str {
        match self {
            Self::Quorum => "quorum",
            Self::Classic => "classic",
        }
    }
}

/// Binding of a queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Binding {
    /// Name of the exchange.
    pub exchange: String,
    /// Pattern of routing keys; see [`check_binding_key`].
    pub routing_key: String,
}

/// Error of a topology that is not valid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TopologyError {
    /// A name that none can have.
    #[error("the name {0:?} is empty, begins with amq., or is longer than 255 bytes")]
    Name(String),
    /// A pattern that means something else than it says.
    #[error(
        "the routing key {0:?} has the word {1:?}, which is no pattern: `*` is one word or a part of one, `#` any number \
         of whole words"
    )]
    Wildcard(String, String),
    /// A pattern whose bindings nobody makes.
    #[error(
        "the routing key {0:?} has `*` as part of a word, which RabbitMQ does not know; bind whole words, or set \
         `mode = \"declare\"`, which lets the relay make a binding for each word it meets"
    )]
    NotDeclared(String),
    /// A key that no message can have.
    #[error("the routing key {0:?} is longer than 255 bytes")]
    KeyTooLong(String),
}

impl Topology {
    /// Checks that a broker can have the topology.
    pub fn check(&self) -> Result<(), TopologyError> {
        for exchange in &self.exchanges {
            check_name(&exchange.name)?;
        }
        for queue in &self.queues {
            queue.check_names()?;
            for Binding { routing_key, .. } in &queue.bindings {
                check_binding_key(routing_key)?;
                if self.mode == Mode::Check && pattern::has_half_a_word(routing_key) {
                    return Err(TopologyError::NotDeclared(routing_key.clone()));
                }
            }
        }
        Ok(())
    }
}

/// Checks the name of an exchange or a queue.
pub fn check_name(name: &str) -> Result<(), TopologyError> {
    if name.is_empty() || is_brokers(name) || name.len() > SHORT_BYTES_MAX {
        return Err(TopologyError::Name(name.to_owned()));
    }
    Ok(())
}

/// Names that only the broker gives.
fn is_brokers(name: &str) -> bool {
    name.starts_with("amq.")
}

/// Checks the routing key of a binding. A `*` may be part of a word (`stock_*.*`), which RabbitMQ does not know: the relay then
/// binds each such word before it publishes its first event. A word of `*` or `#` beside other wildcards means nothing.
pub fn check_binding_key(key: &str) -> Result<(), TopologyError> {
    if key.len() > SHORT_BYTES_MAX {
        return Err(TopologyError::KeyTooLong(key.to_owned()));
    }
    let is_wrong =
        |word: &&str| word.len() > 1 && (word.contains('#') || word.contains("**") || word.chars().all(|c| c == '*'));
    let wrong = key.split('.').find(is_wrong);
    wrong.map_or(Ok(()), |word| Err(TopologyError::Wildcard(key.to_owned(), word.to_owned())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_may_be_part_of_a_word_and_a_hash_may_not() {
        for key in ["#", "*", "order.*", "*.placed", "a.#.b", "order.placed", "", "stock_*.*", "a.*b.c", "a*b*c"] {
            assert_eq!(check_binding_key(key), Ok(()), "{key}");
        }
        for (key, word) in [("order.#x", "#x"), ("a.**", "**"), ("stock_**.*", "stock_**"), ("##", "##")] {
            assert_eq!(check_binding_key(key), Err(TopologyError::Wildcard(key.to_owned(), word.to_owned())));
        }
    }

    #[test]
    fn names_that_none_can_have_are_refused() {
        for name in ["", "amq.orders", &"x".repeat(256)] {
            assert_eq!(check_name(name), Err(TopologyError::Name(name.to_owned())));
        }
        assert_eq!(check_name("orders"), Ok(()));
        let mut queue = Queue {
            name: "x".repeat(252),
            kind: QueueKind::Quorum,
            bindings: Vec::new(),
            dlq: false,
            max_length: None,
        };
        let with = |queue: &Queue| Topology { queues: vec![queue.clone()], ..Topology::default() };
        assert_eq!(with(&queue).check(), Ok(()));
        queue.dlq = true;
        assert!(with(&queue).check().is_err(), "NAME.dlq is too long");
    }

    #[test]
    fn queues_of_one_exchange_share_its_exchange_for_dead_letters() {
        let binding = Binding { exchange: "shop.events".to_owned(), routing_key: "order.*".to_owned() };
        let queue = Queue {
            name: "mails".to_owned(),
            kind: QueueKind::Quorum,
            bindings: vec![binding],
            dlq: true,
            max_length: None,
        };
        assert_eq!(
            (queue.dead_letter_exchange(), queue.dead_letter_queue()),
            ("shop.events.dlx".to_owned(), "mails.dlq".to_owned())
        );
        let brokers = Binding { exchange: "amq.topic".to_owned(), routing_key: "#".to_owned() };
        for bindings in [Vec::new(), vec![brokers]] {
            let queue = Queue { bindings, ..queue.clone() };
            assert_eq!((queue.dead_letter_exchange().as_str(), queue.check_names()), ("mails.dlx", Ok(())));
        }
    }
}
