//! How fast a route goes while its destination answers and refuses.
//!
//! ```text
//!           ten keys refused in a row          fifty, for a second, and nothing succeeds
//!   full ────────────────────────────► wary ────────────────────────────────────────────► slow
//!    ▲                                  │ ▲                                                 │
//!    └── two seconds without a refusal ─┘ └───────────────── one succeeds ──────────────────┘
//! ```
//!
//! Wary: the engine reads further ahead and sends the newest too, because what is refused may be a cluster of bad
//! events with good ones behind it. Slow: a few different events at once, with growing pauses. Neither stops anything,
//! and neither is the breaker: that one is for a destination that does not answer.

use std::collections::HashSet;
use std::time::Duration;

use foldhash::HashMap;

/// Keys refused in a row that make a route wary.
const WARY_KEYS: usize = 10;
/// How long it stays so after a refusal.
const WARY_FOR: Duration = Duration::from_secs(2);
/// Keys refused in a row, and for how long at least, that slow it down: events further ahead must have had their
/// chance.
const SLOW_KEYS: usize = 50;
const SLOW_AFTER: Duration = Duration::from_secs(1);
/// First and longest pause between two rounds of probes.
const SLOW_PAUSE: (Duration, Duration) = (Duration::from_millis(250), Duration::from_secs(1));
/// Fewest and most probes of a round.
const SLOW_PROBES: (usize, usize) = (4, 16);
/// How many types are told apart.
const KINDS_MAX: usize = 256;
/// How long a refusal or a success counts.
const MEMORY: Duration = Duration::from_mins(1);

#[derive(Debug, Clone, Copy)]
struct Slow {
    next: Duration,
    pause: Duration,
}

/// Refusals since something last succeeded.
#[derive(Debug, Default)]
pub(super) struct Pace {
    keys: HashSet<u64>,
    kinds: HashSet<u64>,
    // The keys of each type that were refused since one of that type last succeeded.
    by_kind: HashMap<u64, HashSet<u64>>,
    // Whether the last one that was tried again failed; true from the first refusal on.
    again_fails: bool,
    first: Duration,
    last: Duration,
    wary_until: Duration,
    slow: Option<Slow>,
    // When something last succeeded, and of which type it was.
    succeeded: Option<(Duration, u64)>,
}

impl Pace {
    /// Notes that a delivery of this type succeeded, at the first try or `again`.
    pub(super) fn succeeded(&mut self, now: Duration, kind: u64, again: bool) {
        self.succeeded = Some((now, kind));
        self.again_fails &= !again;
        self.by_kind.remove(&kind);
        self.forget();
    }

    /// Notes that a delivery of this key and type was refused.
    pub(super) fn refused(&mut self, now: Duration, key: u64, kind: u64) {
        self.expire(now);
        if self.keys.is_empty() {
            self.first = now;
        }
        self.last = now;
        self.again_fails = true;
        if (self.by_kind.len() < KINDS_MAX || self.by_kind.contains_key(&kind)) && !self.is_doubtful(kind) {
            self.by_kind.entry(kind).or_default().insert(key);
        }
        if self.keys.len() < SLOW_KEYS {
            self.keys.insert(key);
            self.kinds.insert(kind);
        }
        if self.keys.len() >= WARY_KEYS || self.is_wary(now) {
            self.wary_until = now + WARY_FOR;
        }
        let everything = self.keys.len() >= SLOW_KEYS && now >= self.first + SLOW_AFTER && !self.others_succeed(now);
        if everything && self.slow.is_none() {
            self.slow = Some(Slow { next: now + SLOW_PAUSE.0, pause: SLOW_PAUSE.0 });
        }
    }

    /// Whether all refused ones are of one type, and one of another type has succeeded lately.
    fn others_succeed(&self, now: Duration) -> bool {
        let recent = self.succeeded.filter(|(at, _)| now <= *at + MEMORY);
        recent.is_some_and(|(_, kind)| self.kinds.len() == 1 && !self.kinds.contains(&kind))
    }

    /// Forgets what was refused long ago: it says nothing about now.
    pub(super) fn expire(&mut self, now: Duration) {
        if now > self.last + MEMORY {
            self.again_fails = false;
            self.by_kind.clear();
            self.forget();
        }
    }

    fn forget(&mut self) {
        self.keys.clear();
        self.kinds.clear();
        self.slow = None;
    }

    /// Whether what is tried again is likely to fail again.
    pub(super) fn again_fails(&self) -> bool {
        self.again_fails
    }

    /// Whether many keys of this type were refused since one last succeeded.
    pub(super) fn is_doubtful(&self, kind: u64) -> bool {
        self.by_kind.get(&kind).is_some_and(|keys| keys.len() >= WARY_KEYS)
    }

    pub(super) fn is_wary(&self, now: Duration) -> bool {
        now < self.wary_until
    }

    pub(super) fn is_slow(&self) -> bool {
        self.slow.is_some()
    }

    /// Whether events of this type are among those that were refused.
    pub(super) fn refuses(&self, kind: u64) -> bool {
        self.kinds.contains(&kind)
    }

    /// When the next probes may go, while slow.
    pub(super) fn next_round(&self) -> Option<Duration> {
        self.slow.map(|slow| slow.next)
    }

    /// How many may go now beside `probes` that are in flight, where `most` could be; no limit unless slow.
    pub(super) fn room(&self, now: Duration, most: usize, probes: usize) -> usize {
        match self.slow {
            None => usize::MAX,
            Some(slow) if now < slow.next => 0,
            Some(_) => (most / 4).clamp(SLOW_PROBES.0, SLOW_PROBES.1).saturating_sub(probes),
        }
    }

    /// Notes that a round of probes was sent.
    pub(super) fn sent(&mut self, now: Duration) {
        if let Some(slow) = &mut self.slow {
            slow.next = now + slow.pause;
            slow.pause = (slow.pause * 2).min(SLOW_PAUSE.1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: Duration = Duration::from_secs(1);

    /// Refuses `keys` keys of a type, the last of them at `until`.
    fn refuse(pace: &mut Pace, keys: u64, kind: u64, until: Duration) {
        for key in 0..keys {
            pace.refused(if key + 1 == keys { until } else { S }, key, kind);
        }
    }

    #[test]
    fn one_bad_key_changes_nothing_and_ten_make_it_wary_for_a_while() {
        let mut pace = Pace::default();
        for _ in 0..1000 {
            pace.refused(S, 7, 1);
        }
        assert!(!pace.is_wary(S) && !pace.is_slow());
        refuse(&mut pace, 10, 1, S);
        pace.succeeded(S, 1, false);
        assert!(pace.is_wary(S + WARY_FOR / 2), "one that succeeds is no proof that the cluster is over");
        assert!(!pace.is_wary(S + WARY_FOR));
    }

    #[test]
    fn it_slows_down_when_nothing_succeeds_and_not_before_others_had_their_chance() {
        let mut pace = Pace::default();
        refuse(&mut pace, 400, 1, S);
        assert!(!pace.is_slow());
        refuse(&mut pace, 1, 1, S + SLOW_AFTER);
        assert!(pace.is_slow());
        assert_eq!(pace.room(S + SLOW_AFTER, 512, 0), 0, "a pause first");
        pace.succeeded(2 * S, 1, false);
        assert!(!pace.is_slow());
        assert_eq!(pace.room(2 * S, 512, 0), usize::MAX);
    }

    #[test]
    fn pauses_grow_and_probes_are_few() {
        let mut pace = Pace::default();
        refuse(&mut pace, 100, 1, 2 * S);
        let (mut now, mut pauses) = (2 * S, Vec::new());
        for _ in 0..5 {
            let next = pace.next_round().expect("slow");
            pauses.push(next.abs_diff(now).as_millis());
            now = next;
            assert_eq!((pace.room(now, 512, 0), pace.room(now, 8, 1), pace.room(now, 8, 4)), (16, 3, 0));
            pace.sent(now);
        }
        assert_eq!(pauses, [250, 250, 500, 1000, 1000]);
    }

    #[test]
    fn one_type_that_fails_slows_nothing_down_while_others_succeed() {
        let mut pace = Pace::default();
        pace.succeeded(S, 2, false);
        refuse(&mut pace, 400, 1, 5 * S);
        assert!(!pace.is_slow());
        refuse(&mut pace, 1, 2, 6 * S);
        pace.succeeded(6 * S, 2, false);
        refuse(&mut pace, 400, 2, 9 * S);
        assert!(pace.is_slow(), "the type that had succeeded is the one that fails now");
    }

    #[test]
    fn a_type_is_doubtful_until_one_of_it_succeeds() {
        let mut pace = Pace::default();
        refuse(&mut pace, 10, 1, S);
        pace.succeeded(S, 2, false);
        assert!(pace.is_doubtful(1) && !pace.is_doubtful(2) && pace.again_fails());
        pace.succeeded(S, 1, true);
        assert!(!pace.is_doubtful(1) && !pace.again_fails());
    }

    #[test]
    fn old_refusals_are_forgotten() {
        let mut pace = Pace::default();
        refuse(&mut pace, 400, 1, 5 * S);
        pace.expire(5 * S + MEMORY);
        assert!(pace.is_slow());
        pace.expire(6 * S + MEMORY);
        assert!(!pace.is_slow() && !pace.again_fails() && !pace.is_doubtful(1));
    }
}
