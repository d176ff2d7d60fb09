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

/// State of a delivery that did not succeed at once, as stores spell it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum DeliveryState {
    /// The delivery is sent as soon as a relay reads it.
    Due,
    /// The delivery failed, and is retried at its due time.
    Retrying,
    /// The delivery waits behind an earlier event of its key.
    Blocked,
    /// The `available_at` of the event lies ahead.
    Delayed,
    /// The delivery was given up, and waits for an operator.
    Dead,
}

impl DeliveryState {
    /// Returns the name of the state in tables, filters and output.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Due => "due",
            Self::Retrying => "retrying",
            Self::Blocked => "blocked",
            Self::Delayed => "delayed",
            Self::Dead => "dead",
        }
    }

    /// Parses the name of a state.
    pub fn parse(word: &str) -> Option<Self> {
        [Self::Due, Self::Retrying, Self::Blocked, Self::Delayed, Self::Dead].into_iter().find(|s| s.as_str() == word)
    }
}

/// Lane under one ownership: settles of an older term are refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LaneTerm {
    /// Number of the lane.
    pub lane: u32,
    /// Term of the ownership; grows with every take-over.
    pub term: i64,
}

/// Delivery of an event to a route.
#[derive(Debug, Clone)]
pub struct Delivery {
    /// Handle of the delivery; unique among deliveries of the source that are not settled.
    pub handle: i64,
    /// Lane and term under which the delivery was taken.
    pub lane: LaneTerm,
    /// Event to deliver.
    pub event: Arc<Event>,
    /// Position of the event in the log; adopted tables have none.
    pub position: Option<i64>,
    /// Number of failed attempts so far.
    pub attempts: u32,
    /// Whether later events of its key must wait for it. Delayed and replayed ones do not block.
    pub ordered: bool,
    /// Time at which the event was appended.
    pub appended_at: Timestamp,
    /// Why the event cannot be sent, if that was found out when it was read: it is given up, as a dead letter only.
    pub refused: Option<Box<Failure>>,
}

impl Delivery {
    /// Returns the key whose order the delivery keeps, if any.
    pub fn order_key(&self) -> Option<&str> {
        if self.ordered { self.event.ordering_key() } else { None }
    }
}

/// Verdict on a delivery that was in flight.
#[derive(Debug, Clone, PartialEq)]
pub enum Verdict {
    /// The event is delivered.
    Delivered(Receipt),
    /// The event is retried after this long; `attempts` failed so far.
    Retry {
        /// Failed tries so far, this one included.
        attempts: u32,
        /// How long to wait, by the database's clock.
        after: Duration,
        /// Why.
        failure: Failure,
    },
    /// The event is given up after `attempts` failed attempts.
    Dead {
        /// Failed tries so far, this one included.
        attempts: u32,
        /// Why.
        failure: Failure,
        /// Whether the transport has published it as a dead letter.
        published: bool,
    },
    /// The event was not tried, or the destination was down: it is as if it had never been sent.
    Returned,
}

/// Verdict that is to be written to the store.
#[derive(Debug, Clone, PartialEq)]
pub struct Settlement {
    /// Handle of the delivery.
    pub handle: i64,
    /// Lane and term under which the delivery was taken.
    pub lane: LaneTerm,
    /// Verdict on the delivery.
    pub verdict: Verdict,
    /// Duration of the attempt.
    pub took: Duration,
}

/// Turns an outcome into a verdict. `attempts` failed before this one; `random` is in 0..1.
pub fn verdict(attempts: u32, outcome: Outcome, policy: &RetryPolicy, random: f64) -> Verdict {
    let failure = match outcome {
        Ok(receipt) => return Verdict::Delivered(receipt),
        Err(failure) => failure,
    };
    let (before, attempts) = (attempts, attempts.saturating_add(1));
    match failure.kind {
        FailureKind::Unavailable | FailureKind::Gone => Verdict::Returned,
        FailureKind::Permanent => Verdict::Dead { attempts, failure, published: false },
        FailureKind::Transient if policy.exhausted(attempts) => Verdict::Dead { attempts, failure, published: false },
        FailureKind::Crashed if policy.crashed_too_often(attempts) => {
            Verdict::Dead { attempts, failure, published: false }
        }
        FailureKind::Transient | FailureKind::NotYet | FailureKind::Crashed => {
            let after =
                policy.delay(attempts, random).max(failure.retry_after.unwrap_or_default().min(RETRY_AFTER_MAX));
            Verdict::Retry {
                attempts: if failure.kind == FailureKind::NotYet { before } else { attempts },
                after,
                failure,
            }
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
    fn a_crash_is_counted_and_one_alone_is_no_death_even_where_the_first_error_is() {
        let dies_at = |attempts, crashes| {
            let policy = RetryPolicy::default().attempts(attempts).crashes(crashes);
            (0..100).find(|before| {
                matches!(verdict(*before, Err(Failure::crashed("x", "y")), &policy, 0.0), Verdict::Dead { .. })
            })
        };
        assert_eq!((dies_at(1, Some(3)), dies_at(12, Some(3)), dies_at(1, None)), (Some(2), Some(11), None));
    }

    #[test]
    fn what_is_too_early_waits_and_never_dies_of_it() {
        for before in [0, 11, 500] {
            let Verdict::Retry { attempts, .. } = check(before, Err(Failure::not_yet("x", "y"))) else {
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
