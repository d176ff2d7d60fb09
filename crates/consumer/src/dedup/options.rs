//! How long a window remembers, and whether that is long enough.

use std::time::Duration;

use postroom_core::RetryPolicy;
use postroom_core::units::format_duration;

/// Options of a deduplication window.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct DedupWindowOptions {
    pub(super) length: Duration,
    pub(super) claim: Duration,
    pub(super) entries_max: usize,
    retries: Duration,
    redelivery: Duration,
    may_be_shorter: bool,
}

/// Reason why a window is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DedupWindowError {
    /// It would forget an event that may still come again.
    #[error(
        "a window of {} is shorter than the {} in which an event may come again ({} of retries, {} of redelivery): \
         make it longer with `length`, or say `allow_shorter_than_retries`",
        format_duration(*length), whole(retries.saturating_add(*redelivery)), whole(*retries), whole(*redelivery)
    )]
    TooShort {
        /// Its length.
        length: Duration,
        /// The longest the relay's retries take.
        retries: Duration,
        /// What else was said.
        redelivery: Duration,
    },
    /// A claim that lasts no time, or longer than the window.
    #[error("a claim of {} does not fit a window of {}: it must be longer than nothing and at most as long",
        format_duration(*claim), format_duration(*length))]
    Claim {
        /// Its length.
        claim: Duration,
        /// The window's.
        length: Duration,
    },
    /// No room.
    #[error("a window for no entries remembers nothing")]
    NoEntries,
}

/// In whole seconds, rounded up: what a window must be made.
fn whole(duration: Duration) -> String {
    format_duration(Duration::from_secs(duration.as_secs().saturating_add(u64::from(duration.subsec_nanos() > 0))))
}

impl DedupWindowOptions {
    /// Creates options of a window of 10 minutes for a relay with these retries, with claims of one minute and 100,000 entries.
    ///
    /// The default retries of a route take 38 minutes: such a window is refused until it is longer.
    pub fn new(retries: &RetryPolicy) -> Self {
        Self {
            length: Duration::from_mins(10),
            claim: Duration::from_mins(1),
            entries_max: 100_000,
            retries: retries.horizon(),
            redelivery: Duration::ZERO,
            may_be_shorter: false,
        }
    }

    /// Sets the time that a confirmed event is remembered.
    pub fn length(mut self, length: Duration) -> Self {
        self.length = length;
        self
    }

    /// Sets the time that the effect may take before others may try.
    ///
    /// Too short and a slow effect happens twice; too long and the events of a crashed consumer wait. Defaults to 1 minute.
    pub fn claim(mut self, claim: Duration) -> Self {
        self.claim = claim;
        self
    }

    /// Sets the time after the relay's last attempt in which a duplicate may still come: redeliveries of the broker, outages, replays of operators.
    ///
    /// Defaults to nothing, which is right only for handlers inside the relay that nobody replays to.
    pub fn redelivery(mut self, redelivery: Duration) -> Self {
        self.redelivery = redelivery;
        self
    }

    /// Allows a window that is shorter than the time in which an event may come again: late duplicates are then processed twice.
    pub fn allow_shorter_than_retries(mut self) -> Self {
        self.may_be_shorter = true;
        self
    }

    /// Sets the maximum number of events in memory; about 200 bytes each. Redis has its own limits.
    ///
    /// When it is full, new events are `window.full`, which pauses a route, rather than forgotten ones done twice.
    ///
    /// Defaults to 100,000: 166 events a second for ten minutes.
    pub fn entries_max(mut self, entries_max: usize) -> Self {
        self.entries_max = entries_max;
        self
    }

    /// Returns the length of the window and of a claim, if both are valid.
    pub fn checked(&self) -> Result<(Duration, Duration), DedupWindowError> {
        let Self { length, claim, retries, redelivery, .. } = *self;
        if !self.may_be_shorter && length < retries.saturating_add(redelivery) {
            return Err(DedupWindowError::TooShort { length, retries, redelivery });
        }
        if claim.is_zero() || claim > length {
            return Err(DedupWindowError::Claim { claim, length });
        }
        if self.entries_max == 0 {
            return Err(DedupWindowError::NoEntries);
        }
        Ok((length, claim))
    }
}
