//! Exchanges, queues and bindings that a route counts on.
//!
//! They are looked up whenever a connection is opened, and what exists is left as it is. What is missing is made or
//! reported, as the [`Mode`] says ([`setup`]).

pub(crate) mod setup;

use crate::wire::SHORT_BYTES_MAX;

/// What must be there. Exchanges and queues are durable.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Topology {
    /// What happens to what is missing.
    pub mode: Mode,
    /// Exchanges; those of the broker (`amq.topic`) need no mention.
    pub exchanges: Vec<Exchange>,
    /// Queues, with what they take.
    pub queues: Vec<Queue>,
}

/// What happens to what is missing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Mode {
    /// It is made.
    #[default]
    Declare,
    /// The destination counts as unavailable until somebody has made it.
    Check,
}

/// An exchange.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exchange {
    /// Its name, at most 255 bytes.
    pub name: String,
    /// How it chooses queues.
    pub kind: ExchangeKind,
}

/// How an exchange chooses queues.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
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
    /// The broker's word.
    pub fn word(self) -> &'static str {
        match self {
            Self::Topic => "topic",
            Self::Direct => "direct",
            Self::Fanout => "fanout",
            Self::Headers => "headers",
        }
    }
}

/// A queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Queue {
    /// Its name, at most 255 bytes, `.dlq` included where it has one.
    pub name: String,
    /// How it is kept.
    pub kind: QueueKind,
    /// What it takes.
    pub bindings: Vec<Binding>,
    /// Whether what its consumers reject goes to a queue `NAME.dlq`; see [`Queue::dead_letter_exchange`].
    pub dlq: bool,
    /// Most messages in it. Further ones are refused, which the relay hears and tries again; nothing is dropped.
    ///
    /// Defaults to no limit.
    pub max_length: Option<u64>,
}

impl Queue {
    /// The exchange through which its dead letters go: `EXCHANGE.dlx` by its first binding, direct, with the name of the
    /// dead-letter queue as routing key. So the queues of one exchange share one. Without a binding it is `NAME.dlx`.
    pub fn dead_letter_exchange(&self) -> String {
        format!("{}.dlx", self.bindings.first().map_or(&self.name, |binding| &binding.exchange))
    }

    /// The queue of its dead letters.
    pub fn dead_letter_queue(&self) -> String {
        format!("{}.dlq", self.name)
    }
}

/// How a queue is kept.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum QueueKind {
    /// On a majority of the cluster's nodes.
    #[default]
    Quorum,
    /// On one node.
    Classic,
}

impl QueueKind {
    /// The broker's word.
    pub fn word(self) -> &'static str {
        match self {
            Self::Quorum => "quorum",
            Self::Classic => "classic",
        }
    }
}

/// What a queue takes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Binding {
    /// Of which exchange.
    pub exchange: String,
    /// With which routing keys; see [`check_binding_key`].
    pub routing_key: String,
}

/// A topology that cannot be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TopologyError {
    /// A name that none can have.
    #[error("the name {0:?} is empty, begins with amq., or is longer than 255 bytes")]
    Name(String),
    /// A pattern that means something else than it says.
    #[error(
        "the routing key {0:?} has {1:?} as part of a word, where it stands for itself; a wildcard is a whole word: \
         `*` is one word, `#` any number of words"
    )]
    PartialWildcard(String, char),
    /// A key that no message can have.
    #[error("the routing key {0:?} is longer than 255 bytes")]
    KeyTooLong(String),
}

impl Topology {
    /// Whether a broker could have it.
    pub fn check(&self) -> Result<(), TopologyError> {
        for exchange in &self.exchanges {
            check_name(&exchange.name)?;
        }
        for queue in &self.queues {
            check_name(&queue.name)?;
            if queue.dlq {
                check_name(&queue.dead_letter_queue())?;
                check_name(&queue.dead_letter_exchange())?;
            }
            queue.bindings.iter().try_for_each(|binding| check_binding_key(&binding.routing_key))?;
        }
        Ok(())
    }
}

/// Whether an exchange or a queue of ours can be called so.
pub fn check_name(name: &str) -> Result<(), TopologyError> {
    if name.is_empty() || name.starts_with("amq.") || name.len() > SHORT_BYTES_MAX {
        return Err(TopologyError::Name(name.to_owned()));
    }
    Ok(())
}

/// Whether a binding's routing key means what it says: in `stock_*.*` the first `*` is a character like any other, and
/// no routing key of ours has one.
pub fn check_binding_key(key: &str) -> Result<(), TopologyError> {
    if key.len() > SHORT_BYTES_MAX {
        return Err(TopologyError::KeyTooLong(key.to_owned()));
    }
    let partial =
        key.split('.').filter(|word| word.len() > 1).find_map(|word| word.chars().find(|c| "*#".contains(*c)));
    partial.map_or(Ok(()), |wildcard| Err(TopologyError::PartialWildcard(key.to_owned(), wildcard)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wildcard_is_a_whole_word() {
        for key in ["#", "*", "order.*", "*.placed", "a.#.b", "order.placed", "", "stock_adjustment.*"] {
            assert_eq!(check_binding_key(key), Ok(()), "{key}");
        }
        for (key, wildcard) in [("stock_*.*", '*'), ("order.#x", '#'), ("**", '*'), ("a.*b.c", '*'), ("##", '#')] {
            assert_eq!(check_binding_key(key), Err(TopologyError::PartialWildcard(key.to_owned(), wildcard)));
        }
        let said = check_binding_key("stock_*.*").unwrap_err().to_string();
        assert!(said.contains("\"stock_*.*\"") && said.contains("a wildcard is a whole word"), "{said}");
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
        let alone = Queue { bindings: Vec::new(), ..queue };
        assert_eq!(alone.dead_letter_exchange(), "mails.dlx");
    }
}
