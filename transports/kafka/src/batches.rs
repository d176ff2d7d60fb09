//! How large librdkafka's batches may be.
//!
//! A topic's `max.message.bytes` is about whole batches, and librdkafka neither knows it nor splits a batch that is refused.
//! So batches stay below the smallest limit we know. When one is refused all the same (the limit may not be ours to
//! read, or just have changed, or counts after compression), what it held comes again one by one: then a refusal is about
//! one event. If none of them was refused alone, it was their sum, and batches are made smaller.

use crate::LOG;
use crate::options::{BATCH_BYTES, Batches};

/// Below this, smaller batches help nobody.
const SMALLEST: usize = 1024;

/// What we know of the sizes the topics take.
#[derive(Debug)]
pub(crate) struct BatchSizes {
    bytes: usize,
    one_by_one: Option<OneByOne>,
}

#[derive(Debug)]
struct OneByOne {
    /// So many have to be acknowledged before batches are made again.
    left: usize,
    culprit_found: bool,
}

impl BatchSizes {
    pub(crate) fn new() -> Self {
        Self { bytes: BATCH_BYTES, one_by_one: None }
    }

    /// How the next producer makes its batches.
    pub(crate) fn next(&self) -> Batches {
        if self.one_by_one.is_some() { Batches::Single } else { Batches::Bytes(self.bytes) }
    }

    /// A topic takes no more than so much.
    pub(crate) fn topic_takes(&mut self, bytes: usize) {
        self.bytes = self.bytes.min(bytes.max(SMALLEST));
    }

    /// A batch was refused when so many were unacknowledged, and so many had been acknowledged by this producer.
    pub(crate) fn refused(&mut self, unacknowledged: usize, acknowledged: usize) {
        match &mut self.one_by_one {
            Some(one_by_one) => {
                one_by_one.culprit_found = true;
                one_by_one.left = one_by_one.left.saturating_sub(acknowledged + 1);
            }
            None => self.one_by_one = Some(OneByOne { left: unacknowledged, culprit_found: false }),
        }
    }

    /// So many were acknowledged by this producer: enough of them one by one?
    pub(crate) fn acknowledged(&mut self, acknowledged: usize, route: &str) {
        let Some(done) = self.one_by_one.take_if(|one_by_one| acknowledged >= one_by_one.left) else { return };
        if !done.culprit_found {
            self.bytes = (self.bytes / 2).max(SMALLEST);
            tracing::warn!(
                target: LOG, route, batch_bytes = self.bytes,
                "a batch was refused and none of its events: batches are made smaller; let this user read the topic's \
                 configuration (DESCRIBE_CONFIGS), and they fit from the start"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_batch_comes_one_by_one_until_its_events_are_through() {
        let mut sizes = BatchSizes::new();
        assert_eq!(sizes.next(), Batches::Bytes(BATCH_BYTES));
        sizes.refused(10, 500);
        assert_eq!(sizes.next(), Batches::Single);
        sizes.acknowledged(3, "r");
        // The fourth was the culprit.
        sizes.refused(6, 3);
        sizes.acknowledged(5, "r");
        assert_eq!(sizes.next(), Batches::Single);
        sizes.acknowledged(6, "r");
        assert_eq!(sizes.next(), Batches::Bytes(BATCH_BYTES));
    }

    #[test]
    fn batches_get_smaller_when_only_their_sum_was_too_much() {
        let mut sizes = BatchSizes::new();
        sizes.topic_takes(100_000);
        sizes.refused(2, 0);
        sizes.acknowledged(2, "r");
        assert_eq!(sizes.next(), Batches::Bytes(50_000));
        for _ in 0..20 {
            sizes.refused(1, 0);
            sizes.acknowledged(1, "r");
        }
        assert_eq!(sizes.next(), Batches::Bytes(SMALLEST));
    }
}
