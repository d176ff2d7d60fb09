//! Whether a store answers, as the routes that share it find out: told once when it stops, and once when it is back.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

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

    /// Notes that the store answered. Returns how long it had not.
    pub(crate) fn ended(&self, now: Duration) -> Option<Duration> {
        let mut record = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let since = record.since.take()?;
        record.ended = Some(now);
        Some(now.saturating_sub(since))
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
}
