//! One event on its way to one route, and what may become of it.
//!
//! ```text
//!             ┌────────── unavailable (no attempt counted) ──────────┐
//!             ▼                                                      │
//!   due ──► in flight ──── delivered ──────────────────────────────► done
//!    ▲        │  └──────── permanent, or attempts used up ─────────► dead ──(on_dead = hold: the key waits)
//!    │        └─────────── transient ──► retrying ──(due time)──► due
//!    │                                       ▲
//!    │   a later event of its key ──────► blocked ──(the earlier one is done)──► due
//!    │   a future available_at ─────────► delayed ──(its time)─────────────────► due
//!    └── an operator replays a dead or a done one; an operator discards a dead one ──► gone
//! ```
//!
//! [`verdict`] is the arrow out of "in flight"; stores write what it says and decide nothing themselves.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::breaker::RETRY_AFTER_MAX;
use crate::event::Event;
use crate::failure::{Failure, FailureKind};
use crate::retry::RetryPolicy;
use crate::transport::{Outcome, Receipt};

/// The state of a delivery that did not go straight through, as stores spell it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum DeliveryState {
    /// To be handed out as soon as a relay looks.
    Due,
    /// Failed; to be tried again at its due time.
    Retrying,
    /// Behind an earlier event of its key.
    Blocked,
    /// Its `available_at` lies ahead.
    Delayed,
    /// Given up; waits for an operator.
    Dead,
}

impl DeliveryState {
    /// The word in tables, filters and output.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Due => "due",
            Self::Retrying => "retrying",
            Self::Blocked => "blocked",
            Self::Delayed => "delayed",
            Self::Dead => "dead",
        }
    }

    /// The state of this word.
    pub fn parse(word: &str) -> Option<Self> {
        [Self::Due, Self::Retrying, Self::Blocked, Self::Delayed, Self::Dead].into_iter().find(|s| s.as_str() == word)
    }
}

/// A lane under one ownership: settles of an older term are refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LaneTerm {
    /// The lane.
    pub lane: u32,
    /// The ownership; grows with every take-over.
    pub term: i64,
}

/// One event handed to a relay for one route.
#[derive(Debug, Clone)]
pub struct Delivery {
    /// The source's own name for it; unique among what it has handed out and not seen settled.
    pub handle: i64,
    /// The lane and ownership it was taken under.
    pub lane: LaneTerm,
    /// The event.
    pub event: Arc<Event>,
    /// Its number in the log; adopted tables have none.
    pub position: Option<i64>,
    /// Failed tries so far.
    pub attempts: u32,
    /// Whether later events of its key must wait for it. Delayed and replayed ones block nobody.
    pub ordered: bool,
    /// When it was appended.
    pub appended_at: Timestamp,
}

impl Delivery {
    /// The key whose order it keeps, if it has one and keeps it.
    pub fn order_key(&self) -> Option<&str> {
        if self.ordered { self.event.ordering_key() } else { None }
    }
}

/// What becomes of a delivery that was in flight.
#[derive(Debug, Clone, PartialEq)]
pub enum Verdict {
    /// Done.
    Delivered(Receipt),
    /// Again after this long; `attempts` failed tries in all.
    Retry {
        /// Failed tries so far, this one included.
        attempts: u32,
        /// How long to wait, by the database's clock.
        after: Duration,
        /// Why.
        failure: Failure,
    },
    /// Given up after `attempts` failed tries.
    Dead {
        /// Failed tries so far, this one included.
        attempts: u32,
        /// Why.
        failure: Failure,
    },
    /// Not tried, or the destination was down: as if it had never been handed out.
    Returned,
}

/// A verdict on its way into the store.
#[derive(Debug, Clone, PartialEq)]
pub struct Settlement {
    /// Which delivery.
    pub handle: i64,
    /// The ownership under which it was taken.
    pub lane: LaneTerm,
    /// What became of it.
    pub verdict: Verdict,
    /// How long the try took.
    pub took: Duration,
}

/// The one place where an outcome becomes a verdict. `attempts` are the failed tries before this one; `random` in 0..1.
pub fn verdict(attempts: u32, outcome: Outcome, policy: &RetryPolicy, random: f64) -> Verdict {
    let failure = match outcome {
        Ok(receipt) => return Verdict::Delivered(receipt),
        Err(failure) => failure,
    };
    let (before, attempts) = (attempts, attempts.saturating_add(1));
    match failure.kind {
        FailureKind::Unavailable => Verdict::Returned,
        FailureKind::Permanent => Verdict::Dead { attempts, failure },
        FailureKind::Transient if policy.exhausted(attempts) && !failure.waits => Verdict::Dead { attempts, failure },
        FailureKind::Transient => {
            let after =
                policy.delay(attempts, random).max(failure.retry_after.unwrap_or_default().min(RETRY_AFTER_MAX));
            Verdict::Retry { attempts: if failure.waits { before } else { attempts }, after, failure }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(attempts: u32, outcome: Outcome) -> Verdict {
        verdict(attempts, outcome, &RetryPolicy { jitter: 0.0, ..RetryPolicy::default() }, 0.0)
    }

    #[test]
    fn success_is_done() {
        assert_eq!(check(3, Ok(Receipt::default())), Verdict::Delivered(Receipt::default()));
    }

    #[test]
    fn transient_counts_an_attempt_and_waits_as_long_as_the_receiver_asks() {
        let failure = Failure::transient("x", "y").retry_after(Duration::from_mins(1));
        let Verdict::Retry { attempts, after, .. } = check(0, Err(failure)) else { panic!("not retried") };
        assert_eq!((attempts, after.as_secs()), (1, 60));
    }

    #[test]
    fn the_last_attempt_is_death() {
        assert!(matches!(check(10, Err(Failure::transient("x", "y"))), Verdict::Retry { attempts: 11, .. }));
        assert!(matches!(check(11, Err(Failure::transient("x", "y"))), Verdict::Dead { attempts: 12, .. }));
    }

    #[test]
    fn what_is_too_early_waits_and_never_dies_of_it() {
        for before in [0, 11, 500] {
            let Verdict::Retry { attempts, .. } = check(before, Err(Failure::transient("x", "y").waits())) else {
                panic!("not retried")
            };
            assert_eq!(attempts, before);
        }
    }

    #[test]
    fn permanent_is_death_at_once_and_unavailable_costs_nothing() {
        assert!(matches!(check(0, Err(Failure::permanent("x", "y"))), Verdict::Dead { attempts: 1, .. }));
        assert_eq!(check(11, Err(Failure::unavailable("x", "y"))), Verdict::Returned);
    }
}
