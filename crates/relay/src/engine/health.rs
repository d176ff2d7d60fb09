//! How the route is doing: what its store, its operator and its destination say, the gravest first.

use std::time::Duration;

use postroom_core::{Ownership, RouteHealth, RouteState, Timestamp};

use super::destination::Destination;

/// How long takes may fail before the route counts as down.
const TROUBLE_MIN: Duration = Duration::from_secs(5);

/// A route's health, and what it is worked out from.
#[derive(Debug)]
pub(super) struct Health {
    current: RouteHealth,
    // When the destination is tried again, by the engine's clock.
    next_try: Option<Duration>,
    // Why the store reads no further; only a take knows.
    halted: Option<String>,
    // Which counts differ; only a renewal knows.
    differs: Option<String>,
    // Since when takes fail, and why.
    trouble: Option<(Duration, String)>,
    stands_by: bool,
    // The rate that was stored last.
    stored_rate: f64,
    // Whether a renewal has said when a probe was last asked for, and when that was.
    knows_probes: bool,
    probe_seen: Option<Timestamp>,
    recent: RecentRate,
}

impl Health {
    pub(super) fn new(now: Duration, wall: Timestamp) -> Self {
        Self {
            current: RouteHealth { since: Some(wall), ..RouteHealth::running() },
            next_try: None,
            halted: None,
            differs: None,
            trouble: None,
            stands_by: false,
            stored_rate: 0.0,
            knows_probes: false,
            probe_seen: None,
            recent: RecentRate::new(now),
        }
    }

    pub(super) fn state(&self) -> RouteState {
        self.current.state
    }

    /// Returns the health to store, with the rate of the last seconds.
    pub(super) fn store(&mut self, now: Duration) -> RouteHealth {
        self.stored_rate = self.recent.per_second(now);
        RouteHealth { rate: self.stored_rate, ..self.current.clone() }
    }

    /// Counts deliveries that were settled. Returns whether the store says of the route that it delivers nothing.
    pub(super) fn delivered(&mut self, now: Duration, deliveries: usize) -> bool {
        self.recent.add(now, deliveries);
        deliveries > 0 && self.stored_rate <= 0.0
    }

    /// Returns whether the route delivers, or the store says so: then its rate changes from second to second.
    pub(super) fn is_delivering(&self, now: Duration) -> bool {
        self.stored_rate > 0.0 || self.recent.per_second(now) > 0.0
    }

    /// Keeps what a take reports. Returns whether the relay begins to stand by, because it owns no lane.
    pub(super) fn took(&mut self, report: &Ownership) -> bool {
        self.halted.clone_from(&report.halted);
        self.trouble = None;
        // What the relay gave up itself it takes again at once.
        let stood_by = std::mem::replace(&mut self.stands_by, report.lanes == 0 && !report.given_up);
        self.stands_by && !stood_by
    }

    pub(super) fn take_failed(&mut self, now: Duration, why: String) {
        let since = self.trouble.take().map_or(now, |(since, _)| since);
        self.trouble = Some((since, why));
    }

    /// Keeps what a renewal reports.
    pub(super) fn renewed(&mut self, report: &Ownership) {
        self.differs.clone_from(&report.differs);
    }

    /// Keeps when a probe was last asked for. Returns whether that was since the last renewal.
    pub(super) fn probe_is_wanted(&mut self, asked: Option<Timestamp>) -> bool {
        let is_new = self.knows_probes && asked > self.probe_seen;
        (self.knows_probes, self.probe_seen) = (true, asked);
        is_new
    }

    /// Works out the health. Returns it if it changed.
    pub(super) fn update(
        &mut self,
        now: Duration,
        wall: Timestamp,
        paused: bool,
        to: &mut Destination,
    ) -> Option<&RouteHealth> {
        let down = self.trouble.as_ref().filter(|(since, _)| now >= *since + TROUBLE_MIN);
        let (mut next_try, (state, message)) = (
            None,
            match (&self.halted, down, &self.differs) {
                (Some(why), _, _) => (RouteState::Halted, why.as_str()),
                _ if paused => (RouteState::Paused, ""),
                (None, Some((_, why)), _) => (RouteState::Down, why.as_str()),
                (None, None, Some(counts)) => (RouteState::CountsDiffer, counts.as_str()),
                (None, None, None) => to.state(now),
            },
        );
        let message = message.to_owned();
        if matches!(state, RouteState::BreakerOpen | RouteState::Slowed) {
            next_try = to.next_try(now);
        }
        let is_outage = |state| matches!(state, RouteState::BreakerOpen | RouteState::HalfOpen);
        let before = self.current.state;
        if before == state && self.current.message == message && self.next_try == next_try {
            return None;
        }
        let goes_on = before == state || is_outage(before) && is_outage(state);
        self.next_try = next_try;
        let at = next_try.and_then(|at| wall.checked_add(at.saturating_sub(now)).ok());
        let since = if goes_on { self.current.since } else { Some(wall) };
        self.current = RouteHealth { since, next_try: at, ..RouteHealth::new(state, message) };
        Some(&self.current)
    }
}

/// Deliveries of the last ten seconds, second by second.
#[derive(Debug)]
struct RecentRate {
    began: Duration,
    // The second that each count is of, and the count.
    seconds: [(u64, usize); Self::SECONDS],
}

impl RecentRate {
    const SECONDS: usize = 10;

    fn new(now: Duration) -> Self {
        Self { began: now, seconds: [(0, 0); Self::SECONDS] }
    }

    fn add(&mut self, now: Duration, deliveries: usize) {
        let second = now.as_secs();
        let place = &mut self.seconds[usize::try_from(second % Self::SECONDS as u64).unwrap_or(0)];
        if place.0 != second {
            *place = (second, 0);
        }
        place.1 += deliveries;
    }

    fn per_second(&self, now: Duration) -> f64 {
        let window = Self::SECONDS as u64;
        let recent = self.seconds.iter().filter(|(second, _)| second + window > now.as_secs());
        let deliveries: usize = recent.map(|(_, count)| count).sum();
        let lasted = now.saturating_sub(self.began).as_secs_f64().clamp(1.0, window as f64);
        deliveries as f64 / lasted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_is_that_of_the_last_ten_seconds() {
        let at = Duration::from_secs;
        let mut rate = RecentRate::new(at(100));
        rate.add(at(101), 30);
        assert!((rate.per_second(at(102)) - 15.0).abs() < 0.01, "of the time it has lasted");
        rate.add(at(105), 70);
        assert!((rate.per_second(at(110)) - 10.0).abs() < 0.01);
        assert!((rate.per_second(at(112)) - 7.0).abs() < 0.01, "the first ones are too long ago");
        assert!(rate.per_second(at(200)).abs() < f64::EPSILON, "a stop is a stop");
    }
}
