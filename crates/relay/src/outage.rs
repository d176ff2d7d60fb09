//! Whether a store answers, as the routes that share it find out: told once when it stops, and once when it is back.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// How long a store must have been away before an answer ends the outage. A server that shuts down ends its sessions one after
/// the other: the next one may still answer, and the store is no more back than gone.
const AWAY_MIN: Duration = Duration::from_secs(1);

/// Outage of a store, shared by the engines of its routes.
#[derive(Debug, Clone, Default)]
pub(crate) struct StoreOutage(Arc<Mutex<Record>>);

#[derive(Debug, Default)]
struct Record {
    since: Option<Duration>,
    ended: Option<Duration>,
}

impl StoreOutage {
    /// Notes that the store did not answer. Returns whether it had answered until then.
    pub(crate) fn began(&self, now: Duration) -> bool {
        let mut record = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_new = record.since.is_none();
        record.since.get_or_insert(now);
        is_new
    }

    /// Notes that the store answered. Returns how long it had not, once the outage is over.
    pub(crate) fn ended(&self, now: Duration) -> Option<Duration> {
        let mut record = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let away = now.saturating_sub(record.since?);
        if away < AWAY_MIN {
            return None;
        }
        *record = Record { since: None, ended: Some(now) };
        Some(away)
    }

    /// Notes that the store was away, and back before a call failed.
    pub(crate) fn passed(&self, now: Duration) {
        let mut record = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        record.ended = Some(now);
    }

    /// Returns whether the store does not answer, or did not within this time.
    pub(crate) fn is_recent(&self, now: Duration, within: Duration) -> bool {
        let record = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        record.since.is_some() || record.ended.is_some_and(|ended| now < ended + within)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outage_begins_once_and_ends_once_whoever_finds_out() {
        let (outage, at) = (StoreOutage::default(), Duration::from_secs);
        let other = outage.clone();
        assert_eq!((outage.ended(at(1)), outage.is_recent(at(1), at(30))), (None, false));
        assert_eq!((outage.began(at(2)), other.began(at(3)), outage.began(at(4))), (true, false, false));
        assert!(other.is_recent(at(100), at(30)));
        assert_eq!((other.ended(at(6)), outage.ended(at(7))), (Some(at(4)), None));
        assert!(outage.is_recent(at(30), at(30)) && !outage.is_recent(at(36), at(30)));
    }

    #[test]
    fn an_answer_of_a_session_that_is_about_to_end_too_is_not_the_end_of_an_outage() {
        let (outage, at) = (StoreOutage::default(), Duration::from_millis);
        assert!(outage.began(at(100)));
        assert_eq!(outage.ended(at(130)), None);
        assert!(!outage.began(at(160)), "the same outage goes on");
        assert_eq!(outage.ended(at(1_100)), Some(at(1_000)));
    }
}
