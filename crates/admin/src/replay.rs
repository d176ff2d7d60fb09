//! Replays: what is asked for, what may become of one, and how fast it goes.
//!
//! A replay is a row in the store, done in steps; a step is one transaction that makes some deliveries due and moves the
//! cursor. What has been made due is due, so one can be paused or cancelled between any two steps. Who steps is the
//! caller's to decide; what a step is stands in each store.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use postroom_core::{Actor, StoreError, StoreErrorKind};

use crate::admin::{Admin, Selection};
use crate::view::{ReplayKind, ReplayRow, ReplayState};

/// Maximum number of deliveries of one step: few enough that no other session waits long.
pub const REPLAY_STEP: u64 = 1_000;

/// Order of a replay that is to be created.
#[derive(Debug, Clone, PartialEq)]
pub struct ReplayOrder {
    /// Kind of the replay.
    pub what: ReplayKind,
    /// Selection of events.
    pub which: Selection,
    /// Maximum deliveries per second; `None` is no limit.
    pub rate: Option<f64>,
    /// Whether events may be older than the retention of the inbox.
    pub allow_duplicates: bool,
    /// Number of deliveries that the preview counted.
    pub total: u64,
}

impl ReplayOrder {
    /// Checks that a store can carry out the replay.
    pub fn check(&self) -> Result<(), StoreError> {
        let invalid = |message: &str| StoreError::new(StoreErrorKind::Invalid, "replay", message.to_owned());
        if self.rate.is_some_and(|rate| !(rate.is_finite() && rate > 0.0)) {
            return Err(invalid("a rate must be more than 0").hint("leave it out to replay as fast as it goes"));
        }
        check_selection(self.what, &self.which)
    }

    /// Describes the replay as one line of JSON for the audit log.
    pub fn describe(&self, id: &str) -> String {
        let mut line = serde_json::json!(self.which);
        line["replay"] = id.into();
        line.to_string()
    }
}

/// Checks that the selection names the events to replay.
pub fn check_selection(what: ReplayKind, which: &Selection) -> Result<(), StoreError> {
    if what == ReplayKind::Settled && which.code.is_some() {
        return Err(StoreError::new(StoreErrorKind::Invalid, "replay", "settled events have no failure to select by")
            .hint("dead letters have: replay those"));
    }
    Ok(())
}

/// Change of a replay by an operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReplayChange {
    /// Pauses the replay.
    Pause,
    /// Resumes the replay.
    Resume,
    /// Cancels the replay.
    Cancel,
}

impl ReplayChange {
    /// Returns the state that the change leads to.
    pub fn to(self) -> ReplayState {
        match self {
            Self::Pause => ReplayState::Paused,
            Self::Resume => ReplayState::Running,
            Self::Cancel => ReplayState::Cancelled,
        }
    }

    /// Returns the name of the change in the audit log.
    pub fn action(self) -> &'static str {
        match self {
            Self::Pause => "replay.pause",
            Self::Resume => "replay.resume",
            Self::Cancel => "replay.cancel",
        }
    }

    /// Reports whether the change affects a replay in this state; fails if the replay has ended otherwise.
    pub fn changes(self, id: &str, state: ReplayState) -> Result<bool, StoreError> {
        match state {
            state if state == self.to() => Ok(false),
            ReplayState::Running | ReplayState::Paused => Ok(true),
            ReplayState::Cancelled | ReplayState::Delivering | ReplayState::Done => {
                let message = format!("replay {id} is {} already", state.as_str());
                Err(StoreError::new(StoreErrorKind::Conflict, "replay", message)
                    .hint(format!("see what it did: `postroom replay show {id}`")))
            }
        }
    }
}

/// Builds the error of a replay that does not exist.
pub fn no_replay(id: &str) -> StoreError {
    StoreError::new(StoreErrorKind::NotFound, "replay", format!("there is no replay {id}"))
        .hint("`postroom replay ls` shows those there are")
}

/// Number of deliveries that a replay may make due by now.
///
/// Time that nobody used is worth a second at most: after an outage a destination gets the rate, not a flood.
#[derive(Debug, Clone, Copy)]
pub struct Pace {
    rate: Option<f64>,
    now: Timestamp,
    /// Deliveries that are allowed, in parts.
    worth: f64,
}

impl Pace {
    /// Computes the pace of a replay at this time.
    pub fn new(rate: Option<f64>, stepped_at: Timestamp, now: Timestamp) -> Self {
        let seconds = now.duration_since(stepped_at).as_secs_f64().max(0.0);
        let worth = rate.map_or(f64::INFINITY, |rate| (rate * seconds).min(rate.max(1.0)));
        Self { rate, now, worth }
    }

    /// From when a replay counts that begins or goes on now: the first delivery may go at once.
    pub fn begin(rate: Option<f64>, now: Timestamp) -> Timestamp {
        rate.map_or(now, |rate| before(now, 1.0 / rate))
    }

    /// Returns how many deliveries are allowed now, at most `at_most`.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it saturates, and is not negative")]
    pub fn allowed(&self, at_most: u64) -> u64 {
        // Times are whole microseconds: what is missing for one of them is not missing.
        let grain = self.rate.map_or(0.0, |rate| rate * 2e-6);
        ((self.worth + grain) as u64).min(at_most)
    }

    /// From when it counts after so many.
    #[allow(clippy::cast_precision_loss, reason = "a step is small")]
    pub fn after(&self, made: u64) -> Timestamp {
        self.rate.map_or(self.now, |rate| before(self.now, (self.worth - made as f64) / rate))
    }
}

fn before(now: Timestamp, seconds: f64) -> Timestamp {
    let span = SignedDuration::try_from_secs_f64(seconds).unwrap_or(SignedDuration::ZERO);
    now.checked_sub(span).unwrap_or(now)
}

/// Replays the selected events, all of them before this returns; `None` if there are none.
///
/// For programs that replay by themselves. It asks nobody, and knows no rate.
pub async fn replay_at_once(
    admin: &dyn Admin,
    what: ReplayKind,
    which: &Selection,
    actor: &Actor,
) -> Result<Option<ReplayRow>, StoreError> {
    let preview = admin.preview_replay(what, which, None::<Duration>).await?;
    if preview.deliveries == 0 {
        return Ok(None);
    }
    let total = preview.deliveries;
    let order = ReplayOrder { what, which: which.clone(), rate: None, allow_duplicates: true, total };
    let mut row = admin.start_replay(&order, actor).await?;
    while row.state == ReplayState::Running {
        row = admin.step_replay(&row.id, REPLAY_STEP).await?;
    }
    Ok(Some(row))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: f64) -> Timestamp {
        Timestamp::UNIX_EPOCH.checked_add(SignedDuration::from_secs_f64(1e9 + seconds)).unwrap()
    }

    /// How many a replay of this rate made due by each of these moments.
    fn made(rate: f64, moments: &[f64]) -> Vec<u64> {
        let (mut stepped_at, mut all) = (Pace::begin(Some(rate), at(0.0)), 0);
        let mut made = Vec::new();
        for moment in moments {
            let pace = Pace::new(Some(rate), stepped_at, at(*moment));
            let some = pace.allowed(u64::MAX);
            stepped_at = pace.after(some);
            all += some;
            made.push(all);
        }
        made
    }

    #[test]
    fn the_first_goes_at_once_and_the_others_at_their_rate() {
        assert_eq!(made(2.0, &[0.0, 0.4, 0.5, 1.0, 1.5]), [1, 1, 2, 3, 4]);
        assert_eq!(made(0.1, &[0.0, 1.0, 9.0, 10.0, 20.0]), [1, 1, 1, 2, 3]);
    }

    #[test]
    fn looking_often_neither_loses_nor_wins_any() {
        for rate in [0.3, 3.0, 7.0, 50.0, 333.0] {
            let moments: Vec<f64> = (0..=1000).map(|n| f64::from(n) / 100.0).collect();
            let made = *made(rate, &moments).last().unwrap();
            let expected = rate * 10.0 + 1.0;
            assert!((made as f64 - expected).abs() <= 1.0, "{made} at {rate}");
        }
    }

    #[test]
    fn after_an_outage_comes_a_second_of_it_and_no_flood() {
        assert_eq!(made(50.0, &[0.0, 3600.0, 3600.0]), [1, 51, 51]);
        assert_eq!(made(50.0, &[0.0, -10.0]), [1, 1], "a clock that goes back allows none");
    }

    #[test]
    fn without_a_rate_only_the_step_is_a_limit() {
        let pace = Pace::new(None, at(0.0), at(0.0));
        assert_eq!((pace.allowed(1000), pace.after(1000)), (1000, at(0.0)));
    }

    #[test]
    fn what_the_audit_says_can_be_read_back() {
        let which = Selection {
            ids: vec!["a".to_owned()],
            event_type: Some(postroom_core::Pattern::parse("order.*").unwrap()),
            from: Some(at(1.5)),
            ..Selection::default()
        };
        assert_eq!(Selection::read(&which.describe()).unwrap(), which);
        let order = ReplayOrder { what: ReplayKind::Dead, which, rate: None, allow_duplicates: false, total: 1 };
        assert_eq!(
            order.describe("r-1"),
            r#"{"from":"2001-09-09T01:46:41.5Z","ids":["a"],"replay":"r-1","type":"order.*"}"#
        );
    }

    #[test]
    fn what_has_ended_stays_as_it_is() {
        assert!(ReplayChange::Pause.changes("r", ReplayState::Running).unwrap());
        assert!(!ReplayChange::Pause.changes("r", ReplayState::Paused).unwrap());
        assert!(!ReplayChange::Cancel.changes("r", ReplayState::Cancelled).unwrap());
        assert!(ReplayChange::Resume.changes("r", ReplayState::Done).is_err());
        assert!(ReplayChange::Cancel.changes("r", ReplayState::Done).is_err());
    }
}
