//! Who is to blame when the broker closes the channel because of one message: it does not say which.
//!
//! ```text
//!   too large: the broker names its limit; who is over it is to blame, and later ones are not sent
//!   anything else: everybody in doubt ──sent again──► alone on the channel
//!                                          taken ──► cleared        closed again ──► to blame
//! ```

use std::collections::HashSet;

use crate::message::Sent;
use crate::wire::decode::Closing;

/// The codes with which a broker closes on what a message is: content too large, precondition failed, frame error,
/// syntax error.
const ABOUT_A_MESSAGE: [u16; 4] = [311, 406, 501, 502];
/// Most messages in doubt that are remembered; events that are never sent again would stay for ever.
const IN_DOUBT_MAX: usize = 10_000;

/// What is known about messages the broker does not take.
#[derive(Debug, Default)]
pub(crate) struct Culprits {
    ids: HashSet<String>,
    body_bytes_max: Option<usize>,
}

/// Why a message is to blame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Blame {
    TooLarge { limit: usize },
    Alone,
}

impl Culprits {
    /// Whether it must have the channel for itself.
    pub(crate) fn goes_alone(&self, id: &str) -> bool {
        !self.ids.is_empty() && self.ids.contains(id)
    }

    /// The broker has taken it, or it is answered for.
    pub(crate) fn clear(&mut self, id: &str) {
        if !self.ids.is_empty() {
            self.ids.remove(id);
        }
    }

    /// The limit it is over, as far as the broker has told.
    pub(crate) fn over_limit(&self, bytes: usize) -> Option<usize> {
        self.body_bytes_max.filter(|limit| bytes > *limit)
    }

    /// The connection ended for another reason: it may be another broker next time, or the same one configured anew.
    pub(crate) fn forget_limit(&mut self) {
        self.body_bytes_max = None;
    }

    /// Finds out who is to blame that the channel was closed; `unanswered` are all that were on it. One answer per message.
    pub(crate) fn blame(&mut self, closing: &Closing, unanswered: usize, in_doubt: &[Sent]) -> Vec<Option<Blame>> {
        if !ABOUT_A_MESSAGE.contains(&closing.code) {
            self.forget_limit();
            return vec![None; in_doubt.len()];
        }
        if let Some(limit) = named_limit(&closing.text) {
            self.body_bytes_max = Some(limit);
            let too_large = |sent: &Sent| (sent.body_bytes > limit).then_some(Blame::TooLarge { limit });
            let found: Vec<_> = in_doubt.iter().map(too_large).collect();
            if found.iter().any(Option::is_some) {
                return found;
            }
        }
        if let ([only], 1) = (in_doubt, unanswered) {
            self.clear(only.id());
            return vec![Some(Blame::Alone)];
        }
        if self.ids.len() + in_doubt.len() > IN_DOUBT_MAX {
            self.ids.clear();
        }
        self.ids.extend(in_doubt.iter().map(|sent| sent.id().to_owned()));
        vec![None; in_doubt.len()]
    }
}

/// `PRECONDITION_FAILED - message size 1001 is larger than configured max size 1000`
fn named_limit(text: &str) -> Option<usize> {
    let (_, limit) = text.split_once("max size ")?;
    limit.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_brokers_limit_is_read_from_its_words() {
        for (text, limit) in [
            ("PRECONDITION_FAILED - message size 1001 is larger than configured max size 1000", Some(1000)),
            ("PRECONDITION_FAILED - message size 1001 is larger than max size 1000 (bytes)", Some(1000)),
            ("PRECONDITION_FAILED - invalid expiration 'x'", None),
            ("PRECONDITION_FAILED - larger than max size ever", None),
        ] {
            assert_eq!(named_limit(text), limit, "{text}");
        }
    }
}
